//! What Kiln finds on this machine, which device it opens, and why.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use kiln::DeviceKind;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("device_info: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "devices (KILN_ADAPTER takes their numbers, or a part of a name)")?;
    for (number, info) in kiln::devices().iter().enumerate() {
        writeln!(out, "  {number}  {info}; driver {}", info.driver)?;
    }

    let asked = ["KILN_BACKEND", "KILN_ADAPTER", "KILN_METAL_PASSTHROUGH"].map(|name| {
        let value = std::env::var_os(name).unwrap_or_default();
        (name, value.to_string_lossy().into_owned())
    });
    writeln!(out, "\nenvironment")?;
    for (name, value) in &asked {
        let value = if value.is_empty() { "not set" } else { value };
        writeln!(out, "  {name:<23} {value}")?;
    }

    let gpu = kiln::open()?;
    let reason = if asked[..2].iter().any(|(_, value)| !value.is_empty()) {
        "the environment asks for it"
    } else {
        match gpu.info().kind {
            DeviceKind::DiscreteGpu => "the first discrete GPU that opens",
            DeviceKind::IntegratedGpu => "no discrete GPU opens; the first integrated one",
            DeviceKind::Cpu => {
                "no GPU opens; one in software is taken only when asked for: KILN_BACKEND=vulkan or dx12"
            }
            _ => "neither a discrete nor an integrated GPU opens",
        }
    };
    let caps = gpu.caps();
    let dtypes: Vec<_> = caps.dtypes.iter().map(|dtype| dtype.name()).collect();
    writeln!(out, "\nchosen  {}", gpu.info())?;
    writeln!(out, "  because            {reason}")?;
    writeln!(out, "  driver             {}", gpu.info().driver)?;
    writeln!(out, "  element types      {}", dtypes.join(" "))?;
    writeln!(out, "  bytes of an array  {}", caps.max_array_bytes)?;
    writeln!(out, "  arrays per kernel  {}", caps.max_operands)?;
    let groups = if caps.max_groups == u64::MAX { "no limit".into() } else { caps.max_groups.to_string() };
    writeln!(out, "  groups per kernel  {groups}")?;
    writeln!(out, "  busy with          {} groups", caps.busy_groups)?;
    writeln!(out, "  slots of a group   {}", 1u64 << caps.log_slots)?;

    let rules = gpu.float_rules()?;
    writeln!(out, "\nrules of IEEE 754 that it keeps for + - * of f32 (measured)")?;
    for (kept, rule) in [
        (rules.order, "sums are added in the documented order"),
        (rules.cancellation, "(x + y) - x is computed"),
        (rules.factoring, "x * y + x * z is two products"),
        (rules.contraction, "products are rounded before they are added"),
        (rules.infinities, "infinities, NaN and signed zeros are computed with"),
        (rules.subnormals, "subnormals are kept"),
    ] {
        writeln!(out, "  {:<4} {rule}", if kept { "yes" } else { "no" })?;
    }
    Ok(())
}
