//! Host data on its way to the device, in pieces.
//!
//! What enters: bytes, and the buffer that they go to. What leaves: copies that run before everything that is submitted from
//! then on. Decided: wgpu copies what it is given to memory that the device reads, and gives that back when the device has
//! read it. New memory of that kind can cost more than the copy, so a long upload goes in pieces, and each waits for a moment
//! until the device is done with earlier ones: what is under way then stays within the first block that wgpu takes of such
//! memory, on a device that Kiln opened. Where the device is busy with other work the moment passes, and the upload takes new
//! memory: it does not wait for that work, unless very much is under way.

use std::sync::{Arc, Mutex};
#[cfg(not(target_arch = "wasm32"))]
use std::time::{Duration, Instant};

use kiln_array::Result;

#[cfg(not(target_arch = "wasm32"))]
use crate::adapter::FIRST_BLOCK;
use crate::engine::Engine;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::IN_FLIGHT_BYTES;
use crate::error::{Gpu, lock};

/// Bytes of a piece; whole words.
pub(crate) const PIECE: usize = 4 << 20;

/// Bytes that should be under way at most; the rest of the block is for parameters. From `IN_FLIGHT_BYTES` on an upload waits
/// however long it takes.
#[cfg(not(target_arch = "wasm32"))]
const ROOM: u64 = FIRST_BLOCK - PIECE as u64;

/// Written bytes from which on the device begins to copy: it works while the host writes the next piece.
const ENOUGH: u64 = PIECE as u64;

/// How long a whole piece waits for room: as long as new memory for it takes where that takes longest, on a discrete GPU
/// behind a bus. A smaller one waits a part of it.
#[cfg(not(target_arch = "wasm32"))]
const PATIENCE: Duration = Duration::from_micros(640);

/// Bytes that are touched at a time: an upload that comes meanwhile waits for no more.
#[cfg(not(target_arch = "wasm32"))]
const TOUCHED: usize = 1 << 20;

/// How much is under way.
#[derive(Clone, Default)]
pub(crate) struct Uploads(Arc<Mutex<Counts>>);

/// Bytes by how far they are.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    /// Being written.
    reserved: u64,
    /// Written, and their copy not submitted.
    written: u64,
    /// Submitted, and perhaps not copied.
    submitted: u64,
}

/// Room for a piece that is being written, until it is dropped.
struct Reserved<'a> {
    uploads: &'a Uploads,
    bytes: u64,
}

/// What a submission takes, until it is done: wgpu drops callbacks that it cannot call.
pub(crate) struct Submitted {
    uploads: Uploads,
    bytes: u64,
}

impl Uploads {
    /// Room for a piece, if not more than `most` bytes are under way then.
    fn reserve(&self, bytes: usize, most: u64) -> Option<Reserved<'_>> {
        let mut counts = lock(&self.0);
        let bytes = bytes as u64;
        let all = counts.reserved + counts.written + counts.submitted + bytes;
        (all <= most).then(|| {
            counts.reserved += bytes;
            Reserved { uploads: self, bytes }
        })
    }

    /// What was written so far, for a submission that is about to be made.
    pub(crate) fn submitting(&self) -> Submitted {
        let mut counts = lock(&self.0);
        let bytes = std::mem::take(&mut counts.written);
        counts.submitted += bytes;
        Submitted { uploads: self.clone(), bytes }
    }

    #[cfg(test)]
    pub(crate) fn counts(&self) -> Counts {
        *lock(&self.0)
    }
}

impl Reserved<'_> {
    /// The piece was written. Returns whether what is there should be submitted.
    fn wrote(self) -> bool {
        let mut counts = lock(&self.uploads.0);
        counts.written += self.bytes;
        counts.written >= ENOUGH
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        lock(&self.uploads.0).reserved -= self.bytes;
    }
}

impl Submitted {
    /// The submission was made just now: it lasts until that is done.
    pub(crate) fn accepted(self, gpu: &Gpu) {
        if self.bytes > 0 {
            gpu.queue.on_submitted_work_done(move || drop(self));
        }
    }

    /// The submission was refused, so wgpu keeps the copies for the next one. Returns how many bytes they have.
    pub(crate) fn refused(self) -> u64 {
        lock(&self.uploads.0).written += self.bytes;
        self.bytes
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        lock(&self.uploads.0).submitted -= self.bytes;
    }
}

