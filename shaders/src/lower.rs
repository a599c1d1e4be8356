//! What a driver sees of a kernel: naga's MSL and SPIR-V, with the options that wgpu uses for trusted modules; the SPIR-V
//! made exact.

use kiln_array::kernel::KernelSpec;
use naga::back::spv;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ValidationFlags, Validator};

use crate::exact::{FloatControls, exact};
use crate::{ENTRY, Error, Target, metal};

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

/// Parses and validates a kernel's WGSL.
///
/// # Errors
/// The text is not valid WGSL: the message has naga's code frame.
pub fn check(wgsl: &str) -> Result<(), Error> {
    Parsed::new(wgsl).map(drop)
}

/// Parses and validates a kernel's WGSL and writes it for Metal and Vulkan.
///
/// # Errors
/// The text is not valid WGSL: the message has naga's code frame.
pub fn lower(spec: &KernelSpec, wgsl: &str, target: Target) -> Result<Lowered, Error> {
    let parsed = Parsed::new(wgsl)?;
    let msl = metal::write(spec, &parsed)?.text;
    Ok(Lowered { msl, spirv: write_spirv(&parsed, target.float_controls)? })
}

fn write_spirv(parsed: &Parsed, controls: FloatControls) -> Result<Vec<u32>, Error> {
    let usual = spv::Options::default();
    let options = spv::Options {
        lang_version: (1, 3),
        // Names are there for people, in builds with debug assertions alone: every build is to make the same words.
        flags: usual.flags - spv::WriterFlags::DEBUG,
        bounds_check_policies: UNCHECKED,
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..usual
    };
    let pipeline = spv::PipelineOptions { shader_stage: naga::ShaderStage::Compute, entry_point: ENTRY.to_string() };
    let words = spv::write_vec(&parsed.module, &parsed.info, &options, Some(&pipeline))
        .map_err(|error| Error::new(format!("SPIR-V: {error}")))?;
    exact(&words, controls)
}

/// A kernel with loops, workgroup memory, barriers, structures and every kind of binding.
const KNOWN: &str = "scan kept=1 walked=1 a:f32:strided o:f32:strided reads-totals map{v0:f32=in0; v1:f32=exp(v0); -> v1} \
                     combine{v0:f32=in0; v1:f32=in1; v2:f32=add(v0,v1); -> v2} finish{v0:f32=in0; -> v0}";

/// A hash of what naga makes of a known kernel: another version of naga, or of Kiln's skeletons, gives another. Caches of
/// lowered text are keyed by it, since naga does not tell its version. Takes a few milliseconds.
#[must_use]
pub fn fingerprint() -> u128 {
    let lowered = KNOWN.parse::<KernelSpec>().map_err(Error::new).and_then(|spec| {
        let target = Target { float_controls: FloatControls::ALL, ..Target::default() };
        let wgsl = crate::render(&spec, target)?;
        let edited = metal::metal_passthrough(&spec, &wgsl)?;
        Ok((lower(&spec, &wgsl, target)?, wgsl + &edited.text))
    });
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    };
    match &lowered {
        Ok((lowered, wgsl)) => {
            add(wgsl.as_bytes());
            add(lowered.msl.as_bytes());
            lowered.spirv.iter().for_each(|word| add(&word.to_le_bytes()));
        }
        // Then nothing else lowers either.
        Err(error) => add(error.to_string().as_bytes()),
    }
    hash
}

/// The SPIR-V of a kernel: its float arithmetic is computed as it is written, with the controls that the target has.
///
/// # Errors
/// As [`lower`].
pub fn spirv(wgsl: &str, target: Target) -> Result<Vec<u32>, Error> {
    Parsed::new(wgsl).and_then(|parsed| write_spirv(&parsed, target.float_controls))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_is_of_a_kernel_that_lowers() {
        let spec: KernelSpec = KNOWN.parse().unwrap();
        let target = Target::default();
        lower(&spec, &crate::render(&spec, target).unwrap(), target).unwrap();
        assert_eq!(fingerprint(), fingerprint());
    }
}
