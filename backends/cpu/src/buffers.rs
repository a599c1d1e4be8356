//! The device's memory: buffers by number, and freed ones kept for the next of about their size.
//!
//! What enters: sizes, bytes, numbers of buffers. What leaves: words and bytes, or an error that names the limit.
//!
//! Decided: memory is 32-bit words, zeroed lazily by the system, and starts at a cache line. The first touch of a page
//! costs more than computing what goes into it, so freed buffers are kept, oldest first to go, up to twice the most
//! that was in use at once lately.

use std::collections::{HashMap, VecDeque};

use kiln_array::recording::BufferId;
use kiln_array::{ErrorKind, HostBytes, Result};

use crate::is_out_of_memory;
use crate::scratch::{LINE, line_start};

/// Bytes of the largest buffer: fewer than 2^31 elements of four bytes; a quarter of the address space of 32-bit targets.
pub(crate) const MAX_BYTES: u64 = if cfg!(target_pointer_width = "64") { (1 << 33) - 64 } else { 1 << 30 };

/// Bytes of freed buffers that may always be kept, and that are kept at most.
const KEPT_BYTES: std::ops::RangeInclusive<usize> = 16 << 20..=512 << 20;
/// How many times the most that was in use at once is kept.
const KEPT_TIMES: usize = 2;
/// A release forgets one part in `1 << FORGETS` of the difference between the peak and the present.
const FORGETS: u32 = 10;
/// Number of freed buffers that are kept.
const KEPT_COUNT: usize = 64;

/// Memory of one buffer, in words, from a cache line's start.
#[derive(Debug)]
pub(crate) struct Buffer {
    memory: Box<[u32]>,
    skip: usize,
    words: usize,
}

impl Buffer {
    fn new(bytes: u64) -> Result<Self> {
        let device = || "cpu".to_string();
        let rounded = usize::try_from(bytes.next_multiple_of(16).max(16)).ok().filter(|_| bytes <= MAX_BYTES);
        let Some(rounded) = rounded else {
            let (op, what) = ("allocate", "bytes of one array");
            return Err(ErrorKind::Limit { op, what, needed: bytes, limit: MAX_BYTES, device: device() }.into());
        };
        let memory: Box<[u32]> = bytemuck::allocation::try_zeroed_slice_box((rounded + LINE) / 4)
            .map_err(|()| ErrorKind::OutOfMemory { bytes, device: device() })?;
        let skip = line_start(&memory);
        Ok(Self { memory, skip, words: rounded / 4 })
    }

    /// A second buffer with the same contents.
    pub(crate) fn copy(&self) -> Result<Self> {
        let mut copy = Self::new(self.words as u64 * 4)?;
        copy.words_mut().copy_from_slice(self.words());
        Ok(copy)
    }

    pub(crate) fn words(&self) -> &[u32] {
        &self.memory[self.skip..self.skip + self.words]
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u32] {
        &mut self.memory[self.skip..self.skip + self.words]
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self.words())
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self.words_mut())
    }

    fn capacity(&self) -> usize {
        self.memory.len() * 4 - LINE
    }
}

/// All buffers of a device.
#[derive(Debug, Default)]
pub(crate) struct Store {
    buffers: HashMap<BufferId, Buffer>,
    next: u64,
    free: VecDeque<Buffer>,
    free_bytes: usize,
    used_bytes: usize,
    /// The most bytes in use at once, lately: it sinks towards the present by a part with every release.
    peak_bytes: usize,
}

