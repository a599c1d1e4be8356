//! Bind groups of arrays, made once for each set of buffers.
//!
//! What enters: a layout's bindings and the blocks that fill them. What leaves: a bind group. Decided: the key names
//! blocks by their serial, which is never used twice, so a stale entry can only waste memory; entries of blocks that
//! the pool drops are removed, and when the table is full it starts over.

use std::collections::HashMap;

use kiln_array::Result;
use smallvec::SmallVec;

use crate::buffers::Block;
use crate::compile::{Bindings, Kernel};
use crate::error::Gpu;
use crate::hash::FastHash;

/// Entries at which the table starts over.
const CAPACITY: usize = 4096;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    bindings: Bindings,
    serials: SmallVec<[u64; 6]>,
}

/// The table.
#[derive(Default)]
pub(crate) struct BindGroups {
    groups: HashMap<Key, wgpu::BindGroup, FastHash>,
    created: u64,
}

impl BindGroups {
    /// The bind group of `blocks` for a kernel.
    pub(crate) fn get(&mut self, gpu: &Gpu, kernel: &Kernel, blocks: &[Block]) -> Result<wgpu::BindGroup> {
        let key = Key { bindings: kernel.bindings, serials: blocks.iter().map(|block| block.serial).collect() };
        if let Some(group) = self.groups.get(&key) {
            return Ok(group.clone());
        }
        let entries: SmallVec<[wgpu::BindGroupEntry<'_>; 8]> = (0..)
            .zip(blocks)
            .map(|(binding, block)| wgpu::BindGroupEntry { binding, resource: block.buffer.as_entire_binding() })
            .collect();
        let group = gpu.scoped("launch", || {
            gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some("kiln.arrays"),
                layout: &kernel.layout,
                entries: &entries,
            })
        });
        crate::locals::used();
        let group = group?;
        if self.groups.len() >= CAPACITY {
            self.groups.clear();
        }
        self.groups.insert(key, group.clone());
        self.created += 1;
        Ok(group)
    }

    /// Forgets the groups of blocks that the pool dropped.
    pub(crate) fn forget(&mut self, dropped: &[Block]) {
        if !dropped.is_empty() {
            self.groups.retain(|key, _| !dropped.iter().any(|block| key.serials.contains(&block.serial)));
        }
    }

    /// How many were made.
    pub(crate) fn created(&self) -> u64 {
        self.created
    }
}
