//! Group (g): limits and memory. Also H11: many threads use a kernel for the first time together.

use std::collections::BTreeSet;

use kiln::prelude::*;
use kiln_array::recorder::{Recorder, kernels};

use crate::harness::{
    array, assert_same, beyond_one_dimension, child, line, long, long_case, most_groups, on_each_backend, report,
    takes, values,
};

fn adds_one(device: &Device, n: usize) {
    let x = line(device, &(0..n as u32).collect::<Vec<u32>>());
    let y = (&x + 1).eval().unwrap();
    let host = y.to_host().unwrap();
    let wrong = (1u32..).zip(host.as_slice()).find(|(want, got)| want != *got);
    assert_eq!(wrong, None, "n = {n}");
    let host = y.copy().unwrap().to_host().unwrap();
    assert_eq!(host.as_slice().last(), Some(&(n as u32)), "n = {n}");
    assert_eq!((&y - &x).ne(1).sum(..).unwrap().item().unwrap(), 0);
}

/// Kiln's maps take 4096 elements for each workgroup: the sizes of the case are many elsewhere, and only the long case
/// below has too many here. Sums and running sums of many lines have too many in G02 and B05.
#[test]
fn g01_sizes_of_many_groups() {
    on_each_backend(|device| adds_one(device, 65_535 * 64 + 1));
}

#[test]
fn g01_more_groups_than_one_dimension_has() {
    long_case("G01 (more than 65535 workgroups)", "needs 540 MB", |device| {
        beyond_one_dimension(device, |device| {
            // Tiles of 32 leaves, 16 elements each.
            const N: usize = 65_535 * 32 * 16 + 5;
            let x = device.full(1u32, N).unwrap();
            assert_eq!(x.sum(..).unwrap().item().unwrap(), N as u32);
            ones_count_up(&x);
        });
        const N: usize = 65_535 * 4096 + 1;
        if device.caps().max_array_bytes < N as u64 {
            return report(&format!("not run: case G01, map on {} (it takes no {N} bytes)", device.info()));
        }
        let recorder = Recorder::before(device);
        let zeros = recorder.device().full(0u32, ()).unwrap().broadcast_to(N).unwrap();
        let mask = zeros.eq(0).eval().unwrap();
        let groups = most_groups(&recorder);
        assert!(groups > 65_535, "{groups} workgroups");
        assert_eq!(mask.sum(..).unwrap().item().unwrap(), N as u32);
    });
}

/// The running sum of ones is 1, 2, 3, ….
fn ones_count_up(ones: &Array<u32>) {
    let path = ones.cumsum(0).unwrap().to_host().unwrap();
    let wrong = (1u32..).zip(path.as_slice()).find(|(want, got)| want != *got);
    assert_eq!(wrong, None);
}

#[test]
fn g01_the_larger_sizes() {
    long_case("G01 (65535 * 256 + 1 and more)", "needs 1 GB", |device| {
        for n in [65_535 * 256 + 1, 65_535 * 1024 + 1] {
            if takes(device, n) {
                adds_one(device, n);
            }
        }
    });
}

#[test]
fn g02_more_rows_than_groups_of_one_dimension() {
    on_each_backend(|device| {
        for rows in [65_536, 70_001] {
            let numbers: Vec<f32> = (0..rows * 3).map(|k| (k / 3 % 1000 + k % 3) as f32).collect();
            let x = array(device, &numbers, [rows, 3]);
            let sums: Vec<f32> = (0..rows).map(|i| (3 * (i % 1000) + 3) as f32).collect();
            assert_same(&values(&x.sum(1).unwrap()), &sums, "sums");
            assert_eq!(sums[65_535], 1608.0);
            let paths = x.cumsum(1).unwrap().to_host().unwrap();
            for (i, row) in paths.as_slice().chunks(3).enumerate() {
                let a = (i % 1000) as f32;
                assert_eq!(row, [a, a + a + 1.0, a + a + 1.0 + a + 2.0], "row {i}");
            }
            let turned = values(&x.permute([1, 0]).unwrap().copy().unwrap());
            let want: Vec<f32> = (0..3 * rows).map(|k| (k % rows % 1000 + k / rows) as f32).collect();
            assert_same(&turned, &want, "permuted");
        }
    });
}

