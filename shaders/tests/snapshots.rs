//! The text of one kernel of each kind, as WGSL, as MSL and as the size and checksum of its SPIR-V.
//!
//! A difference here is a difference in what drivers see, and in the keys of every cache. Review it, then accept it with
//! `INSTA_UPDATE=always cargo test -p kiln-shaders`.

use std::fmt::Write as _;

use kiln_array::recorder::Recorder;
use kiln_array::reduce::Reduce;
use kiln_array::scan::Scan;
use kiln_array::{Array, ArrayOps, Device, Result, s};
use kiln_shaders::{Target, lower, render};

/// Plans `statement` and snapshots the plan and each of its kernels.
fn snapshot(name: &str, statement: impl FnOnce(&Device) -> Result<()>) {
    let recorder = Recorder::new(Recorder::gpu_caps());
    statement(&recorder.device()).unwrap();
    let mut text = String::new();
    for recording in recorder.take() {
        write!(text, "{recording}").unwrap();
        for dispatch in &recording.dispatches {
            let wgsl = render(&dispatch.kernel, Target::default()).unwrap();
            let lowered = lower(&dispatch.kernel, &wgsl, Target::default()).unwrap();
            let spirv: Vec<u8> = lowered.spirv.iter().flat_map(|word| word.to_le_bytes()).collect();
            let sum = xxhash_rust::xxh3::xxh3_64(&spirv);
            writeln!(text, "\n=== {} {}", dispatch.kernel.label(), dispatch.kernel.key()).unwrap();
            writeln!(text, "{}\n--- WGSL\n{wgsl}", dispatch.kernel).unwrap();
            writeln!(text, "--- MSL\n{}", lowered.msl).unwrap();
            writeln!(text, "--- SPIR-V {} words, checksum {sum:016x}", lowered.spirv.len()).unwrap();
        }
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

fn floats(device: &Device, shape: [usize; 2]) -> Result<Array<f32>> {
    device.full(1.0, shape)
}

#[test]
fn a_fused_map_with_a_broadcast_operand() {
    snapshot("map_f32", |device| {
        let (a, b) = (floats(device, [300, 400])?, floats(device, [1, 400])?);
        drop((((&a - &b) * 2.0).exp() / &a).eval()?);
        Ok(())
    });
}

#[test]
fn a_map_to_packed_truth_values() {
    snapshot("map_bool", |device| {
        let a = device.full(7i32, [30, 50])?;
        drop((a.transpose() % 3).eq(1).eval()?);
        Ok(())
    });
}

#[test]
fn a_sum_in_two_passes() {
    snapshot("sum_f32", |device| floats(device, [1000, 1000])?.sum(..).map(drop));
}

#[test]
fn a_maximum_over_an_outer_axis() {
    snapshot("max_f32_axis0", |device| floats(device, [100, 700])?.slice(s![.., 1..])?.max(0).map(drop));
}

#[test]
fn an_integer_mean_in_two_components() {
    snapshot("mean_i32", |device| device.full(3i32, 5000)?.mean(..).map(drop));
}

#[test]
fn a_running_sum_in_three_passes() {
    snapshot("cumsum_u32", |device| device.full(1u32, 1 << 20)?.cumsum(0).map(drop));
}
