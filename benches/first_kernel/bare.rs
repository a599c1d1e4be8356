//! One operation by hand: plain wgpu, a kernel of its own, nothing of Kiln.
//!
//! What enters: a row, and the adapter that Kiln chose. What leaves: the same figures as Kiln's child gives. The
//! instance has the same APIs and flags as Kiln's, and the steps are the same: upload, kernel, wait, read one value.

use std::error::Error;
use std::time::{Duration, Instant};

use kiln::Element;
use kiln::wgpu::{self, util::DeviceExt};

use crate::child::announce;
use crate::figures::Figures;
use crate::rows::{Row, check};

/// Invocations of a workgroup, in both texts.
const GROUP: u32 = 256;

/// The kernel of a row, and what its dispatches read and write.
struct Kernel {
    text: &'static str,
    /// Elements of each buffer that is made on the device; the last one holds the result.
    made: &'static [usize],
    /// Buffers of each dispatch, the uploaded ones first; its workgroups.
    dispatches: &'static [(&'static [usize], u32)],
}

const VADD: Kernel = Kernel {
    text: include_str!("vadd.wgsl"),
    made: &[crate::rows::N],
    dispatches: &[(&[0, 1, 2], 3907)], // 1e6 / GROUP
};

/// Every workgroup leaves one total; a second dispatch adds those.
const SUM: Kernel = Kernel {
    text: include_str!("sum.wgsl"),
    made: &[GROUP as usize, 1],
    dispatches: &[(&[0, 1], GROUP), (&[1, 2], 1)],
};

/// Measures a row. `start` is the beginning of `main`.
pub(crate) fn run(start: Instant, row: Row, name: &str, backend: &str) -> Result<Figures, Box<dyn Error>> {
    let kernel = match row {
        Row::Vadd => VADD,
        Row::Sum => SUM,
        _ => return Err("nobody wrote this row by hand".into()),
    };
    let values = row.values();
    let mut figures = Figures::default();
    let mut at = Instant::now();
    let mut lap = || {
        let now = Instant::now();
        now - std::mem::replace(&mut at, now)
    };

    let instance = wgpu::Instance::new(descriptor(backend));
    let instance_time = lap();
    let all = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    let is_it = |info: &wgpu::AdapterInfo| info.name == name && info.backend.to_str() == backend;
    let adapter = all.into_iter().find(|adapter| is_it(&adapter.get_info())).ok_or("the adapter is not there")?;
    let adapter_time = lap();
    let request = adapter.request_device(&wgpu::DeviceDescriptor {
        required_limits: adapter.limits(),
        ..wgpu::DeviceDescriptor::default()
    });
    let (device, queue) = pollster::block_on(request)?;
    let device_time = lap();

    let mut buffers = upload(&device, &values);
    let upload_time = lap();
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(kernel.text.into()),
    });
    let module_time = lap();
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: None,
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let pipeline_time = lap();
    buffers.extend(kernel.made.iter().map(|&len| buffer(&device, len, wgpu::BufferUsages::STORAGE)));
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    for (bound, groups) in kernel.dispatches {
        let entries = bound
            .iter()
            .zip(0..)
            .map(|(&at, binding)| wgpu::BindGroupEntry { binding, resource: buffers[at].as_entire_binding() });
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries.collect::<Vec<_>>(),
        });
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(*groups, 1, 1);
    }
    drop(pass);
    queue.submit([encoder.finish()]);
    let record_time = lap();
    device.poll(wgpu::PollType::wait_indefinitely())?;
    let dispatch_time = lap();
    let result = buffers.last().ok_or("there is no result")?;
    let first = read(&device, &queue, result, 1)?;
    let readback_time = lap();
    figures.time("main", start.elapsed());
    announce()?;

    figures.time("open", instance_time + adapter_time + device_time);
    let phases = [
        ("upload", upload_time),
        ("naga", module_time),
        ("pipeline", pipeline_time),
        ("record", record_time),
        ("dispatch", dispatch_time),
        ("readback", readback_time),
    ];
    figures.time("call", phases.iter().map(|(_, time)| time).sum::<Duration>());
    figures.time("instance", instance_time);
    figures.time("adapter", adapter_time);
    figures.time("device", device_time);
    figures.set("render", 0.0);
    phases.into_iter().for_each(|(name, time)| figures.time(name, time));
    figures.set("kernels", 1.0);
    let expected = row.expected(&values);
    check(&first, &expected[..1])?;
    check(&read(&device, &queue, result, expected.len())?, &expected)?;
    Ok(figures)
}

/// The instance that Kiln makes: the APIs that were asked for, no validation in release builds.
fn descriptor(backend: &str) -> wgpu::InstanceDescriptor {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    let asked = std::env::var("KILN_BACKEND").is_ok_and(|word| !word.is_empty());
    descriptor.backends = match backend {
        "vulkan" if asked => wgpu::Backends::VULKAN,
        "metal" if asked => wgpu::Backends::METAL,
        "dx12" if asked => wgpu::Backends::DX12,
        _ => wgpu::Backends::all(),
    };
    descriptor.flags = wgpu::InstanceFlags::from_build_config() - wgpu::InstanceFlags::VALIDATION_INDIRECT_CALL;
    descriptor
}

fn upload(device: &wgpu::Device, values: &[Vec<f32>]) -> Vec<wgpu::Buffer> {
    let upload = |values: &Vec<f32>| {
        // The bytes as they lie; nothing is copied here.
        let (contents, usage) = (&*f32::to_bytes(values), wgpu::BufferUsages::STORAGE);
        device.create_buffer_init(&wgpu::util::BufferInitDescriptor { label: None, contents, usage })
    };
    values.iter().map(upload).collect()
}

fn buffer(device: &wgpu::Device, len: usize, usage: wgpu::BufferUsages) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: len as u64 * 4,
        usage: usage | wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    })
}

/// The first values of a buffer.
fn read(
    device: &wgpu::Device,
    queue: &wgpu::Queue,
    from: &wgpu::Buffer,
    len: usize,
) -> Result<Vec<f32>, Box<dyn Error>> {
    let staging = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: len as u64 * 4,
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    encoder.copy_buffer_to_buffer(from, 0, &staging, 0, staging.size());
    queue.submit([encoder.finish()]);
    staging.map_async(wgpu::MapMode::Read, .., |_| {});
    device.poll(wgpu::PollType::wait_indefinitely())?;
    let bytes = staging.get_mapped_range(..)?;
    let values = bytes.chunks_exact(4).map(|word| word.try_into().map_or(f32::NAN, f32::from_le_bytes));
    Ok(values.collect())
}
