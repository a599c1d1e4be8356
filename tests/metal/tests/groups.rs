//! SIMD groups of every width, and the built-in values of threads, against plain loops.

mod common;

use common::{Grid, compile, msl, run};
use kiln_metal_host::Build;

const WIDTHS: [u32; 4] = [4, 8, 32, 64];
const THREADS: u32 = 128;

/// What each thread gives to the operations: no two alike in a group.
fn given(thread: u32) -> u32 {
    thread.wrapping_mul(2_654_435_761) >> 20
}

#[test]
fn operations_of_simd_groups() {
    type Naive = fn(&[u32], usize) -> u32;
    let operations: [(&str, Naive); 20] = [
        ("subgroupAdd(v)", |all, _| all.iter().sum()),
        ("subgroupMul(v & 1u)", |all, _| all.iter().map(|v| v & 1).product()),
        ("subgroupMin(v)", |all, _| *all.iter().min().unwrap()),
        ("subgroupMax(v)", |all, _| *all.iter().max().unwrap()),
        ("subgroupAnd(v)", |all, _| all.iter().fold(!0, |a, b| a & b)),
        ("subgroupOr(v)", |all, _| all.iter().fold(0, |a, b| a | b)),
        ("subgroupXor(v)", |all, _| all.iter().fold(0, |a, b| a ^ b)),
        ("subgroupExclusiveAdd(v)", |all, lane| all[..lane].iter().sum()),
        ("subgroupInclusiveAdd(v)", |all, lane| all[..=lane].iter().sum()),
        ("subgroupExclusiveMul(v | 1u)", |all, lane| all[..lane].iter().map(|v| v | 1).fold(1, u32::wrapping_mul)),
        ("subgroupInclusiveMul(v | 1u)", |all, lane| all[..=lane].iter().map(|v| v | 1).fold(1, u32::wrapping_mul)),
        ("subgroupBroadcastFirst(v)", |all, _| all[0]),
        ("subgroupBroadcast(v, 3u)", |all, _| all[3]),
        ("subgroupShuffle(v, (size - 1u) - lane)", |all, lane| all[all.len() - 1 - lane]),
        ("subgroupShuffleXor(v, 2u)", |all, lane| all[lane ^ 2]),
        ("select(subgroupShuffleDown(v, 1u), 7u, lane + 1u == size)", |all, lane| *all.get(lane + 1).unwrap_or(&7)),
        ("select(subgroupShuffleUp(v, 1u), 7u, lane == 0u)", |all, lane| {
            lane.checked_sub(1).map_or(7, |before| all[before])
        }),
        ("select(0u, 1u, subgroupAll(v > 9u))", |all, _| u32::from(all.iter().all(|&v| v > 9))),
        ("select(0u, 1u, subgroupAny(v > 4000u))", |all, _| u32::from(all.iter().any(|&v| v > 4000))),
        ("quadSwapX(v)", |all, lane| all[lane ^ 1]),
    ];
    let stores: String = operations
        .iter()
        .enumerate()
        .map(|(at, (text, _))| format!("let r{at} = {text};\nout[{at}u * {THREADS}u + i] = r{at};\n"))
        .collect();
    let wgsl = format!(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
         @group(0) @binding(1) var<storage, read_write> out: array<u32>;
         @compute @workgroup_size({THREADS})
         fn main(
             @builtin(local_invocation_index) i: u32,
             @builtin(subgroup_size) size: u32,
             @builtin(subgroup_invocation_id) lane: u32,
         ) {{
             let v = x[i];
             {stores}
         }}"
    );
    let text = msl(&wgsl, |_| {}).unwrap();
    for build in [Build::Strict, Build::Fast, Build::Checked] {
        let kernel = compile(&text, build).unwrap_or_else(|error| panic!("{error}\n{text}"));
        for width in WIDTHS {
            let x: Vec<u32> = (0..THREADS).map(given).collect();
            let mut buffers = [x.clone(), vec![0; operations.len() * THREADS as usize]];
            run(&kernel, Grid { threads: THREADS, groups: 1, width }, &mut buffers).unwrap();
            for (at, (text, naive)) in operations.iter().enumerate() {
                for (simd, all) in x.chunks(width as usize).enumerate() {
                    for lane in 0..all.len() {
                        let got = buffers[1][at * THREADS as usize + simd * width as usize + lane];
                        assert_eq!(got, naive(all, lane), "{text}, width {width}, SIMD group {simd}, lane {lane}");
                    }
                }
            }
        }
    }
}

