//! Kernels as text: [`render`] makes WGSL of a [`KernelSpec`], [`lower`] shows what a driver will see of it.
//!
//! A kernel is a hand-written skeleton (`wgsl/map.wgsl`, `reduce.wgsl`, `scan.wgsl`, `spine.wgsl`) that calls holes, and a
//! generated prelude that fills them: parameters and bindings, loads through any view, the fused expression, the
//! operator, stores. Joining the two is concatenation. Everything here is a pure function of its arguments: equal
//! specifications give equal bytes in every process.

#![forbid(unsafe_code)]

mod exact;
mod fragments;
mod lower;
mod metal;
mod prelude;
mod spell;
mod writer;

use std::fmt;

use kiln_array::kernel::{Family, KernelSpec};
use kiln_array::recording::LOG_GROUP;

pub use exact::FloatControls;
pub use lower::{Lowered, check, fingerprint, lower, spirv};
pub use metal::{Msl, metal, metal_passthrough};

/// What of the device enters a kernel's text and its SPIR-V.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// One-word accumulators that one workgroup's memory holds, as a power of two: `Caps::log_slots`.
    pub log_slots: u32,
    /// What its SPIR-V may ask for.
    pub float_controls: FloatControls,
}

impl Default for Target {
    /// 16 KiB of workgroup memory, which WebGPU guarantees, and no float controls.
    fn default() -> Self {
        Self { log_slots: 12, float_controls: FloatControls::default() }
    }
}

/// Invocations of one workgroup, in every kernel.
pub const GROUP_SIZE: u32 = 1 << LOG_GROUP;

/// The entry point's name, in every kernel.
pub const ENTRY: &str = "main";

/// What a binding of group 1 is for; group 0 has the parameters alone, in a uniform buffer with a dynamic offset.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Binding {
    /// Read-only storage.
    Read,
    /// Storage that is written, or read and written.
    Write,
}

/// The bindings of group 1, in order: inputs, outputs, totals read, totals written.
#[must_use]
pub fn bindings(spec: &KernelSpec) -> Vec<Binding> {
    let mut bindings = vec![Binding::Read; spec.inputs.len()];
    bindings.extend(spec.outputs.iter().map(|_| Binding::Write));
    bindings.extend(spec.reads_totals.then_some(Binding::Read));
    bindings.extend(spec.writes_totals.then_some(Binding::Write));
    bindings
}

/// Why a kernel cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    message: String,
}

impl Error {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The kernel as WGSL.
///
/// # Errors
/// An operator or type that has no spelling here.
pub fn render(spec: &KernelSpec, target: Target) -> Result<String, Error> {
    let mut text = prelude::write(spec, target)?;
    let skeletons: &[&str] = match spec.family {
        Family::Map => &[include_str!("../wgsl/map.wgsl")],
        Family::Reduce => {
            &[include_str!("../wgsl/tile.wgsl"), include_str!("../wgsl/rows.wgsl"), include_str!("../wgsl/reduce.wgsl")]
        }
        Family::Scan => {
            &[include_str!("../wgsl/tile.wgsl"), include_str!("../wgsl/rows.wgsl"), include_str!("../wgsl/scan.wgsl")]
        }
        Family::Spine => &[include_str!("../wgsl/tile.wgsl"), include_str!("../wgsl/spine.wgsl")],
        other => {
            return Err(Error::new(format!("no skeleton for the family {}", other.name())));
        }
    };
    for skeleton in skeletons {
        text.push('\n');
        text.push_str(skeleton);
    }
    Ok(fragments::prepend(&text))
}
