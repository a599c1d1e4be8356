//! MSL of a kernel: as wgpu has naga write it, and edited for handing to Metal past naga.
//!
//! wgpu numbers Metal's buffer slots through the bind groups in order, and appends a table of array lengths. With
//! passthrough nobody fills that table, nor sets the sizes of threadgroup variables that are parameters; so the edited
//! text has no table, which unchecked kernels never read, and declares its threadgroup variables inside the kernel.

use kiln_array::kernel::KernelSpec;
use naga::back::msl;

use crate::lower::{Parsed, UNCHECKED};
use crate::{Binding, ENTRY, Error, bindings};

/// A kernel in the Metal Shading Language.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Msl {
    /// The text.
    pub text: String,
    /// The kernel function's name in it.
    pub entry: String,
}

/// Asks the compiler to compute floats as written: no product fused into an addition, and, from the oldest language
/// version that can be asked from inside a text, no other rewriting.
const SAFE_MATH: &str = "\
#pragma METAL fp contract(off)
#if __METAL_VERSION__ >= 320
#pragma METAL fp math_mode(safe)
#endif
";

/// What wgpu hands to Metal for a trusted module, in language version 3.1.
///
/// # Errors
/// The text is not valid WGSL, or naga has no MSL for it.
pub fn metal(spec: &KernelSpec, wgsl: &str) -> Result<Msl, Error> {
    write(spec, &Parsed::new(wgsl)?)
}

/// The same kernel for `create_shader_module_passthrough`: slots are those of [`metal`], the table of lengths is gone,
/// threadgroup memory is static, and safe math is asked for where the language has a way.
///
/// # Errors
/// As [`metal`], or naga's text has another form than this edits.
pub fn metal_passthrough(spec: &KernelSpec, wgsl: &str) -> Result<Msl, Error> {
    let msl = metal(spec, wgsl)?;
    let text = edit(&msl)?;
    Ok(Msl { text, ..msl })
}

pub(crate) fn write(spec: &KernelSpec, parsed: &Parsed) -> Result<Msl, Error> {
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
        spirv_cross_compatibility: false,
        fake_missing_bindings: false,
        bounds_check_policies: UNCHECKED,
        zero_initialize_workgroup_memory: false,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..msl::Options::default()
    };
    let pipeline = msl::PipelineOptions {
        entry_point: Some((naga::ShaderStage::Compute, ENTRY.to_string())),
        vertex_pulling_transform: true,
        ..msl::PipelineOptions::default()
    };
    let refused = |error: &dyn std::fmt::Display| Error::new(format!("MSL: {error}"));
    let (text, info) =
        msl::write_string(&parsed.module, &parsed.info, &options, &pipeline).map_err(|error| refused(&error))?;
    let entry = match info.entry_point_names.into_iter().next() {
        Some(Ok(name)) => name,
        Some(Err(error)) => return Err(refused(&error)),
        None => return Err(refused(&"no entry point")),
    };
    Ok(Msl { text, entry })
}

fn edit(msl: &Msl) -> Result<String, Error> {
    const TABLE: &str = "constant _mslBufferSizes& _buffer_sizes";
    let odd = |what: &str| Error::new(format!("MSL for passthrough: {what}"));
    let text = msl
        .text
        .replace(&format!(",\n    {TABLE}"), "")
        .replace(&format!("(\n    {TABLE}\n)"), "()")
        .replace(", _buffer_sizes)", ")")
        .replace("(_buffer_sizes)", "()");
    let start = text.find(&format!("kernel void {}(", msl.entry)).ok_or_else(|| odd("no kernel"))?;
    let (before, kernel) = text.split_at(start);
    let end = kernel.find(") {\n").ok_or_else(|| odd("no kernel body"))?;
    let (signature, body) = kernel.split_at(end);

    let mut parameters = Vec::new();
    let mut locals = String::new();
    for line in signature.lines() {
        let parameter = line.trim_start_matches([',', ' ']);
        if let Some(variable) = parameter.strip_prefix("threadgroup ") {
            locals.push_str(&format!("    threadgroup {};\n", variable.replace("& ", " ")));
        } else if !parameter.starts_with(TABLE) {
            parameters.push(line);
        }
    }
    let body = body.strip_prefix(") {\n").unwrap_or_default();
    let mut text = format!("{before}{}\n) {{\n{locals}{body}", parameters.join("\n"));
    if let Some(from) = text.find("struct _mslBufferSizes {") {
        let end = text[from..].find("};\n").ok_or_else(|| odd("an open table of lengths"))?;
        text.replace_range(from..from + end + 3, "");
    }
    if text.contains("_buffer_sizes") {
        return Err(odd("the table of lengths is read"));
    }
    let includes = text.find("using metal::uint;").ok_or_else(|| odd("no head"))?;
    text.insert_str(includes, SAFE_MATH);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use kiln_array::recorder::{Recorder, kernels};
    use kiln_array::scan::Scan;

    use super::*;
    use crate::{Target, render};

    #[test]
    fn passthrough_has_no_table_and_static_memory() {
        let recorder = Recorder::new(Recorder::gpu_caps());
        recorder.device().full(1.5f32, 1 << 20).unwrap().cumsum(0).unwrap();
        let mut with_memory = 0;
        for spec in kernels(&recorder.take()) {
            let wgsl = render(spec, Target::default()).unwrap();
            let (plain, edited) = (metal(spec, &wgsl).unwrap(), metal_passthrough(spec, &wgsl).unwrap());
            assert_eq!(plain.entry, edited.entry);
            assert!(
                edited.text.contains("math_mode(safe)")
                    && edited.text.contains("contract(off)")
                    && !edited.text.contains("_buffer_sizes")
            );
            // As many buffers as before, but the table.
            let buffers = |text: &str| text.matches("[[buffer(").count();
            assert_eq!(buffers(&plain.text), buffers(&edited.text) + 1);
            let signature =
                |text: &str| text[text.find("kernel void").unwrap()..].split(") {").next().unwrap().to_owned();
            assert!(!signature(&edited.text).contains("threadgroup type"), "{}", edited.text);
            let variables = signature(&plain.text).matches("\n, threadgroup ").count();
            assert_eq!(
                edited.text.matches(";\n    threadgroup ").count() + edited.text.matches("{\n    threadgroup ").count(),
                variables
            );
            with_memory += usize::from(variables > 0);
        }
        assert!(with_memory >= 3, "reduce, spine and scan");
    }
}
