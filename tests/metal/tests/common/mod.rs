//! From WGSL to a run on the host: for tests of the host itself.

#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::{Arc, OnceLock};

use kiln_metal_host::{Argument, Build, Dispatch, Host, Kernel, translate};
use naga::back::msl;
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// The host, loaded once.
pub(crate) fn host() -> &'static Arc<Host> {
    static HOST: OnceLock<Arc<Host>> = OnceLock::new();
    HOST.get_or_init(|| Host::load().expect("a C++ compiler"))
}

/// MSL as wgpu has naga write it for a trusted module, with buffer slots through the bindings in order. The kernel is
/// called `main`.
pub(crate) fn msl(wgsl: &str, change: impl FnOnce(&mut msl::Options)) -> Result<String, String> {
    let module = naga::front::wgsl::parse_str(wgsl).map_err(|error| error.emit_to_string(wgsl))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .map_err(|error| error.emit_to_string(wgsl))?;
    let mut bindings: Vec<naga::ResourceBinding> =
        module.global_variables.iter().filter_map(|(_, variable)| variable.binding).collect();
    bindings.sort_unstable();
    let mut resources = msl::EntryPointResources::default();
    for (slot, binding) in (0..).zip(bindings) {
        let target = msl::BindTarget { buffer: Some(slot), mutable: true, ..Default::default() };
        resources.resources.insert(binding, target);
    }
    resources.sizes_buffer = Some(u8::try_from(resources.resources.len()).expect("few bindings"));
    let mut options = msl::Options {
        lang_version: (3, 1),
        per_entry_point_map: [("main".to_string(), resources)].into_iter().collect(),
        fake_missing_bindings: false,
        zero_initialize_workgroup_memory: false,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..msl::Options::default()
    };
    change(&mut options);
    let pipeline = msl::PipelineOptions {
        entry_point: Some((naga::ShaderStage::Compute, "main".to_string())),
        vertex_pulling_transform: true,
        ..msl::PipelineOptions::default()
    };
    let (text, _) = msl::write_string(&module, &info, &options, &pipeline).map_err(|error| error.to_string())?;
    Ok(text)
}

/// Compiles a text of MSL.
pub(crate) fn compile(msl: &str, build: Build) -> Result<Kernel, String> {
    let translated = translate(msl, "kernel_of_a_test")?;
    let mut kernels = host().compile(&[("kernel_of_a_test".to_string(), translated)], build)?;
    Ok(kernels.remove(0))
}

/// How to run.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) threads: u32,
    pub(crate) groups: u32,
    pub(crate) width: u32,
}

impl Default for Grid {
    fn default() -> Self {
        Self { threads: 64, groups: 1, width: 32 }
    }
}

/// Buffers of words, each from an address that is a multiple of 16.
pub(crate) fn run(kernel: &Kernel, grid: Grid, buffers: &mut [Vec<u32>]) -> Result<(), String> {
    let mut memory: Vec<Vec<u128>> = buffers
        .iter()
        .map(|words| {
            let mut units = vec![0u128; words.len().div_ceil(4) + 16];
            for (at, &word) in words.iter().enumerate() {
                units[at / 4] |= u128::from(word) << (32 * (at % 4));
            }
            units
        })
        .collect();
    let mut arguments: Vec<Argument> = memory
        .iter_mut()
        .zip(buffers.iter())
        .map(|(units, words)| Argument { at: units.as_mut_ptr().cast(), bytes: words.len() * 4, writable: true })
        .collect();
    // The table of lengths, which these kernels do not read.
    let mut lengths = [0u128; 4];
    arguments.push(Argument { at: lengths.as_mut_ptr().cast(), bytes: 64, writable: false });
    let dispatch =
        Dispatch { arguments: &arguments, threads: grid.threads, groups: (grid.groups, 1), simd_width: grid.width };
    // SAFETY: the memory is this function's own. It ends 256 bytes behind what the kernel is told, which is more than
    // any of these kernels go astray by when it is not checked.
    let outcome = unsafe { kernel.run(&dispatch) };
    for (words, units) in buffers.iter_mut().zip(&memory) {
        for (at, word) in words.iter_mut().enumerate() {
            *word = u32::try_from(units[at / 4] >> (32 * (at % 4)) & 0xffff_ffff).expect("32 bits");
        }
    }
    outcome
}

/// Compiles WGSL and runs it.
pub(crate) fn run_wgsl(wgsl: &str, build: Build, grid: Grid, buffers: &mut [Vec<u32>]) -> Result<(), String> {
    run(&compile(&msl(wgsl, |_| {})?, build)?, grid, buffers)
}
