//! A wgpu device without Kiln, for what a program by hand gets.

use kiln::DeviceInfo;
use kiln::wgpu;

/// Opens the GPU that `info` names, by itself.
pub(crate) fn open(info: &DeviceInfo) -> Result<(wgpu::Device, wgpu::Queue), String> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let all = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    let adapter = all
        .into_iter()
        .find(|adapter| {
            let found = adapter.get_info();
            found.name == info.name && found.backend.to_str() == info.backend
        })
        .ok_or("the adapter is not there a second time")?;
    let request = adapter.request_device(&wgpu::DeviceDescriptor {
        required_limits: adapter.limits(),
        ..wgpu::DeviceDescriptor::default()
    });
    pollster::block_on(request).map_err(|error| error.to_string())
}