#[test]
fn floats_and_vectors_in_simd_groups() {
    let wgsl = format!(
        "@group(0) @binding(0) var<storage, read_write> out: array<vec4<f32>>;
         @compute @workgroup_size({THREADS})
         fn main(@builtin(local_invocation_index) i: u32) {{
             let v = vec4<f32>(f32(i), 1.0, -f32(i), 0.5);
             let sum = subgroupAdd(v);
             let far = subgroupShuffleXor(v, 1u);
             out[i] = vec4<f32>(sum.xy, far.zw);
         }}"
    );
    let kernel = compile(&msl(&wgsl, |_| {}).unwrap(), Build::Checked).unwrap();
    for width in WIDTHS {
        let mut out = [vec![0; 4 * THREADS as usize]];
        run(&kernel, Grid { threads: THREADS, groups: 1, width }, &mut out).unwrap();
        for thread in 0..THREADS {
            let first = thread / width * width;
            let sum = (first..first + width).sum::<u32>() as f32;
            let got: Vec<f32> = out[0][4 * thread as usize..][..4].iter().map(|&word| f32::from_bits(word)).collect();
            assert_eq!(got, [sum, width as f32, -((thread ^ 1) as f32), 0.5], "thread {thread}, width {width}");
        }
    }
}

#[test]
fn builtin_values() {
    let wgsl = "
        @group(0) @binding(0) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(64)
        fn main(
            @builtin(global_invocation_id) global: vec3<u32>,
            @builtin(local_invocation_id) local: vec3<u32>,
            @builtin(local_invocation_index) index: u32,
            @builtin(workgroup_id) group: vec3<u32>,
            @builtin(num_workgroups) groups: vec3<u32>,
            @builtin(subgroup_size) size: u32,
            @builtin(subgroup_id) simd: u32,
            @builtin(num_subgroups) simds: u32,
            @builtin(subgroup_invocation_id) lane: u32,
        ) {
            let right = global.x == group.x * 64u + local.x && index == local.x && all(groups == vec3<u32>(5u, 1u, 1u))
                && simds == 64u / size && index == simd * size + lane && local.y == 0u && group.z == 0u;
            out[global.x] = select(0u, size, right);
        }";
    let kernel = compile(&msl(wgsl, |_| {}).unwrap(), Build::Strict).unwrap();
    for width in WIDTHS {
        let mut out = [vec![0; 320]];
        run(&kernel, Grid { threads: 64, groups: 5, width }, &mut out).unwrap();
        assert_eq!(out[0], vec![width; 320]);
    }
}

/// Threads and threadgroups run in another order each time.
#[test]
fn orders_are_random() {
    let wgsl = "
        @group(0) @binding(0) var<storage, read_write> next: atomic<u32>;
        @group(0) @binding(1) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) i: vec3<u32>) { out[i.x] = atomicAdd(&next, 1u); }";
    let kernel = compile(&msl(wgsl, |_| {}).unwrap(), Build::Strict).unwrap();
    let order = || {
        let mut buffers = [vec![0], vec![0; 640]];
        run(&kernel, Grid { groups: 10, ..Grid::default() }, &mut buffers).unwrap();
        let [_, mut order] = buffers;
        let seen = order.clone();
        order.sort_unstable();
        assert_eq!(order, (0..640).collect::<Vec<u32>>());
        seen
    };
    let (first, second) = (order(), order());
    assert_ne!(first, second);
    let groups = |order: &[u32]| order.chunks(64).map(|group| *group.iter().min().unwrap()).collect::<Vec<u32>>();
    assert_ne!(groups(&first), groups(&second));
}
