//! Planted faults: the host must report each, and say nothing of the same kernel without it.

mod common;

use common::{Grid, compile, msl, run, run_wgsl};
use kiln_metal_host::Build;

/// A sum of a workgroup's values, with holes for what may be wrong with it.
fn sum(barrier: &str, last: &str, first_write: &str) -> String {
    format!(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
         @group(0) @binding(1) var<storage, read_write> out: array<u32>;
         var<workgroup> w: array<u32, 64>;
         @compute @workgroup_size(64)
         fn main(@builtin(local_invocation_index) i: u32, @builtin(workgroup_id) g: vec3<u32>) {{
             {first_write}
             for (var step = 32u; step > 0u; step >>= 1u) {{
                 {barrier}
                 if (i < step) {{ w[i] += w[i + step]; }}
             }}
             {barrier}
             {last}
         }}"
    )
}

const BARRIER: &str = "workgroupBarrier();";
const WRITE: &str = "w[i] = x[g.x * 64u + i];";
const LAST: &str = "if (i == 0u) { out[g.x] = w[0]; }";

fn outcome(wgsl: &str, build: Build, groups: u32) -> (Result<(), String>, Vec<u32>) {
    let mut buffers = [(0..64 * groups).collect(), vec![0; groups as usize]];
    let outcome = run_wgsl(wgsl, build, Grid { groups, ..Grid::default() }, &mut buffers);
    let [_, out] = buffers;
    (outcome, out)
}

fn report(wgsl: &str, groups: u32) -> String {
    let (outcome, _) = outcome(wgsl, Build::Checked, groups);
    outcome.expect_err("a fault")
}

#[test]
fn the_same_kernel_without_a_fault() {
    for build in [Build::Strict, Build::Fast, Build::Checked] {
        let (outcome, out) = outcome(&sum(BARRIER, LAST, WRITE), build, 3);
        assert_eq!(outcome, Ok(()));
        assert_eq!(out, [2016, 6112, 10208]);
    }
}

#[test]
fn a_missing_barrier() {
    let wgsl = sum("", LAST, &format!("{WRITE} {BARRIER}"));
    let text = report(&wgsl, 1);
    assert!(text.contains("race") && text.contains("threadgroup variable 0") && text.contains("line "), "{text}");
    // And it shows in numbers where nothing is checked.
    let (_, out) = outcome(&wgsl, Build::Strict, 3);
    assert_ne!(out, [2016, 6112, 10208]);
}

#[test]
fn the_wrong_kind_of_barrier() {
    let text = report(&sum("storageBarrier();", LAST, WRITE), 1);
    assert!(text.contains("race") && text.contains("threadgroup variable 0"), "{text}");
    // Memory of the device, handed from thread to thread with a barrier for the other memory.
    let handed = |barrier: &str| {
        format!(
            "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
             @group(0) @binding(1) var<storage, read_write> out: array<u32>;
             @compute @workgroup_size(64)
             fn main(@builtin(local_invocation_index) i: u32) {{
                 x[i] = i;
                 {barrier}
                 if (i == 0u) {{ out[0] = x[63]; }}
             }}"
        )
    };
    let text = report(&handed("workgroupBarrier();"), 1);
    assert!(text.contains("race of a read with a write") && text.contains("buffer 0"), "{text}");
    assert_eq!(outcome(&handed("storageBarrier();"), Build::Checked, 1), (Ok(()), vec![63]));
}

#[test]
fn an_index_that_is_off_by_one() {
    let read = report(&sum(BARRIER, LAST, "w[i] = x[i + 1u];"), 1);
    assert!(read.contains("read of 4 bytes outside all memory: 0 bytes after buffer 0"), "{read}");
    let write = report(&sum(BARRIER, "if (i == 0u) { out[1] = w[0]; }", WRITE), 1);
    assert!(write.contains("write of 4 bytes outside") && write.contains("after buffer 1"), "{write}");
    let shared = sum(BARRIER, LAST, "w[i + 1u] = x[i]; if (i == 0u) { w[0] = 0u; }");
    let text = report(&shared, 1);
    assert!(text.contains("write of 4 bytes outside") && text.contains("threadgroup variable 0"), "{text}");
    // Writes behind threadgroup memory show without checks, too.
    let (outcome, _) = outcome(&shared, Build::Strict, 1);
    assert!(outcome.expect_err("a fault").contains("write outside threadgroup memory"));
}

#[test]
fn a_read_of_unwritten_memory() {
    let text = report(&sum(BARRIER, LAST, "if (i < 63u) { w[i] = x[i]; }"), 1);
    assert!(text.contains("read of threadgroup memory that nobody wrote") && text.contains("word 63"), "{text}");
    // What another threadgroup left there is no value either.
    let second = sum(BARRIER, LAST, "if (i < 63u || g.x == 0u) { w[i] = x[g.x * 64u + i]; }");
    assert!(report(&second, 4).contains("nobody wrote"));
}

#[test]
fn a_divergent_barrier() {
    for build in [Build::Strict, Build::Checked] {
        let ended = sum(BARRIER, LAST, "w[i] = x[i]; if (i == 5u) { return; }");
        let text = outcome(&ended, build, 1).0.expect_err("a fault");
        assert!(text.contains("divergent barrier") && text.contains("thread 5 has ended"), "{text}");
        let arms = sum("if (i < 32u) { workgroupBarrier(); } else { workgroupBarrier(); }", LAST, WRITE);
        let text = outcome(&arms, build, 1).0.expect_err("a fault");
        assert!(text.contains("divergent barriers: thread"), "{text}");
        // One barrier in a function that both arms call.
        let calls = format!(
            "fn wait(v: u32) -> u32 {{ workgroupBarrier(); return w[v % 64u]; }}\n{}",
            sum(BARRIER, "if (i < 32u) { out[0] = wait(1u) + i; } else { out[0] = wait(2u); }", WRITE)
        );
        let text = outcome(&calls, build, 1).0.expect_err("a fault");
        assert!(text.contains("by different calls"), "{text}");
    }
}

