//! Parameters of dispatches: packed words, one upload per batch.
//!
//! What enters: the words of each dispatch. What leaves: an offset into a uniform buffer that is bound with a dynamic
//! offset. Decided: a batch fills one chunk on the host, and the flush writes it with a single `write_buffer` before
//! it submits. That is safe where a `write_buffer` of array data would not be: the copy runs after all earlier
//! submissions and before this one, and no other batch reads the chunk in between. Chunks rotate so that a copy need
//! not wait for the dispatches just before it.

use kiln_array::Result;

use crate::error::{Gpu, lock};

/// Bytes of one chunk; also the least that WebGPU grants to a uniform binding.
pub(crate) const CHUNK: u32 = 64 << 10;
const CHUNKS: usize = 4;

/// Parameters are bound in sizes of a power of two from 256 bytes, so that kernels share layouts and bind groups.
const MIN_LOG: u32 = 8;
const LOGS: usize = 9;

/// The size class of parameters, as a power of two of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ParamSize(u32);

impl ParamSize {
    /// The class for a number of words; `None` above a chunk.
    pub(crate) fn of(words: usize) -> Option<Self> {
        let bytes = u32::try_from(words * 4).ok().filter(|&bytes| bytes <= CHUNK)?;
        Some(Self(bytes.next_power_of_two().trailing_zeros().max(MIN_LOG)))
    }

    pub(crate) fn bytes(self) -> u32 {
        1 << self.0
    }

    fn index(self) -> usize {
        (self.0 - MIN_LOG) as usize
    }
}

/// Bind group layouts of parameters, one for each size.
#[derive(Default)]
pub(crate) struct ParamLayouts {
    layouts: std::sync::Mutex<[Option<wgpu::BindGroupLayout>; LOGS]>,
}

impl ParamLayouts {
    /// The layout of a size. One that could not be made is made anew the next time.
    pub(crate) fn get(&self, gpu: &Gpu, size: ParamSize) -> Result<wgpu::BindGroupLayout> {
        let mut layouts = lock(&self.layouts);
        if let Some(layout) = &layouts[size.index()] {
            return Ok(layout.clone());
        }
        let entry = wgpu::BindGroupLayoutEntry {
            binding: 0,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Uniform,
                has_dynamic_offset: true,
                min_binding_size: wgpu::BufferSize::new(u64::from(size.bytes())),
            },
            count: None,
        };
        let descriptor = wgpu::BindGroupLayoutDescriptor { label: Some("kiln.params"), entries: &[entry] };
        let layout = gpu.scoped("compile", || gpu.device.create_bind_group_layout(&descriptor))?;
        layouts[size.index()] = Some(layout.clone());
        Ok(layout)
    }
}

/// A uniform buffer and its bind group for each size of parameters.
struct Chunk {
    buffer: wgpu::Buffer,
    groups: [Option<wgpu::BindGroup>; LOGS],
}

/// The parameters of the open batch.
pub(crate) struct Params {
    words: Vec<u32>,
    /// `min_uniform_buffer_offset_alignment`, in words.
    align: usize,
    chunks: Vec<Chunk>,
    current: usize,
}

impl Params {
    pub(crate) fn new(limits: &wgpu::Limits) -> Self {
        let align = limits.min_uniform_buffer_offset_alignment.max(16) as usize / 4;
        Self { words: Vec::new(), align, chunks: Vec::new(), current: 0 }
    }

    /// Whether the chunk has room for parameters of this size.
    pub(crate) fn has_room(&self, size: ParamSize) -> bool {
        self.words.len().next_multiple_of(self.align) * 4 + size.bytes() as usize <= CHUNK as usize
    }

    /// Appends one dispatch's words; returns their offset. Ask [`has_room`](Self::has_room) before.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut Vec<u32>)) -> u32 {
        let at = self.words.len().next_multiple_of(self.align);
        self.words.resize(at, 0);
        write(&mut self.words);
        u32::try_from(at * 4).unwrap_or(u32::MAX)
    }

    /// The bind group of the open batch's chunk.
    pub(crate) fn bind_group(&mut self, gpu: &Gpu, layouts: &ParamLayouts, size: ParamSize) -> Result<wgpu::BindGroup> {
        if let Some(Some(group)) = self.chunks.get(self.current).map(|chunk| &chunk.groups[size.index()]) {
            return Ok(group.clone());
        }
        if self.chunks.len() <= self.current {
            let descriptor = wgpu::BufferDescriptor {
                label: Some("kiln.params"),
                size: u64::from(CHUNK),
                usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            };
            let buffer = gpu.scoped("launch", || gpu.device.create_buffer(&descriptor))?;
            self.chunks.push(Chunk { buffer, groups: Default::default() });
        }
        let chunk = &mut self.chunks[self.current];
        let binding =
            wgpu::BufferBinding { buffer: &chunk.buffer, offset: 0, size: wgpu::BufferSize::new(size.bytes().into()) };
        let layout = layouts.get(gpu, size)?;
        let group = gpu.scoped("launch", || {
            gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some("kiln.params"),
                layout: &layout,
                entries: &[wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(binding) }],
            })
        });
        crate::locals::used();
        let group = group?;
        chunk.groups[size.index()] = Some(group.clone());
        Ok(group)
    }

    /// Writes the batch's parameters and turns to the next chunk. The batch must be submitted right after.
    pub(crate) fn upload(&mut self, queue: &wgpu::Queue) {
        if let (false, Some(chunk)) = (self.words.is_empty(), self.chunks.get(self.current)) {
            queue.write_buffer(&chunk.buffer, 0, bytemuck::cast_slice(&self.words));
            self.words.clear();
            self.current = (self.current + 1) % CHUNKS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_two_from_256_bytes_to_a_chunk() {
        assert_eq!(ParamSize::of(1).map(ParamSize::bytes), Some(256));
        assert_eq!(ParamSize::of(65).map(ParamSize::bytes), Some(512));
        let largest = ParamSize::of(CHUNK as usize / 4);
        assert_eq!(largest.map(ParamSize::bytes), Some(CHUNK));
        assert_eq!(largest.map(ParamSize::index), Some(LOGS - 1));
        assert_eq!(ParamSize::of(CHUNK as usize / 4 + 1), None);
    }
}
