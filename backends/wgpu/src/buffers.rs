//! Device memory: which buffer stands for which id, and the pool of those that nobody uses.
//!
//! What enters: sizes and releases. What leaves: blocks, wgpu buffers of a size class. Decided: wgpu clears a fresh
//! buffer before its first use, a whole pass over memory, so buffers are kept and handed out again. A released block
//! may be reused at once, since later work runs after earlier work; only an upload, which overtakes the batch that is
//! being recorded, must get a block which that batch does not touch. What is free stays within a bound, oldest first
//! out.

use std::collections::{BTreeMap, HashMap, VecDeque};

use kiln_array::Error;
use kiln_array::recording::BufferId;

use crate::hash::FastHash;

/// The least size of a block, and what sizes are multiples of.
const GRAIN: u64 = 256;

/// Free memory that is always kept.
const KEEP_FREE: u64 = 256 << 20;

/// A release forgets one part in `1 << FORGETS` of the difference between the peak and the present.
const FORGETS: u32 = 10;

/// A wgpu buffer of the pool.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Names the buffer in keys of bind groups; never used twice.
    pub(crate) serial: u64,
    /// The buffer.
    pub(crate) buffer: wgpu::Buffer,
    /// Its size, a size class.
    pub(crate) bytes: u64,
    /// The last batch that touches it.
    pub(crate) batch: u64,
}

/// A buffer in use.
pub(crate) struct Live {
    /// Its memory.
    pub(crate) block: Block,
    /// Why its contents are wrong, if work that wrote it failed.
    pub(crate) poison: Option<Error>,
    /// Whether the host has it mapped: nothing that uses it may be submitted.
    pub(crate) mapped: bool,
    /// Reads that will take their bytes from it.
    readers: usize,
    /// Nobody but its readers needs it any more.
    dropped: bool,
}

/// A free block, with the time of its release.
struct Free {
    block: Block,
    released: u64,
}

/// All memory of a device.
#[derive(Default)]
pub(crate) struct Memory {
    live: HashMap<BufferId, Live, FastHash>,
    free: BTreeMap<u64, VecDeque<Free>>,
    live_bytes: u64,
    free_bytes: u64,
    /// The most bytes in use at once, lately: it sinks towards the present by a part with every release.
    peak_bytes: u64,
    next_id: u64,
    next_serial: u64,
    clock: u64,
}

/// Which free blocks will do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reuse {
    /// Any.
    Any,
    /// Those that no batch from this one on touches.
    Before(u64),
}

/// The size class of a request: powers of two and three steps between, so that at most a fifth is waste.
pub(crate) fn size_class(bytes: u64, max: u64) -> u64 {
    let step = (bytes.max(1).next_power_of_two() / 8).max(GRAIN);
    bytes.max(1).next_multiple_of(step).min(max.max(bytes))
}

impl Memory {
    /// A free block of a size class.
    pub(crate) fn take(&mut self, class: u64, reuse: Reuse) -> Option<Block> {
        let blocks = self.free.get_mut(&class)?;
        let free = match reuse {
            // The newest is likeliest to be in a cache.
            Reuse::Any => blocks.pop_back(),
            Reuse::Before(batch) => {
                let oldest = blocks.iter().position(|free| free.block.batch < batch)?;
                blocks.remove(oldest)
            }
        }?;
        self.free_bytes -= class;
        Some(free.block)
    }

    /// Makes a new wgpu buffer a block.
    pub(crate) fn adopt(&mut self, buffer: wgpu::Buffer) -> Block {
        self.next_serial += 1;
        Block { serial: self.next_serial, bytes: buffer.size(), buffer, batch: 0 }
    }

    /// Puts a block into use.
    pub(crate) fn insert(&mut self, block: Block) -> BufferId {
        self.next_id += 1;
        let id = BufferId(self.next_id);
        self.live_bytes += block.bytes;
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
        let live = Live { block, poison: None, mapped: false, readers: 0, dropped: false };
        self.live.insert(id, live);
        id
    }

    /// The buffer of an id.
    pub(crate) fn get(&mut self, id: BufferId) -> Option<&mut Live> {
        self.live.get_mut(&id)
    }

    /// Keeps a buffer until [`read`](Self::read) was called once more.
    #[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "a browser shares no memory"))]
    pub(crate) fn expect_read(&mut self, id: BufferId) {
        if let Some(live) = self.live.get_mut(&id) {
            live.readers += 1;
        }
    }

    /// One read is over; a buffer that was only kept for it goes.
    pub(crate) fn read(&mut self, id: BufferId) {
        if let Some(live) = self.live.get_mut(&id) {
            live.readers -= 1;
            if live.dropped {
                self.release(id);
            }
        }
    }

    /// Takes a buffer out of use, or lets its last read do it. Unknown ids are ignored.
    pub(crate) fn release(&mut self, id: BufferId) {
        if let Some(live) = self.live.get_mut(&id).filter(|live| live.readers > 0) {
            live.dropped = true;
            return;
        }
        if let Some(Live { block, .. }) = self.live.remove(&id) {
            self.live_bytes -= block.bytes;
            self.free_bytes += block.bytes;
            self.peak_bytes -= (self.peak_bytes - self.live_bytes) >> FORGETS;
            self.clock += 1;
            self.free.entry(block.bytes).or_default().push_back(Free { block, released: self.clock });
        }
    }

    /// How much may be free: what was in use lately beyond the present, since a loop will ask for it again.
    fn allowance(&self) -> u64 {
        KEEP_FREE + (self.peak_bytes - self.live_bytes) + self.live_bytes / 4
    }

    /// Whether more is free than worth keeping.
    pub(crate) fn is_hoarding(&self) -> bool {
        self.free_bytes > self.allowance()
    }

    /// Drops free blocks, those released longest ago first, until `free` bytes or less are free; returns them.
    fn trim(&mut self, free: u64) -> Vec<Block> {
        let mut dropped = Vec::new();
        while self.free_bytes > free {
            let oldest = self
                .free
                .values_mut()
                .filter(|blocks| !blocks.is_empty())
                .min_by_key(|blocks| blocks.front().map(|free| free.released));
            let Some(free) = oldest.and_then(VecDeque::pop_front) else {
                break;
            };
            self.free_bytes -= free.block.bytes;
            dropped.push(free.block);
        }
        dropped
    }

    /// Drops all that is free, and forgets what was in use lately.
    pub(crate) fn trim_all(&mut self) -> Vec<Block> {
        self.peak_bytes = self.live_bytes;
        self.trim(0)
    }

    /// Drops what is too much.
    pub(crate) fn trim_hoard(&mut self) -> Vec<Block> {
        // A bit less than the allowance, so that a steady loop does not come here at every release.
        self.trim(self.allowance() - KEEP_FREE / 2)
    }

    /// Buffers in use, their bytes, and the bytes that are free.
    pub(crate) fn usage(&self) -> (usize, u64, u64) {
        (self.live.len(), self.live_bytes, self.free_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::size_class;

    #[test]
    fn classes_waste_little_and_hold_the_request() {
        for bytes in (1..5000).chain([1 << 20, (1 << 20) + 16, 5 << 28, (1 << 31) - 4]) {
            let class = size_class(bytes, u64::MAX);
            assert!(class >= bytes && class.is_multiple_of(256), "{bytes} in {class}");
            assert!(bytes < 2048 || (class - bytes) * 4 <= bytes, "{bytes} in {class}");
            assert_eq!(size_class(class, u64::MAX), class, "a class is its own class");
        }
        assert_eq!(size_class(1000, 1008), 1008, "no class is above the device's limit");
    }
}