impl Store {
    /// A new buffer, whose contents are not defined.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<BufferId> {
        let buffer = match self.reuse(bytes) {
            Some(buffer) => buffer,
            None => match Buffer::new(bytes) {
                Err(error) if is_out_of_memory(&error) && self.trim() => Buffer::new(bytes)?,
                other => other?,
            },
        };
        self.used_bytes += buffer.capacity();
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
        self.next += 1;
        let id = BufferId(self.next);
        self.buffers.insert(id, buffer);
        Ok(id)
    }

    /// A freed buffer that is large enough and not a quarter too large.
    fn reuse(&mut self, bytes: u64) -> Option<Buffer> {
        let needed = usize::try_from(bytes.next_multiple_of(16).max(16)).ok()?;
        let fits = needed..=needed.saturating_add(needed / 4);
        let at = self.free.iter().position(|buffer| fits.contains(&buffer.capacity()))?;
        let mut buffer = self.free.remove(at)?;
        self.free_bytes -= buffer.capacity();
        buffer.words = needed / 4;
        Some(buffer)
    }

    /// Frees a buffer; an unknown number is ignored.
    pub(crate) fn release(&mut self, id: BufferId) {
        let Some(buffer) = self.buffers.remove(&id) else {
            return;
        };
        self.used_bytes -= buffer.capacity();
        self.peak_bytes -= (self.peak_bytes - self.used_bytes) >> FORGETS;
        self.free_bytes += buffer.capacity();
        self.free.push_back(buffer);
        let most = self.peak_bytes.saturating_mul(KEPT_TIMES).clamp(*KEPT_BYTES.start(), *KEPT_BYTES.end());
        while self.free_bytes > most || self.free.len() > KEPT_COUNT {
            let Some(oldest) = self.free.pop_front() else {
                return;
            };
            self.free_bytes -= oldest.capacity();
        }
    }

    /// Gives the freed buffers back to the system; `false` where there are none.
    pub(crate) fn trim(&mut self) -> bool {
        self.peak_bytes = self.used_bytes;
        self.free_bytes = 0;
        !std::mem::take(&mut self.free).is_empty()
    }

    /// The first bytes of a buffer.
    pub(crate) fn copy_of(&self, id: BufferId, bytes: u64) -> Result<HostBytes> {
        let buffer = self.get(id)?.bytes();
        match usize::try_from(bytes).ok().and_then(|wanted| buffer.get(..wanted)) {
            Some(bytes) => HostBytes::copy_of(bytes),
            None => {
                let message = format!("{bytes} bytes of a buffer of {}", buffer.len());
                Err(ErrorKind::Backend { op: "read", message }.into())
            }
        }
    }

    pub(crate) fn get(&self, id: BufferId) -> Result<&Buffer> {
        self.buffers.get(&id).ok_or_else(|| unknown(id))
    }

    pub(crate) fn get_mut(&mut self, id: BufferId) -> Result<&mut Buffer> {
        self.buffers.get_mut(&id).ok_or_else(|| unknown(id))
    }

    /// Takes a buffer out, to write it while others are read.
    pub(crate) fn take(&mut self, id: BufferId) -> Result<Buffer> {
        self.buffers.remove(&id).ok_or_else(|| unknown(id))
    }

    /// Puts a taken buffer back.
    pub(crate) fn put(&mut self, id: BufferId, buffer: Buffer) {
        self.buffers.insert(id, buffer);
    }
}

fn unknown(id: BufferId) -> kiln_array::Error {
    let message = format!("buffer {id:?} is not there, or named twice as an output");
    ErrorKind::Backend { op: "cpu", message }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_follows_what_was_in_use() {
        let mut store = Store::default();
        let mut at_once = |count: usize, bytes: u64, rounds: usize| {
            for _ in 0..rounds {
                let ids: Vec<_> = (0..count).map(|_| store.allocate(bytes).unwrap()).collect();
                ids.into_iter().for_each(|id| store.release(id));
            }
            (store.free_bytes, store.free.len())
        };
        // Sizes that do not serve each other.
        let sizes = (1..200).map(|step| at_once(1, (1 << 20) + step * 15_000, 1));
        assert!(sizes.map(|(bytes, _)| bytes).max().unwrap() <= 16 << 20);
        assert!(at_once(12, 4 << 20, 1).0 >= 48 << 20, "all that was in use is kept");
        assert!(at_once(1, 3 << 20, 10_000).0 <= 20 << 20, "and forgotten later");
        assert!(store.trim() && !store.trim());
        assert_eq!((store.free_bytes, store.used_bytes, store.peak_bytes), (0, 0, 0));
    }

    #[test]
    fn buffers_are_reused_rounded_and_bounded() {
        let mut store = Store::default();
        let a = store.allocate(1000).unwrap();
        assert_eq!(store.get(a).unwrap().bytes().len(), 1008);
        assert_eq!(store.get(a).unwrap().words().as_ptr().align_offset(LINE), 0);
        store.release(a);
        store.release(a);
        let b = store.allocate(900).unwrap();
        assert_eq!(store.get(b).unwrap().bytes().len(), 912);
        assert!(store.free.is_empty() && store.free_bytes == 0);
        assert!(store.get(a).is_err());
        assert!(matches!(store.allocate(u64::MAX / 2).unwrap_err().kind(), ErrorKind::Limit { .. }));
        let kept: Vec<_> = (0..100).map(|_| store.allocate(64).unwrap()).collect();
        kept.into_iter().for_each(|id| store.release(id));
        assert_eq!(store.free.len(), KEPT_COUNT);
        assert_eq!(store.allocate(0).and_then(|id| store.get(id).map(|buffer| buffer.words().len())).unwrap(), 4);
    }
}