/// The same with the smallest tiles, and with rows enough for more workgroups than one dimension has.
#[test]
fn g02_more_groups_than_one_dimension_has() {
    on_each_backend(|device| {
        beyond_one_dimension(device, |device| {
            const ROWS: usize = 65_535 * 32 + 17;
            let numbers: Vec<u32> = (0..ROWS * 3).map(|k| (k / 3 * 7 + k % 3) as u32).collect();
            let x = array(device, &numbers, [ROWS, 3]);
            let sums: Vec<u32> = (0..ROWS as u32).map(|i| 21 * i + 3).collect();
            assert_same(&values(&x.sum(1).unwrap()), &sums, "sums");
            let paths: Vec<u32> = (0..ROWS as u32).flat_map(|i| [7 * i, 14 * i + 1, 21 * i + 3]).collect();
            assert_same(&values(&x.cumsum(1).unwrap()), &paths, "running sums");
        });
    });
}

#[test]
fn g03_more_than_default_limits_allow() {
    long_case("G03", "needs 1.3 GB", |device| {
        const N: usize = 160_000_000;
        if takes(device, N) {
            let x = device.full(1.0f32, N).unwrap();
            let y = (&x + 1.0).eval().unwrap();
            drop(x);
            for at in [0, N - 1] {
                assert_eq!(y.slice(s![at as isize]).unwrap().item().unwrap(), 2.0);
            }
        }
    });
}

/// Resident memory of this process in bytes, where the system tells.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Rounds of the case: full or short, and of the last part, which drops arrays of ten million elements.
fn drops_without_reading(device: &Device, rounds: usize, reads: usize, large: usize, elements: usize) {
    let x = device.full(1.5f32, 1024).unwrap();
    let live = || buffers(device).map_or(0, |(count, _)| count);
    let first = live();
    let mut most = first;
    let mut round = |read: bool| {
        let y = (&x * 2.0 + 1.0).eval().unwrap();
        if read {
            assert_eq!(y.to_host().unwrap().as_slice()[1023], 4.0);
        }
        most = most.max(live());
    };
    (0..1000).for_each(|i| round(i % 5 == 0));
    drop(device.full(1.0f32, elements).unwrap());
    device.synchronize().wait().unwrap();
    let before = resident();
    (0..rounds).for_each(|_| round(false));
    (0..reads).for_each(|_| round(true));
    for _ in 0..large {
        drop(device.full(1.0f32, elements).unwrap());
    }
    device.synchronize().wait().unwrap();
    if let (Some(before), Some(after)) = (before, resident()) {
        let grown = after.saturating_sub(before) >> 20;
        assert!(grown < 16, "grown by {grown} MiB");
    }
    assert!(most <= first + 2, "{most} buffers in use at once, {first} at first");
    assert_eq!(live(), first, "buffers in use in the end");
}

#[test]
fn g07_memory_does_not_grow() {
    // In a process of its own: other tests would count too.
    child("cases::g_limits::g07_memory_does_not_grow", &[], || {
        on_each_backend(|device| drops_without_reading(device, 10_000, 1000, 20, 1_000_000));
    });
}

#[test]
fn g07_memory_does_not_grow_in_full() {
    let name = "cases::g_limits::g07_memory_does_not_grow_in_full";
    if !long() {
        return report("not run: case G07 in full (takes minutes on software; KILN_TEST_LONG=1 runs it)");
    }
    child(name, &[], || {
        on_each_backend(|device| drops_without_reading(device, 100_000, 10_000, 1000, 10_000_000));
    });
}

/// Buffers in use, and kernels compiled, where the backend counts.
#[cfg(feature = "wgpu")]
fn buffers(device: &Device) -> Option<(usize, u64)> {
    kiln::wgpu::backend(device).map(|gpu| (gpu.counters().buffers, gpu.counters().kernels_compiled))
}

#[cfg(not(feature = "wgpu"))]
fn buffers(_: &Device) -> Option<(usize, u64)> {
    None
}

