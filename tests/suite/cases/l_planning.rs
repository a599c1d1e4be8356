//! Group (l): expressions of many operands, of more elements than could be stored, and what limits say.

use std::time::{Duration, Instant};

use kiln::prelude::*;
use kiln_array::recorder::Recorder;

use crate::harness::{line, on_each_backend, values};

/// The least of three times.
fn least(work: impl Fn()) -> Duration {
    let time = || {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..3).map(|_| time()).min().unwrap_or_default()
}

/// The sum of `count` slices of `len` elements, each shifted by one.
fn shifted(x: &Array<i32>, count: usize, len: usize) -> Expr<i32> {
    let slice = |at: usize| x.slice(s![at..at + len]).unwrap().to_expr();
    (1..count).fold(slice(0), |sum, at| sum + slice(at))
}

#[test]
fn l02_a_sum_of_many_slices() {
    on_each_backend(|device| {
        let x = device.full(1i32, 20_000).unwrap();
        let start = Instant::now();
        let got = values(&shifted(&x, 1500, 18_000).eval().unwrap());
        println!("1,500 slices on {}: {:?}", device.info(), start.elapsed());
        assert!(got.iter().all(|&v| v == 1500), "{:?}", &got[..5]);
    });
}

#[test]
fn l02_a_sum_of_many_arrays() {
    on_each_backend(|device| {
        let arrays: Vec<_> = (0..1600).map(|k| line(device, &[k, 1, -k])).collect();
        let start = Instant::now();
        let sum = arrays[1..].iter().fold(arrays[0].to_expr(), |sum, x| sum + x);
        let got = values(&sum.eval().unwrap());
        println!("1,600 arrays on {}: {:?}", device.info(), start.elapsed());
        assert_eq!(got, [1600 * 1599 / 2, 1600, -1600 * 1599 / 2]);
        assert_eq!(sum.sum(..).unwrap().item().unwrap(), 1600);
    });
}

#[test]
fn l02_many_slices_many_times() {
    on_each_backend(|device| {
        let x = line(device, &(0..2000).collect::<Vec<i32>>());
        let sum = shifted(&x, 512, 1000);
        let want: Vec<i32> = (0..1000).map(|k| 512 * k + 512 * 511 / 2).collect();
        let start = Instant::now();
        for round in 0..100 {
            let got = sum.eval().unwrap();
            if round % 20 == 0 {
                assert_eq!(values(&got), want);
            }
        }
        println!("100 rounds of 512 slices on {}: {:?}", device.info(), start.elapsed());
    });
}

/// Twice the operands take about twice the time to plan, whatever they are and however many a kernel binds.
#[test]
fn l02_planning_is_linear() {
    for max_operands in [8, 64, 4096] {
        let recorder = Recorder::new(kiln_array::Caps { max_operands, ..Recorder::gpu_caps() });
        let device = recorder.device();
        let x = device.zeros::<i32>(20_000).unwrap();
        let arrays: Vec<_> = (0..1500).map(|_| device.zeros::<i32>(100).unwrap()).collect();
        for slices in [true, false] {
            let plan = |count: usize| {
                let sum = match slices {
                    true => shifted(&x, count, 10_000),
                    false => arrays[1..count].iter().fold(arrays[0].to_expr(), |sum, x| sum + x),
                };
                let time = least(|| drop(sum.eval().unwrap()));
                drop(recorder.take());
                time
            };
            let (few, many) = (plan(512), plan(1500));
            println!("{max_operands} operands of a kernel, slices: {slices}; 512 take {few:?}, 1500 {many:?}");
            // An optimised build may take 2 and 10 ms; tests are not optimised, and share the machine.
            assert!(few < Duration::from_millis(200), "512 operands plan in {few:?}");
            assert!(many < Duration::from_millis(600), "1,500 operands plan in {many:?}");
        }
    }
}

/// Arrays and constants are no operations, and a kernel that is cut is no limit.
#[test]
fn l02_the_limit_counts_operations() {
    let device = kiln::Options::new().backend(kiln::Backend::Cpu).open().unwrap();
    let x = line(&device, &[1u32, 2, 3]);
    let chain = |count: u32| (0..count).fold(x.to_expr(), |e, k| e + k);
    let want = |k: u32| k + 2600 * 2599 / 2;
    assert_eq!(values(&chain(2600).eval().unwrap()), [want(1), want(2), want(3)]);
    let error = chain(5000).eval().unwrap_err().to_string();
    assert!(error.contains("needs 5000 operations") && error.contains("4096"), "{error}");
    let y = device.full(1i32, 6000).unwrap();
    let got = values(&shifted(&y, 5000, 1000).eval().unwrap());
    assert!(got.iter().all(|&v| v == 5000), "{:?}", &got[..5]);
}

/// Sums of `width` neighbours of `count` arrays, and a ladder over them: nodes with many parents, each of which reads
/// what others read.
fn ladder(device: &Device, count: usize, width: usize) {
    let arrays: Vec<_> = (0..count as u32).map(|k| line(device, &[k, 3 * k + 1])).collect();
    let sum = |some: &[Array<u32>]| some[1..].iter().fold(some[0].to_expr(), |sum, x| sum + x);
    let sums: Vec<Expr<u32>> = arrays.windows(width).map(sum).collect();
    let ladder = sums[1..].iter().fold(sums[0].clone(), |all, sum| (&all ^ sum) + &all * 3 + &sums[0]);
    let want = |factor: usize, plus: usize| -> u32 {
        let sum = |k: usize| (k..k + width).map(|k| (factor * k + plus) as u32).sum::<u32>();
        let sums: Vec<u32> = (0..=count - width).map(sum).collect();
        let step = |all: u32, &sum: &u32| (all ^ sum).wrapping_add(all.wrapping_mul(3)).wrapping_add(sums[0]);
        sums[1..].iter().fold(sums[0], step)
    };
    assert_eq!(values(&ladder.eval().unwrap()), [want(1, 0), want(3, 1)], "{count} arrays, windows of {width}");
    assert_eq!(ladder.min(..).unwrap().item().unwrap(), want(1, 0).min(want(3, 1)));
}

#[test]
fn l02_shared_parts_are_cut_rightly() {
    let cpu = kiln::Options::new().backend(kiln::Backend::Cpu).open().unwrap();
    for width in [5, 7, 50, 62, 63, 64, 70] {
        ladder(&cpu, 160, width);
    }
    on_each_backend(|device| ladder(device, 70, 6));
}
