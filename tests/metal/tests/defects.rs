//! Where naga 30 writes MSL that Apple's compiler refuses or that is wrong: `docs/metal.md` lists these with the way round.
//!
//! Each test holds the defect itself. When one fails after an update of naga, the defect is gone: take its row out of
//! the page, and the way round out of Kiln if nothing else needs it.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{Grid, compile, msl, run_wgsl};
use kiln_metal_host::Build;

/// A kernel over `x`, an array of `ty`, whose body is given.
fn kernel(head: &str, ty: &str, body: &str) -> String {
    format!(
        "{head}
         @group(0) @binding(0) var<storage, read_write> x: array<{ty}>;
         @group(0) @binding(1) var<storage, read_write> out: array<u32>;
         @compute @workgroup_size(64)
         fn main(@builtin(local_invocation_index) i: u32) {{ {body} }}"
    )
}

fn refused(wgsl: &str, words: &str) {
    let text = msl(wgsl, |options| options.emit_int_div_checks = true).unwrap();
    let error = compile(&text, Build::Strict).expect_err("a text that Apple's compiler refuses");
    assert!(error.contains(words), "{words} in {error}\n{text}");
}

#[test]
fn n1_checked_division_of_64_bits_is_ambiguous() {
    refused(&kernel("", "i64", "x[0] = x[1] / x[2];"), "ambiguous");
    refused(&kernel("", "u64", "x[0] = x[1] % x[2];"), "ambiguous");
    // Without the check the same division compiles.
    compile(&msl(&kernel("", "i64", "x[0] = x[1] / x[2];"), |_| {}).unwrap(), Build::Strict).unwrap();
}

#[test]
fn n2_simd_operations_of_64_bits_do_not_exist() {
    for (ty, call) in [("i64", "subgroupAdd(x[i])"), ("u64", "subgroupShuffleXor(x[i], 1u)")] {
        refused(&kernel("", ty, &format!("let v = {call}; x[i] = v;")), "simd_");
    }
}

#[test]
fn n3_sixteen_bits_are_computed_in_32() {
    // 65535 + 65535 in u16 is 65534.
    let wgsl = kernel("enable wgpu_int16;", "u16", "out[0] = u32((x[0] + x[1]) >> 1u);");
    let mut buffers = [vec![0xffff_ffff], vec![0]];
    run_wgsl(&wgsl, Build::Strict, Grid { threads: 1, ..Grid::default() }, &mut buffers).unwrap();
    assert_eq!(buffers[1], [65_535], "right would be 32767");
}

#[test]
fn n4_extremes_of_sixteen_bits_are_ambiguous() {
    refused(&kernel("enable wgpu_int16;", "u16", "x[0] = max(x[1] + x[2], x[3]);"), "ambiguous");
}

#[test]
fn n5_sixteen_bit_integers_of_floats_panic() {
    let wgsl = kernel("enable wgpu_int16;", "f32", "out[0] = u32(u16(x[0]));");
    assert!(catch_unwind(AssertUnwindSafe(|| msl(&wgsl, |_| {}))).is_err());
}

#[test]
fn n6_parts_of_half_floats_are_refused() {
    let wgsl = kernel("enable f16;", "f16", "x[0] = max(degrees(x[1]), x[2]);");
    refused(&wgsl, "ambiguous");
}

#[test]
fn n7_atomics_of_64_bits_do_not_exist() {
    let wgsl = kernel("", "atomic<u64>", "let v = atomicLoad(&x[0]); out[0] = u32(v);");
    refused(&wgsl, "atomic");
}

#[test]
fn n8_ballots_keep_32_lanes() {
    let wgsl =
        kernel("", "u32", "let votes = subgroupBallot(true); if (i == 0u) { out[0] = votes.x; out[1] = votes.y; }");
    let mut buffers = [vec![0], vec![7, 7]];
    run_wgsl(&wgsl, Build::Strict, Grid { width: 64, ..Grid::default() }, &mut buffers).unwrap();
    assert_eq!(buffers[1], [!0, 0], "right would be !0 in both");
}

#[test]
fn n9_divergent_barriers_are_valid() {
    let wgsl = kernel("var<workgroup> w: u32;", "u32", "if (x[i] > 0u) { w = 1u; workgroupBarrier(); } out[i] = i;");
    let mut x = vec![0; 64];
    x[3] = 1;
    let text = run_wgsl(&wgsl, Build::Strict, Grid::default(), &mut [x, vec![0; 64]]).expect_err("divergence");
    assert!(text.contains("divergent barrier"), "{text}");
}

/// A float literal without a suffix is a float to Metal and a double to C++: the host must not compute more precisely.
#[test]
fn literals_are_floats() {
    let wgsl = kernel("", "f32", "x[0] = x[1] * 0.1 * 3.0; out[0] = bitcast<u32>(x[0]);");
    let mut buffers = [vec![0, 0.7f32.to_bits()], vec![0]];
    run_wgsl(&wgsl, Build::Strict, Grid { threads: 1, ..Grid::default() }, &mut buffers).unwrap();
    assert_eq!(buffers[1][0], (0.7f32 * 0.1 * 3.0).to_bits());
}
