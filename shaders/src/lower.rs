//! What a driver sees of a kernel: naga's MSL and SPIR-V, with the options that wgpu uses for trusted modules.

use kiln_array::kernel::KernelSpec;
use naga::back::spv;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ValidationFlags, Validator};

use crate::{ENTRY, Error, metal};

/// A kernel in the languages of drivers.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// Metal Shading Language.
    pub msl: String,
    /// SPIR-V words.
    pub spirv: Vec<u32>,
}

pub(crate) const UNCHECKED: BoundsCheckPolicies = BoundsCheckPolicies {
    index: BoundsCheckPolicy::Unchecked,
    buffer: BoundsCheckPolicy::Unchecked,
    image_load: BoundsCheckPolicy::Unchecked,
    binding_array: BoundsCheckPolicy::Unchecked,
};

/// A kernel's module, parsed and validated.
pub(crate) struct Parsed {
    pub(crate) module: naga::Module,
    pub(crate) info: naga::valid::ModuleInfo,
}

impl Parsed {
    pub(crate) fn new(wgsl: &str) -> Result<Self, Error> {
        let module = naga::front::wgsl::parse_str(wgsl).map_err(|error| Error::new(error.emit_to_string(wgsl)))?;
        let info = Validator::new(ValidationFlags::all(), Capabilities::empty())
            .validate(&module)
            .map_err(|error| Error::new(error.emit_to_string(wgsl)))?;
        Ok(Self { module, info })
    }
}

/// Parses and validates a kernel's WGSL and writes it for Metal and Vulkan.
///
/// # Errors
/// The text is not valid WGSL: the message has naga's code frame.
pub fn lower(spec: &KernelSpec, wgsl: &str) -> Result<Lowered, Error> {
    let parsed = Parsed::new(wgsl)?;
    let msl = metal::write(spec, &parsed)?.text;
    let options = spv::Options {
        lang_version: (1, 3),
        bounds_check_policies: UNCHECKED,
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..spv::Options::default()
    };
    let pipeline = spv::PipelineOptions { shader_stage: naga::ShaderStage::Compute, entry_point: ENTRY.to_string() };
    let spirv = spv::write_vec(&parsed.module, &parsed.info, &options, Some(&pipeline))
        .map_err(|error| Error::new(format!("SPIR-V: {error}")))?;
    Ok(Lowered { msl, spirv })
}
