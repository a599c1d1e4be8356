//! Dispatches with no work, since drivers finish or load a kernel when it is first dispatched.
//!
//! Kernels return at once where the parameters say that there are no workgroups, whatever else they say, so zeros will do
//! for parameters, and any buffers for arrays.

use std::sync::Arc;

use kiln_array::Result;
use kiln_array::kernel::KernelSpec;

use crate::compile::Kernel;
use crate::engine::Engine;
use crate::error::lock;
use crate::readback::poll_until;

/// Bytes of the buffers that stand for arrays.
const BYTES: u64 = 256;

/// What stands for parameters and arrays.
pub(crate) struct Scratch {
    params: wgpu::Buffer,
    read: wgpu::Buffer,
    written: wgpu::Buffer,
}

impl Engine {
    /// Dispatches a compiled kernel with no work, and waits until the driver is done with it; unless it is no longer
    /// `wanted` by then. One at a time: the device runs them one after the other, and the program's own work, which comes
    /// in between, is to wait for one at most.
    pub(crate) fn touch(&self, spec: &Arc<KernelSpec>, wanted: impl Fn() -> bool) {
        let _turn = lock(&self.warming.touching);
        // Somebody may wait for this thread to end.
        if !wanted() {
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
        let layout = self.pipelines.compiler.param_layouts.get(&self.gpu, kernel.param_size)?;
        let index = self.gpu.scoped("warm up", || {
            let size = kernel.param_size.bytes();
            let params =
                wgpu::BufferBinding { buffer: &scratch.params, offset: 0, size: wgpu::BufferSize::new(size.into()) };
            let params = device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some("kiln.warm"),
                layout: &layout,
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
            written: buffer(BYTES, wgpu::BufferUsages::STORAGE),
        }
    }
}