/// One pass over the case's shapes and numbers.
fn many_shapes(device: &Device, check: bool) {
    let pair = |shape: &[usize]| (device.full(1.0f32, shape).unwrap(), device.full(2.0f32, shape).unwrap());
    for n in 1..=2000 {
        let n = n * 37 % 10_007 + 1;
        let (x, y) = pair(&[n]);
        let sum = (&x + &y).eval().unwrap();
        let total = sum.sum(0).unwrap();
        if check && n % 10 == 0 {
            assert_eq!(values(&sum), vec![3.0; n]);
            assert_eq!(total.item().unwrap(), 3.0 * n as f32);
        }
    }
    for n in 1..=200 {
        let (rows, columns) = (n * 5 % 97 + 1, n * 11 % 109 + 1);
        let (x, y) = pair(&[rows, columns]);
        let sum = (&x + &y).eval().unwrap();
        let (down, across) = (sum.sum(0).unwrap(), sum.sum(1).unwrap());
        if check && n % 10 == 0 {
            assert_eq!(values(&down), vec![3.0 * rows as f32; columns]);
            assert_eq!(values(&across), vec![3.0 * columns as f32; rows]);
        }
    }
    let x = device.full(2.0f32, 1000).unwrap();
    for i in 0..1000 {
        let y = (&x * i as f32).eval().unwrap();
        if check && i % 50 == 0 {
            assert_eq!(values(&y), vec![2.0 * i as f32; 1000]);
        }
    }
}

#[test]
fn g08_few_kernels_for_many_shapes() {
    // In a process of its own: the device counts what other tests compile, and the process what they hold.
    child("cases::g_limits::g08_few_kernels_for_many_shapes", &[], || {
        on_each_backend(|device| {
            let recorder = Recorder::before(device);
            let compiled = || buffers(device).map_or(0, |(_, kernels)| kernels);
            let before = compiled();
            many_shapes(&recorder.device(), true);
            let keys: BTreeSet<_> = kernels(&recorder.take()).map(|kernel| kernel.key()).collect();
            assert!(keys.len() <= 20, "{} kernels", keys.len());
            let first = compiled() - before;
            assert!(first <= 20, "{first} compiles");
            let memory = resident();
            many_shapes(device, false);
            device.synchronize().wait().unwrap();
            assert_eq!(compiled() - before, first, "nothing is compiled again");
            if let (Some(before), Some(after)) = (memory, resident()) {
                let grown = after.saturating_sub(before) >> 20;
                assert!(grown < 16, "grown by {grown} MiB");
            }
        });
    });
}

#[test]
fn g09_buffers_without_bytes() {
    fn check<T: kiln::Element>(device: &Device) {
        let none: [T; 0] = [];
        for shape in [&[0][..], &[3, 0]] {
            let x = array(device, &none, shape);
            assert_eq!(values(&x.clone()).len(), 0);
            let copy = x.copy().unwrap();
            assert_eq!(copy.shape()[..], *shape);
            let slice = copy.slice(s![0..0]).unwrap();
            assert_eq!(values(&slice).len(), 0);
            let same = x.eq(&copy).select(&x, &copy).eval().unwrap();
            assert_eq!(values(&same).len(), 0);
        }
    }
    on_each_backend(|device| {
        check::<bool>(device);
        check::<i32>(device);
        check::<u32>(device);
        check::<f32>(device);
    });
}

#[test]
fn g11_refused_allocations_leave_the_device_usable() {
    on_each_backend(|device| {
        let error = device.full(1.0f32, 1 << 40).unwrap_err();
        assert!(error.to_string().contains("1099511627776"), "{error}");
        let one = device.full(1.0f32, ()).unwrap();
        assert_eq!((&one + &one).eval().unwrap().item().unwrap(), 2.0);
    });
}

/// Sixteen threads use the same new kernel first, then sixteen different ones.
#[test]
fn h11_first_uses_from_many_threads() {
    on_each_backend(|device| {
        let x = line(device, &(0..1000).collect::<Vec<i32>>());
        for different in [false, true] {
            let start = std::sync::Barrier::new(16);
            std::thread::scope(|scope| {
                for t in 0..16 {
                    let (x, start) = (&x, &start);
                    scope.spawn(move || {
                        start.wait();
                        // A structure of its own for each number of terms.
                        let terms = if different { t + 2 } else { 1 };
                        let chain = (0..terms).fold(x ^ 77, |e, _| e.maximum(3) - 1);
                        let got = values(&chain.eval().unwrap());
                        let want: Vec<i32> = (0..1000).map(|v| (0..terms).fold(v ^ 77, |e, _| e.max(3) - 1)).collect();
                        assert_eq!(got, want, "{terms} terms");
                    });
                }
            });
        }
    });
}
