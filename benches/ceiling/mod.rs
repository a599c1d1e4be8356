//! What a GPU's memory gives at best: two hand-written kernels, on a wgpu device of their own.
//!
//! What enters: which adapter, how many elements. What leaves: closures that run a kernel so many times and wait.
//! The modules are as unchecked as Kiln's own.

use kiln::DeviceInfo;
use kiln::wgpu::{self, util::DeviceExt};

/// Runs a kernel so many times, then waits.
pub(crate) type Repeat = Box<dyn FnMut(usize) -> Result<(), String>>;

/// A GPU with one array of words, and another to copy it to.
pub(crate) struct Ceiling {
    device: wgpu::Device,
    queue: wgpu::Queue,
    source: wgpu::Buffer,
    target: wgpu::Buffer,
}

impl Ceiling {
    /// Opens the GPU that `info` names, by itself, and fills its memory with the values.
    pub(crate) fn open(info: &DeviceInfo, values: &[f32]) -> Result<Self, String> {
        let (device, queue) = crate::plain::open(info)?;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let source = device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
            label: Some("source"),
            contents: &bytes,
            usage: wgpu::BufferUsages::STORAGE,
        });
        let target = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("target"),
            size: source.size(),
            usage: wgpu::BufferUsages::STORAGE,
            mapped_at_creation: false,
        });
        Ok(Self { device, queue, source, target })
    }

    /// Reads every element and writes it elsewhere.
    pub(crate) fn copy(&self) -> Repeat {
        self.kernel(include_str!("copy.wgsl"), 4)
    }

    /// Reads every element and writes none.
    pub(crate) fn read(&self) -> Repeat {
        self.kernel(include_str!("read.wgsl"), 16)
    }

    /// A kernel whose invocations take so many vectors each.
    fn kernel(&self, text: &str, items: u64) -> Repeat {
        let (device, queue) = (self.device.clone(), self.queue.clone());
        let descriptor = wgpu::ShaderModuleDescriptor { label: None, source: wgpu::ShaderSource::Wgsl(text.into()) };
        // SAFETY: both texts guard every index by the array's length, and their loops end.
        let module = unsafe { device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked()) };
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: None,
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let arrays = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[
                wgpu::BindGroupEntry { binding: 0, resource: self.source.as_entire_binding() },
                wgpu::BindGroupEntry { binding: 1, resource: self.target.as_entire_binding() },
            ],
        });
        let groups = (self.source.size() / 16).div_ceil(256 * items);
        let y = groups.div_ceil(65_535);
        let size = [groups.div_ceil(y), y].map(|len| u32::try_from(len).unwrap_or(u32::MAX));
        Box::new(move |count| {
            let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &arrays, &[]);
            for _ in 0..count {
                pass.dispatch_workgroups(size[0], size[1], 1);
            }
            drop(pass);
            queue.submit([encoder.finish()]);
            let done = device.poll(wgpu::PollType::wait_indefinitely());
            done.map(drop).map_err(|error| error.to_string())
        })
    }
}