impl Engine {
    /// Writes `data`, padded to whole words, before everything that is submitted from now on.
    pub(crate) fn write(&self, buffer: &wgpu::Buffer, data: &[u8]) -> Result<()> {
        let mut patient = true;
        for (piece, at) in data.chunks(PIECE).zip((0..).step_by(PIECE)) {
            let room = self.room_for(piece.len(), &mut patient)?;
            let written = self.gpu.scoped("upload", || write_piece(&self.gpu.queue, buffer, at, piece));
            crate::locals::used();
            written?;
            if room.is_some_and(Reserved::wrote) {
                // Nothing of the batch that is being recorded: only what was written.
                let copies = self.uploads.submitting();
                match self.gpu.scoped("upload", || self.gpu.queue.submit([])) {
                    Ok(_) => copies.accepted(&self.gpu),
                    Err(error) => {
                        copies.refused();
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes once to as much memory as uploads have room for, as long as it is `wanted`: the first write to a page of it can
    /// cost more than the copy.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn touch_room(&self, wanted: impl Fn() -> bool) -> Result<()> {
        // All at the same time, so that each is another part of the memory. An upload that comes meanwhile waits for room
        // as always; each buffer goes before its room is given back.
        let mut parts = Vec::new();
        while wanted() {
            let Some(room) = self.uploads.reserve(TOUCHED, ROOM) else { break };
            // wgpu fills what it maps with zeros.
            let buffer = self.gpu.scoped("warm up", || {
                self.gpu.device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("kiln.room"),
                    size: TOUCHED as u64,
                    usage: wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
                    mapped_at_creation: true,
                })
            })?;
            parts.push((buffer, room));
        }
        Ok(())
    }

    /// Room for a piece, as soon as there is some. Who waited in vain once is no longer `patient`.
    #[cfg(not(target_arch = "wasm32"))]
    fn room_for(&self, bytes: usize, patient: &mut bool) -> Result<Option<Reserved<'_>>> {
        let start = Instant::now();
        let patience = PATIENCE.mul_f64(bytes as f64 / PIECE as f64);
        loop {
            if let Some(room) = self.uploads.reserve(bytes, ROOM) {
                return Ok(Some(room));
            }
            if !*patient || start.elapsed() >= patience {
                break;
            }
            crate::readback::poll(&self.gpu, wgpu::PollType::Poll)?;
            // A software GPU copies on the host's cores.
            if self.spin.is_zero() {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        *patient = false;
        if let Some(room) = self.uploads.reserve(bytes, IN_FLIGHT_BYTES) {
            return Ok(Some(room));
        }
        self.wait_until_idle()?;
        Ok(self.uploads.reserve(bytes, u64::MAX))
    }

    /// A browser cannot wait, and has its own ways.
    #[cfg(target_arch = "wasm32")]
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    fn room_for(&self, bytes: usize, _: &mut bool) -> Result<Option<Reserved<'_>>> {
        Ok(self.uploads.reserve(bytes, u64::MAX))
    }
}

fn write_piece(queue: &wgpu::Queue, buffer: &wgpu::Buffer, at: u64, piece: &[u8]) {
    let (words, tail) = piece.split_at(piece.len() / 4 * 4);
    if !words.is_empty() {
        queue.write_buffer(buffer, at, words);
    }
    if !tail.is_empty() {
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        queue.write_buffer(buffer, at + words.len() as u64, &last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_much_until_it_is_copied() {
        let uploads = Uploads::default();
        let pieces: Vec<_> = std::iter::from_fn(|| uploads.reserve(PIECE, ROOM)).collect();
        assert_eq!(pieces.len() as u64, ROOM / PIECE as u64);
        assert!(uploads.reserve(1, ROOM).is_none());
        drop(uploads.reserve(1, u64::MAX).expect("any is too few bytes for that"));
        assert_eq!(
            uploads.counts(),
            Counts { reserved: ROOM, ..Counts::default() },
            "what was not written is given back"
        );
        assert!(pieces.into_iter().all(Reserved::wrote), "a piece is enough");
        let copies = uploads.submitting();
        assert_eq!(uploads.submitting().bytes, 0, "it is part of one submission");
        assert_eq!(copies.refused(), ROOM);
        assert_eq!(uploads.counts(), Counts { written: ROOM, ..Counts::default() });
        let copies = uploads.submitting();
        assert_eq!(uploads.counts(), Counts { submitted: ROOM, ..Counts::default() });
        assert!(uploads.reserve(1, ROOM).is_none(), "it is not copied yet");
        drop(copies);
        assert_eq!(uploads.counts(), Counts::default());
    }
}
