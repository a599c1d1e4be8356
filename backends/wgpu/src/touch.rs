//! Dispatches with no work, for drivers that compile a kernel when it is first dispatched, and the device's other firsts.
//!
//! Kernels return at once where the parameters say that there are no workgroups, whatever else they say, so zeros will do
//! for parameters, and any buffers for arrays.

use std::sync::Arc;

use kiln_array::kernel::KernelSpec;
use kiln_array::{ErrorKind, Result};

use crate::compile::Kernel;
use crate::engine::Engine;
use crate::readback::poll_until;

/// Bytes of the buffers that stand for arrays.
const BYTES: u64 = 256;

const COPIES: wgpu::BufferUsages = wgpu::BufferUsages::COPY_SRC.union(wgpu::BufferUsages::COPY_DST);

/// What stands for parameters and arrays.
pub(crate) struct Scratch {
    params: wgpu::Buffer,
    read: wgpu::Buffer,
    written: wgpu::Buffer,
}

impl Engine {
    /// Dispatches a compiled kernel with no work, and waits until the driver is done with it.
    pub(crate) fn touch(&self, spec: &Arc<KernelSpec>) {
        if !self.compiles_late {
            return;
        }
        let touched = self.pipelines.get(&self.gpu, spec).and_then(|kernel| self.dispatch_nothing(&kernel));
        if let Err(error) = touched {
            log::debug!("kiln: a first dispatch of {}: {error}", spec.label());
        }
    }

    fn dispatch_nothing(&self, kernel: &Kernel) -> Result<()> {
        let device = &self.gpu.device;
        let scratch = match self.warming.scratch.get() {
            Some(scratch) => scratch,
            None => {
                let scratch = self.gpu.scoped("warm up", || Scratch::new(device))?;
                self.warming.scratch.get_or_init(|| scratch)
            }
        };
        let index = self.gpu.scoped("warm up", || {
            let size = kernel.param_size.bytes();
            let params =
                wgpu::BufferBinding { buffer: &scratch.params, offset: 0, size: wgpu::BufferSize::new(size.into()) };
            let params = device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some("kiln.warm"),
                layout: &self.pipelines.compiler.param_layouts.get(device, kernel.param_size),
                entries: &[wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(params) }],
            });
            let entries: Vec<_> = (0..kernel.bindings.count)
                .map(|binding| {
                    let written = kernel.bindings.is_written(binding);
                    let buffer = if written { &scratch.written } else { &scratch.read };
                    wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() }
                })
                .collect();
            let arrays = device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some("kiln.warm"),
                layout: &kernel.layout,
                entries: &entries,
            });
            let mut encoder =
                device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("kiln.warm") });
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&kernel.pipeline);
            pass.set_bind_group(0, &params, &[0]);
            pass.set_bind_group(1, &arrays, &[]);
            pass.dispatch_workgroups(1, 1, 1);
            drop(pass);
            self.gpu.queue.submit([encoder.finish()])
        })?;
        poll_until(&self.gpu, index)
    }

    /// Lets the first allocation, upload, submission and read of the device happen, apart from the program's work.
    pub(crate) fn first_steps(&self) -> Result<()> {
        let data = [1u8; 64];
        let gpu = &self.gpu;
        let (staging, index) = gpu.scoped("warm up", || {
            let scratch = Scratch::new(&gpu.device);
            let staging = gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("kiln.warm"),
                size: BYTES,
                usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            });
            gpu.queue.write_buffer(&scratch.written, 0, &data);
            let descriptor = wgpu::CommandEncoderDescriptor { label: Some("kiln.warm") };
            let mut encoder = gpu.device.create_command_encoder(&descriptor);
            encoder.copy_buffer_to_buffer(&scratch.written, 0, &staging, 0, BYTES);
            let index = gpu.queue.submit([encoder.finish()]);
            staging.map_async(wgpu::MapMode::Read, .., |_| {});
            (staging, index)
        })?;
        poll_until(gpu, index)?;
        let failed = |message: String| kiln_array::Error::from(ErrorKind::Backend { op: "warm up", message });
        let view = staging.get_mapped_range(..data.len() as u64).map_err(|error| failed(error.to_string()))?;
        if view[..] == data { Ok(()) } else { Err(failed("what was uploaded does not come back".to_owned())) }
    }
}

impl Scratch {
    fn new(device: &wgpu::Device) -> Self {
        let buffer = |size, usage| {
            let label = Some("kiln.warm");
            device.create_buffer(&wgpu::BufferDescriptor { label, size, usage, mapped_at_creation: false })
        };
        Self {
            params: buffer(crate::params::CHUNK.into(), wgpu::BufferUsages::UNIFORM),
            read: buffer(BYTES, wgpu::BufferUsages::STORAGE),
            written: buffer(BYTES, wgpu::BufferUsages::STORAGE | COPIES),
        }
    }
}
