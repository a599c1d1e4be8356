//! Group (c): running combinations.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use kiln::DeviceKind;
use kiln::prelude::*;

use crate::harness::{array, assert_same, line, long_case, on_each_backend, takes, values};

#[test]
fn c01_lengths_that_fill_no_block() {
    on_each_backend(|device| {
        for (rows, columns) in [(1025, 2), (2047, 2), (2049, 5), (5119, 5), (513, 3), (257, 1000)] {
            let ones = vec![1.0f32; rows * columns];
            let want: Vec<f32> = (0..rows * columns).map(|i| (i / columns + 1) as f32).collect();
            let x = array(device, &ones, [rows, columns]);
            assert_same(&values(&x.cumsum(0).unwrap()), &want, &format!("{rows} rows"));
            let want: Vec<f32> = (0..rows * columns).map(|i| (i % rows + 1) as f32).collect();
            let x = array(device, &ones, [columns, rows]);
            assert_same(&values(&x.cumsum(1).unwrap()), &want, &format!("{rows} columns"));
        }
    });
}

#[test]
fn c03_every_axis_of_four() {
    on_each_backend(|device| {
        let x = array(device, &(0..120).collect::<Vec<i32>>(), [2, 3, 4, 5]);
        for (axis, last, middle, total) in
            [(0, 178, 126, 8910), (1, 297, 166, 12_680), (2, 446, 264, 17_100), (3, 585, 366, 21_180)]
        {
            let out = x.cumsum(axis).unwrap();
            let host = out.to_host().unwrap();
            assert_eq!(host.get(&[1, 2, 3, 4]), Some(last), "axis {axis}");
            assert_eq!(host.get(&[1, 1, 2, 3]), Some(middle), "axis {axis}");
            assert_eq!(out.sum(..).unwrap().item().unwrap(), total, "axis {axis}");
        }
    });
}

#[test]
fn c04_running_count_of_bools() {
    on_each_backend(|device| {
        for n in [128, 300] {
            let counts = line(device, &vec![true; n]).cumsum(0).unwrap();
            assert_same(&values(&counts), &(1..=n as u32).collect::<Vec<_>>(), "ones");
        }
        let board: Vec<bool> = (0..2000).map(|i| (i / 2 + i % 2) % 2 == 0).collect();
        let counts = array(device, &board, [1000, 2]).cumsum(0).unwrap();
        assert_eq!(values(&counts.slice(s![-1]).unwrap()), [500, 500]);
        let want = [1, 2, 3, 4];
        assert_eq!(values(&line(device, &[1i32; 4]).cumsum(0).unwrap()), want);
        assert_eq!(values(&line(device, &[1u32; 4]).cumsum(0).unwrap()), [1, 2, 3, 4]);
    });
}

#[test]
fn c05_running_extremes_keep_nan() {
    const NAN: f32 = f32::NAN;
    on_each_backend(|device| {
        let x = line(device, &[1.0, 3.0, NAN, 5.0, 4.0]);
        assert_same(&values(&x.cummax(0).unwrap()), &[1.0, 3.0, NAN, NAN, NAN], "cummax");
        assert_same(&values(&x.cummin(0).unwrap()), &[1.0, 1.0, NAN, NAN, NAN], "cummin");
        for (n, at) in [(1000, 600), (40_000, 16_383), (40_000, 16_384)] {
            let mut numbers: Vec<f32> = (0..n).map(|i| i as f32).collect();
            numbers[at] = NAN;
            let out = values(&line(device, &numbers).cummax(0).unwrap());
            assert_eq!(out[at - 1], (at - 1) as f32);
            assert!(out[at..].iter().all(|v| v.is_nan()), "n = {n}, at = {at}");
            assert!(out[..at].iter().all(|v| !v.is_nan()));
        }
    });
}

fn ones_count_up(device: &Device, n: usize) {
    let ones = device.full(1u32, n).unwrap();
    let out = ones.cumsum(0).unwrap();
    drop(ones);
    let host = out.to_host().unwrap();
    let wrong = (1u32..).zip(host.as_slice()).find(|(want, got)| want != *got);
    assert_eq!(wrong, None, "n = {n}");
    assert_eq!(host.as_slice().last(), Some(&(n as u32)));
}

#[test]
fn c08_two_to_the_24_and_seven() {
    on_each_backend(|device| ones_count_up(device, (1 << 24) + 7));
}

#[test]
fn c08_two_to_the_27_and_five() {
    long_case("C08 (2^27 + 5)", "needs 1.6 GB", |device| {
        const N: usize = (1 << 27) + 5;
        if takes(device, N) {
            ones_count_up(device, N);
        }
    });
}

/// A size beyond any array: the error names the limit.
#[test]
fn c08_beyond_any_size() {
    on_each_backend(|device| {
        let one = device.full(1u32, ()).unwrap();
        let error = one.broadcast_to((1 << 31) + 2).unwrap().cumsum(0).unwrap_err();
        assert!(error.to_string().contains("2147483644"), "{error}");
        let column = one.broadcast_to([70_000, 1]).unwrap();
        let row = one.broadcast_to(70_000).unwrap();
        let error = (column + row).cumsum(0).unwrap_err();
        assert!(error.to_string().contains("4900000000"), "{error}");
    });
}

fn repeated_scans(device: &Device, n: u32, times: usize) {
    let x = line(device, &(0..n).map(|i| i % 7).collect::<Vec<u32>>());
    let first = values(&x.cumsum(0).unwrap());
    let mut total = 0;
    let want = (0..n).map(|i| {
        total += i % 7;
        total
    });
    assert_same(&first, &want.collect::<Vec<u32>>(), "the running sum");
    let gpu = matches!(device.info().kind, DeviceKind::DiscreteGpu | DeviceKind::IntegratedGpu);
    for repeat in 1..times {
        let start = Instant::now();
        let again = values(&x.cumsum(0).unwrap());
        let took = start.elapsed();
        assert_same(&again, &first, &format!("repeat {repeat}"));
        assert!(!gpu || took < Duration::from_secs(2), "repeat {repeat} took {took:?}");
    }
}

#[test]
fn c10_repeated_scans_are_the_same() {
    on_each_backend(|device| repeated_scans(device, 600_000, 20));
}

#[test]
fn c10_under_load_in_full() {
    long_case("C10", "takes minutes on software", |device| {
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let noise = device.full(1.0f32, 1 << 20).unwrap();
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    noise.sum(..).unwrap().item().unwrap();
                }
            });
            let gpu = matches!(device.info().kind, DeviceKind::DiscreteGpu | DeviceKind::IntegratedGpu);
            let repeats = if gpu { 1000 } else { 20 };
            // The noise ends whatever happens, or the scope would wait for it.
            let result = catch_unwind(AssertUnwindSafe(|| repeated_scans(device, 6_000_000, repeats)));
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            result.unwrap_or_else(|panic| resume_unwind(panic));
            // And alone.
            repeated_scans(device, 6_000_000, repeats);
        });
    });
}
