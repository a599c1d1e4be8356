//! What a driver sees of a kernel: naga's MSL and SPIR-V, with the options that wgpu uses for trusted modules.

use kiln_array::kernel::KernelSpec;
use naga::back::{msl, spv};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ValidationFlags, Validator};

use crate::{Binding, ENTRY, Error, bindings};

/// A kernel in the languages of drivers.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// Metal Shading Language.
    pub msl: String,
    /// SPIR-V words.
    pub spirv: Vec<u32>,
}

const UNCHECKED: BoundsCheckPolicies = BoundsCheckPolicies {
    index: BoundsCheckPolicy::Unchecked,
    buffer: BoundsCheckPolicy::Unchecked,
    image_load: BoundsCheckPolicy::Unchecked,
    binding_array: BoundsCheckPolicy::Unchecked,
};

/// Parses and validates a kernel's WGSL and writes it for Metal and Vulkan.
///
/// # Errors
/// The text is not valid WGSL: the message has naga's code frame.
pub fn lower(spec: &KernelSpec, wgsl: &str) -> Result<Lowered, Error> {
    let module = naga::front::wgsl::parse_str(wgsl).map_err(|error| Error::new(error.emit_to_string(wgsl)))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::empty())
        .validate(&module)
        .map_err(|error| Error::new(error.emit_to_string(wgsl)))?;
    // wgpu numbers Metal's buffer slots through the groups in order, and appends the table of array lengths.
    let mut resources = msl::EntryPointResources::default();
    let mut slot = 0;
    let mut bind = |group, binding, mutable| {
        let target = msl::BindTarget { buffer: Some(slot), mutable, ..Default::default() };
        resources.resources.insert(naga::ResourceBinding { group, binding }, target);
        slot += 1;
    };
    bind(0, 0, false);
    for (binding, kind) in (0..).zip(bindings(spec)) {
        bind(1, binding, kind == Binding::Write);
    }
    resources.sizes_buffer = Some(slot);
    let options = msl::Options {
        lang_version: (3, 1),
        per_entry_point_map: [(ENTRY.to_string(), resources)].into_iter().collect(),
        fake_missing_bindings: false,
        bounds_check_policies: UNCHECKED,
        zero_initialize_workgroup_memory: false,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..msl::Options::default()
    };
    let stage = naga::ShaderStage::Compute;
    let pipeline =
        msl::PipelineOptions { entry_point: Some((stage, ENTRY.to_string())), ..msl::PipelineOptions::default() };
    let (msl, _) =
        msl::write_string(&module, &info, &options, &pipeline).map_err(|error| Error::new(format!("MSL: {error}")))?;
    let options = spv::Options {
        lang_version: (1, 3),
        bounds_check_policies: UNCHECKED,
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..spv::Options::default()
    };
    let pipeline = spv::PipelineOptions { shader_stage: stage, entry_point: ENTRY.to_string() };
    let spirv = spv::write_vec(&module, &info, &options, Some(&pipeline))
        .map_err(|error| Error::new(format!("SPIR-V: {error}")))?;
    Ok(Lowered { msl, spirv })
}