#[test]
fn a_race_between_groups() {
    let text = report(&sum(BARRIER, "if (i == 0u) { out[0] = w[0]; }", WRITE), 2);
    assert!(text.contains("race of two writes") && text.contains("another threadgroup"), "{text}");
    let neighbour = sum(BARRIER, "if (i == 0u) { out[g.x] = w[0] + out[(g.x + 1u) % 2u]; }", WRITE);
    let text = report(&neighbour, 2);
    assert!(text.contains("race of a") && text.contains("buffer 1"), "{text}");
}

#[test]
fn a_divergent_operation_of_a_simd_group() {
    let wgsl = |condition: &str| {
        format!(
            "@group(0) @binding(0) var<storage, read_write> out: array<u32>;
             @compute @workgroup_size(64)
             fn main(@builtin(local_invocation_index) i: u32) {{
                 if ({condition}) {{ out[i] = subgroupAdd(i); }}
             }}"
        )
    };
    let kernel = |condition: &str| compile(&msl(&wgsl(condition), |_| {}).unwrap(), Build::Strict).unwrap();
    let mut out = [vec![0; 64]];
    let text = run(&kernel("i != 3u"), Grid::default(), &mut out).expect_err("a fault");
    assert!(text.contains("divergent flow"), "{text}");
    run(&kernel("i < 32u"), Grid::default(), &mut out).unwrap();
    assert_eq!(out[0][..33], [&[496; 32][..], &[0]].concat());
}

/// A SIMD group's threads need no threadgroup barrier between them, but those of two groups do.
#[test]
fn what_a_simd_barrier_orders() {
    let wgsl = |far: u32| {
        format!(
            "@group(0) @binding(0) var<storage, read_write> out: array<u32>;
             var<workgroup> w: array<u32, 64>;
             @compute @workgroup_size(64)
             fn main(@builtin(local_invocation_index) i: u32) {{
                 w[i] = i;
                 subgroupBarrier();
                 out[i] = w[i ^ {far}u];
             }}"
        )
    };
    let mut out = [vec![0; 64]];
    run_wgsl(&wgsl(1), Build::Checked, Grid::default(), &mut out).unwrap();
    assert_eq!(out[0][..4], [1, 0, 3, 2]);
    let text = run_wgsl(&wgsl(32), Build::Checked, Grid::default(), &mut out).expect_err("a fault");
    assert!(text.contains("race"), "{text}");
}

/// Atomics do not race with each other, but with plain accesses.
#[test]
fn atomics_and_races() {
    let wgsl = |last: &str| {
        format!(
            "@group(0) @binding(0) var<storage, read_write> count: atomic<u32>;
             @group(0) @binding(1) var<storage, read_write> out: array<u32>;
             @compute @workgroup_size(64)
             fn main(@builtin(global_invocation_id) i: vec3<u32>) {{
                 atomicAdd(&count, 1u);
                 atomicMax(&count, 3u);
                 {last}
             }}"
        )
    };
    let mut buffers = [vec![0], vec![0; 256]];
    let grid = Grid { groups: 4, ..Grid::default() };
    run_wgsl(&wgsl(""), Build::Checked, grid, &mut buffers).unwrap();
    assert!((256..=258).contains(&buffers[0][0]), "{}", buffers[0][0]);
    run_wgsl(&wgsl("out[i.x] = i.x;"), Build::Checked, grid, &mut buffers).unwrap();
    assert_eq!(buffers[1], (0..256).collect::<Vec<u32>>());
    let text = run_wgsl(&wgsl("out[i.x / 2u] = i.x;"), Build::Checked, grid, &mut buffers).expect_err("a fault");
    assert!(text.contains("race of two writes"), "{text}");
    // One word, counted atomically by some threads and read plainly by another. WGSL has no plain access to an atomic word;
    // MSL has, by way of its address.
    let counted = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
         var<workgroup> w: atomic<u32>;
         @compute @workgroup_size(64)
         fn main(@builtin(local_invocation_index) i: u32) {
             if (i == 0u) { atomicStore(&w, 0u); }
             workgroupBarrier();
             if (i < 32u) { atomicAdd(&w, 1u); }
             workgroupBarrier();
             if (i == 0u) { x[0] = atomicLoad(&w); }
         }";
    let text = msl(counted, |_| {}).unwrap();
    let load = "metal::atomic_load_explicit(&w, metal::memory_order_relaxed)";
    let plain = text.replacen(load, "*(threadgroup uint*)&w", 1);
    assert_ne!(plain, text, "naga loads otherwise: {text}");
    let mut x = [vec![0]];
    run(&compile(&plain, Build::Checked).unwrap(), Grid::default(), &mut x).unwrap();
    assert_eq!(x[0], [32]);
    let (before, after) = plain.split_at(plain.rfind("metal::threadgroup_barrier").unwrap());
    let racing = format!("{before}{}", after.split_once(';').unwrap().1);
    let text = run(&compile(&racing, Build::Checked).unwrap(), Grid::default(), &mut x).expect_err("a fault");
    assert!(text.contains("race"), "{text}");
}
