//! Host data on its way to the device, in pieces.
//!
//! What enters: bytes, and the buffer that they go to. What leaves: copies that run before everything that is submitted from
//! then on. Decided: wgpu copies what it is given to memory that the device reads, and gives that back when the device has
//! read it. New memory of that kind costs more than what is copied to it, on some drivers ten times as much, so a long upload
//! goes in pieces and waits for its first ones before it takes more: what is under way stays within [`BLOCK`], and so within the
//! first block that wgpu takes of such memory, which it never gives back.

use std::collections::VecDeque;
use std::sync::Mutex;

use kiln_array::Result;

use crate::engine::Engine;
use crate::error::lock;

/// Bytes of the first block of memory that both sides see, where the device has its own; elsewhere it is larger.
pub(crate) const BLOCK: u64 = 16 << 20;

/// Bytes of a piece; whole words.
pub(crate) const PIECE: usize = 4 << 20;

/// Bytes that may be under way. The rest of the block is for parameters.
pub(crate) const ROOM: u64 = BLOCK - PIECE as u64;

/// Written bytes from which on the device begins to copy: it works while the host writes the next piece.
pub(crate) const ENOUGH: u64 = PIECE as u64;

/// Submissions that are told apart.
pub(crate) const SUBMISSIONS: usize = 16;

/// How much is under way.
#[derive(Default)]
pub(crate) struct Uploads(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// Bytes written, whose copy is not submitted.
    written: u64,
    /// Submissions that copy, and how many bytes.
    submitted: VecDeque<(wgpu::SubmissionIndex, u64)>,
}

impl Uploads {
    /// Notes written bytes. Returns whether they should be submitted.
    fn wrote(&self, bytes: usize) -> bool {
        let mut counts = lock(&self.0);
        counts.written += bytes as u64;
        counts.written >= ENOUGH
    }

    /// Notes that everything written so far is part of a submission.
    pub(crate) fn submitted(&self, index: &wgpu::SubmissionIndex) {
        let mut counts = lock(&self.0);
        let written = std::mem::take(&mut counts.written);
        if written == 0 {
            return;
        }
        counts.submitted.push_back((index.clone(), written));
        if counts.submitted.len() > SUBMISSIONS
            && let Some((_, bytes)) = counts.submitted.pop_front()
            && let Some(next) = counts.submitted.front_mut()
        {
            // The later one is done after the earlier.
            next.1 += bytes;
        }
    }

    /// Bytes that are under way, those of them that no submission has, and the number of submissions.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (u64, u64, usize) {
        let counts = lock(&self.0);
        (counts.under_way(), counts.written, counts.submitted.len())
    }

    /// The submission to wait for before so many bytes more are written.
    #[cfg(not(target_arch = "wasm32"))]
    fn in_the_way(&self, bytes: usize) -> Option<wgpu::SubmissionIndex> {
        let mut counts = lock(&self.0);
        if counts.under_way() + bytes as u64 <= ROOM {
            return None;
        }
        counts.submitted.pop_front().map(|(index, _)| index)
    }
}

impl Counts {
    #[cfg(not(target_arch = "wasm32"))]
    fn under_way(&self) -> u64 {
        self.written + self.submitted.iter().map(|(_, bytes)| bytes).sum::<u64>()
    }
}

impl Engine {
    /// Writes `data`, padded to whole words, before everything that is submitted from now on.
    pub(crate) fn write(&self, buffer: &wgpu::Buffer, data: &[u8]) -> Result<()> {
        for (piece, at) in data.chunks(PIECE).zip((0..).step_by(PIECE)) {
            self.make_room(piece.len())?;
            self.gpu.scoped("upload", || write_piece(&self.gpu.queue, buffer, at, piece))?;
            if self.uploads.wrote(piece.len()) {
                // Nothing of the batch that is being recorded: only what was written.
                let index = self.gpu.scoped("upload", || self.gpu.queue.submit([]))?;
                self.uploads.submitted(&index);
            }
        }
        Ok(())
    }

    /// Waits until `bytes` more may be under way. Never under the lock.
    #[cfg(not(target_arch = "wasm32"))]
    fn make_room(&self, bytes: usize) -> Result<()> {
        while let Some(index) = self.uploads.in_the_way(bytes) {
            crate::readback::poll_until(&self.gpu, index)?;
        }
        Ok(())
    }

    /// A browser cannot wait, and has its own ways.
    #[cfg(target_arch = "wasm32")]
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    fn make_room(&self, _: usize) -> Result<()> {
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
