//! A wgpu device that the program has opened itself: what is kept there is up to its features.

use kiln::wgpu::{self, Features};
use kiln::{Device, Options, Result};

use crate::child::fact;
use crate::files::{self, Scratch};
use crate::process::{Job, device};

const KERNELS: &str = "0..4,s3,c3";

/// Opens a device as an owner would, and Kiln on it. In a child.
pub(crate) fn open(features: &str) -> Result<Device> {
    let wanted = match features {
        "none" => Features::empty(),
        "pipelines" => Features::PIPELINE_CACHE,
        "all" => Features::PIPELINE_CACHE | Features::PASSTHROUGH_SHADERS | Features::SUBGROUP,
        _ => panic!("there is no choice {features}"),
    };
    // The API of the other cases.
    let backends = std::env::var("KILN_BACKEND").ok().map(|name| wgpu::Backends::from_comma_list(&name));
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: backends.unwrap_or_default(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()));
    let adapter = adapter.expect("the other cases have one");
    let request = adapter.request_device(&wgpu::DeviceDescriptor {
        required_features: adapter.features() & wanted,
        required_limits: adapter.limits(),
        ..Default::default()
    });
    let (device, queue) = pollster::block_on(request).expect("the adapter opens");
    let granted = |needed| device.features().contains(needed) && adapter.get_info().backend == wgpu::Backend::Vulkan;
    fact("keeps_text", granted(Features::PASSTHROUGH_SHADERS | Features::SUBGROUP));
    fact("keeps_pipelines", granted(Features::PIPELINE_CACHE));
    Options::from_env().open_on(device, queue)
}

#[test]
fn an_owners_device_keeps_what_its_features_allow() {
    let Some((device, _turn)) = device("own device") else { return };
    for features in ["none", "pipelines", "all"] {
        let scratch = Scratch::new("own-device");
        let job = Job::new("kernels", &device, scratch.path());
        let job = job.with("JOB_KERNELS", KERNELS).with("JOB_FEATURES", features);
        let first = job.run();
        let kernels = first.fact("kernels_compiled");
        let [text, driver] = ["keeps_text", "keeps_pipelines"].map(|name| first.fact(name) * kernels);
        assert_eq!((first.fact("text_misses"), first.fact("driver_misses")), (text, driver), "with {features}");
        // The other cases have found that something is kept here.
        assert!(text + driver > 0 || features != "all", "nothing is kept");
        assert_eq!(files::entries(scratch.path()).len() as u64, text.max(driver), "with {features}");
        let second = job.clone().with("KILN_PREWARM", "1").with("JOB_WARM", "1").run();
        assert_eq!(second.fact("manifest_kernels"), kernels, "the list is kept with {features}");
        assert!(second.fact("text_hits") >= text && second.fact("driver_hits") >= driver, "{}", second.output());
        assert_eq!(second.fact("kernels_compiled"), second.fact("compiled_by_warm_up"), "all was warm");
        // Nothing starts where nothing is asked for.
        let idle = job.clone().with("KILN_CACHE", "0").run();
        assert_eq!((idle.fact("keeps"), idle.fact("kernels_compiled")), (0, kernels));
        assert_eq!(first.warnings() + second.warnings() + idle.warnings(), 0);
    }
}
