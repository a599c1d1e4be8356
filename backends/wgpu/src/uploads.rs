//! Host data on its way to the device, in pieces.
//!
//! What enters: bytes, and the buffer that they go to. What leaves: copies that run before everything that is submitted from
//! then on. Decided: wgpu copies what it is given to memory that the device reads, and gives that back when the device has
//! read it. New memory of that kind can cost more than the copy, so a long upload goes in pieces, and each waits for a moment
//! until the device is done with earlier ones: what is under way then stays within the first block that wgpu takes of such
//! memory. Where the device is busy with other work the moment passes, and the upload takes new memory: it never waits for
//! that work.

use std::sync::{Arc, Mutex};
#[cfg(not(target_arch = "wasm32"))]
use std::time::{Duration, Instant};

use kiln_array::Result;

use crate::adapter::FIRST_BLOCK;
use crate::engine::Engine;
use crate::error::{Gpu, lock};

/// Bytes of a piece; whole words.
pub(crate) const PIECE: usize = 4 << 20;

/// Bytes that should be under way at most. The rest of the block is for parameters.
pub(crate) const ROOM: u64 = FIRST_BLOCK - PIECE as u64;

/// Written bytes from which on the device begins to copy: it works while the host writes the next piece.
const ENOUGH: u64 = PIECE as u64;

/// How long a piece waits for room: as long as new memory for it takes where that takes longest, on a discrete GPU behind
/// a bus.
#[cfg(not(target_arch = "wasm32"))]
const PATIENCE: Duration = Duration::from_micros(640);

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

impl Uploads {
    /// Takes room for a piece, if there is some or if it `must` go on without.
    fn reserve(&self, bytes: usize, must: bool) -> bool {
        let mut counts = lock(&self.0);
        let all = counts.reserved + counts.written + counts.submitted + bytes as u64;
        let granted = must || all <= ROOM;
        if granted {
            counts.reserved += bytes as u64;
        }
        granted
    }

    /// Notes that a piece was written, or was not and never will be. Returns whether what is there should be submitted.
    fn wrote(&self, bytes: usize, is_written: bool) -> bool {
        let mut counts = lock(&self.0);
        counts.reserved -= bytes as u64;
        if is_written {
            counts.written += bytes as u64;
        }
        counts.written >= ENOUGH
    }

    /// Notes that a submission is about to take what was written. Returns how much, for [`submitted`](Self::submitted).
    pub(crate) fn submitting(&self) -> u64 {
        let mut counts = lock(&self.0);
        let bytes = std::mem::take(&mut counts.written);
        counts.submitted += bytes;
        bytes
    }

    /// Notes how that submission went. Where it was refused, wgpu keeps the copies for the next.
    pub(crate) fn submitted(&self, gpu: &Gpu, bytes: u64, is_accepted: bool) {
        if bytes == 0 {
            return;
        }
        let done = {
            let counts = self.0.clone();
            move || lock(&counts).submitted -= bytes
        };
        if is_accepted {
            gpu.queue.on_submitted_work_done(done);
        } else {
            done();
            lock(&self.0).written += bytes;
        }
    }

    #[cfg(test)]
    pub(crate) fn counts(&self) -> Counts {
        *lock(&self.0)
    }
}

impl Engine {
    /// Writes `data`, padded to whole words, before everything that is submitted from now on.
    pub(crate) fn write(&self, buffer: &wgpu::Buffer, data: &[u8]) -> Result<()> {
        let mut patient = true;
        for (piece, at) in data.chunks(PIECE).zip((0..).step_by(PIECE)) {
            self.make_room(piece.len(), &mut patient)?;
            let written = self.gpu.scoped("upload", || write_piece(&self.gpu.queue, buffer, at, piece));
            if self.uploads.wrote(piece.len(), written.is_ok()) {
                // Nothing of the batch that is being recorded: only what was written.
                let bytes = self.uploads.submitting();
                let submitted = self.gpu.scoped("upload", || self.gpu.queue.submit([]));
                self.uploads.submitted(&self.gpu, bytes, submitted.is_ok());
                submitted?;
            }
            written?;
        }
        Ok(())
    }

    /// Takes room for a piece, as soon as there is some. Who waited in vain once is no longer `patient`.
    #[cfg(not(target_arch = "wasm32"))]
    fn make_room(&self, bytes: usize, patient: &mut bool) -> Result<()> {
        let start = Instant::now();
        while !self.uploads.reserve(bytes, !*patient) {
            crate::readback::poll(&self.gpu, wgpu::PollType::Poll)?;
            *patient = start.elapsed() < PATIENCE;
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// A browser cannot wait, and has its own ways.
    #[cfg(target_arch = "wasm32")]
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    fn make_room(&self, bytes: usize, patient: &mut bool) -> Result<()> {
        *patient = self.uploads.reserve(bytes, true);
        Ok(())
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
    fn there_is_room_for_so_much_unless_it_must_be() {
        let uploads = Uploads::default();
        let pieces = (0..).take_while(|_| uploads.reserve(PIECE, false)).count();
        assert_eq!(pieces as u64, ROOM / PIECE as u64);
        assert!(!uploads.reserve(1, false) && uploads.reserve(1, true));
        assert!(!uploads.wrote(1, false), "nothing was written");
        assert!(uploads.wrote(PIECE, true), "a piece is enough");
        assert_eq!(uploads.submitting(), PIECE as u64);
        assert_eq!(uploads.submitting(), 0, "it is part of one submission");
        let counts = Counts { reserved: ROOM - PIECE as u64, written: 0, submitted: PIECE as u64 };
        assert_eq!(uploads.counts(), counts);
        assert!(!uploads.reserve(1, false), "it is not copied yet");
    }
}
