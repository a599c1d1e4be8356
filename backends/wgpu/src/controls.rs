//! Which float controls a Vulkan device has: what its kernels may ask for beyond what WGSL can say.
//!
//! wgpu does not report them, so the driver is asked. Everywhere else there are none.

use kiln_shaders::FloatControls;

/// The float controls of a device: none where it is not a Vulkan device of version 1.2 or later.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", target_os = "windows"))]
pub(crate) fn of(device: &wgpu::Device) -> FloatControls {
    use ash::vk;

    // SAFETY: the handle is used while `device` lives, and nothing is destroyed through it.
    let Some(device) = (unsafe { device.as_hal::<wgpu::hal::api::Vulkan>() }) else {
        return FloatControls::default();
    };
    let shared = device.shared_instance();
    if shared.instance_api_version() < vk::API_VERSION_1_1 {
        return FloatControls::default();
    }
    let (instance, physical) = (shared.raw_instance(), device.raw_physical_device());
    let mut controls = vk::PhysicalDeviceFloatControlsProperties::default();
    // SAFETY: the physical device is the instance's own, and the instance has the functions of version 1.1, which the
    // second call is of. A device of version 1.2 fills the structure that is chained in.
    unsafe {
        if instance.get_physical_device_properties(physical).api_version < vk::API_VERSION_1_2 {
            return FloatControls::default();
        }
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut controls);
        instance.get_physical_device_properties2(physical, &mut properties);
    }
    FloatControls {
        denorm_preserve: controls.shader_denorm_preserve_float32 == vk::TRUE,
        signed_zero_inf_nan_preserve: controls.shader_signed_zero_inf_nan_preserve_float32 == vk::TRUE,
        rounding_mode_rte: controls.shader_rounding_mode_rte_float32 == vk::TRUE,
    }
}

/// The float controls of a device: none on this platform, which has no Vulkan.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd", target_os = "windows")))]
pub(crate) fn of(_: &wgpu::Device) -> FloatControls {
    FloatControls::default()
}
