//! Group (a): correctness of reductions.

use kiln::ErrorKind;
use kiln::prelude::*;

use crate::harness::{array, assert_same, line, on_each_backend};

#[test]
fn a04_sum_of_bools_counts() {
    on_each_backend(|device| {
        let count = |values: Vec<bool>| line(device, &values).sum(..).unwrap().item().unwrap();
        assert_eq!(count(vec![true; 10]), 10u32);
        assert_eq!(count(vec![true; 300]), 300);
        assert_eq!(count((0..100_000).map(|i| i % 3 == 0).collect()), 33_334);
    });
}

#[test]
fn a05_max_propagates_nan() {
    on_each_backend(|device| {
        let extremes = |values: &[f32]| {
            let x = line(device, values);
            [x.max(..), x.min(..)].map(|value| value.unwrap().item().unwrap())
        };
        assert!(extremes(&[1.0, f32::NAN, 3.0]).into_iter().all(f32::is_nan));
        for n in [33, 257, 1025, 65_537] {
            for p in [0, n / 2, n - 1] {
                for nan in [f32::NAN, -f32::NAN] {
                    let mut values: Vec<f32> = (0..n).map(|i| i as f32).collect();
                    values[p] = nan;
                    assert!(extremes(&values).into_iter().all(f32::is_nan), "n = {n}, p = {p}");
                }
            }
        }
        // Along an axis, only where the NaN is.
        let mut values: Vec<f32> = (0..3 * 300).map(|i| i as f32).collect();
        values[300 + 257] = f32::NAN;
        let x = array(device, &values, [3, 300]);
        let max = x.max(1).unwrap().to_host().unwrap().into_vec();
        assert_same(&max, &[299.0, f32::NAN, 899.0], "rows");
        let min = x.min(0).unwrap().to_host().unwrap().into_vec();
        assert_eq!(min.iter().filter(|v| v.is_nan()).count(), 1);
        assert!(min[257].is_nan());
    });
}

#[test]
fn a08_large_sum_does_not_drift() {
    on_each_backend(|device| {
        let hundreds = array(device, &vec![100.0f32; 1_000_000], [100, 100, 100]);
        let sum = hundreds.sum(..).unwrap().item().unwrap();
        assert!((f64::from(sum) - 1e8).abs() <= 100.0, "{sum}");
        let tenths = line(device, &vec![0.1f32; 1_000_000]);
        let sum = tenths.sum(..).unwrap().item().unwrap();
        assert!((f64::from(sum) - 100_000.001_5).abs() <= 0.1, "{sum}");
    });
}

#[test]
fn a10_reductions_of_nothing() {
    on_each_backend(|device| {
        let x = device.zeros::<f32>(0).unwrap();
        assert_same(&[x.sum(..).unwrap().item().unwrap()], &[0.0], "sum");
        assert_same(&[x.prod(..).unwrap().item().unwrap()], &[1.0], "prod");
        assert!(x.mean(..).unwrap().item().unwrap().is_nan());
        for error in [x.min(..).unwrap_err(), x.max(..).unwrap_err()] {
            assert!(matches!(error.kind(), ErrorKind::Empty { .. }), "{error}");
        }
        for v in [-3.5, 3.5, 0.0, -0.0, f32::NEG_INFINITY, f32::INFINITY, f32::NAN] {
            let max = x.reduce_from(v, .., |a, b| a.maximum(b)).unwrap().item().unwrap();
            let min = x.reduce_from(v, .., |a, b| a.minimum(b)).unwrap().item().unwrap();
            assert_same(&[max, min], &[v, v], "from an initial value");
        }
        // An empty axis: each output is the initial value, whatever was in its memory.
        let rows = device.zeros::<f32>([300, 0]).unwrap();
        for v in [-3.5, 3.5] {
            drop(device.full(7.0f32, 300).unwrap().to_host().unwrap());
            let min = rows.reduce_from(v, 1, |a, b| a.minimum(b)).unwrap();
            assert_eq!(min.to_host().unwrap().into_vec(), vec![v; 300]);
        }
        let b = device.zeros::<bool>(0).unwrap();
        assert!(!b.any(..).unwrap().item().unwrap());
        assert!(b.all(..).unwrap().item().unwrap());
    });
}

#[test]
fn a11_infinity_is_the_extreme() {
    const INF: f32 = f32::INFINITY;
    on_each_backend(|device| {
        for k in [1, 3, 257, 1000] {
            let low = line(device, &vec![-INF; k]);
            assert_eq!(low.max(..).unwrap().item().unwrap(), -INF, "k = {k}");
            let high = line(device, &vec![INF; k]);
            assert_eq!(high.min(..).unwrap().item().unwrap(), INF, "k = {k}");
        }
        let max = line(device, &[-INF, -5.0]).max(..).unwrap();
        assert_eq!(max.item().unwrap(), -5.0);
        let sum = |values: &[f32]| line(device, values).sum(..).unwrap().item().unwrap();
        assert_eq!(sum(&[INF, 1.0, 2.0]), INF);
        assert!(sum(&[INF, -INF]).is_nan());
        let prod = line(device, &[INF, 0.0]).prod(..).unwrap();
        assert!(prod.item().unwrap().is_nan());
    });
}

#[test]
fn a13_initial_value_enters_once() {
    on_each_backend(|device| {
        for (n, want) in [(10_000, 50_005_100), (1, 101), (0, 100)] {
            let x = line(device, &(1..=n).collect::<Vec<i32>>());
            let sum = x.reduce_from(100, .., |a, b| a + b).unwrap();
            assert_eq!(sum.item().unwrap(), want, "n = {n}");
        }
        // Along an axis: once per output.
        let x = array(device, &vec![1i32; 3 * 5000], [3, 5000]);
        let rows = x.reduce_from(100, 1, |a, b| a + b).unwrap();
        assert_eq!(rows.to_host().unwrap().as_slice(), [5100; 3]);
        let columns = x.reduce_from(100, 0, |a, b| a + b).unwrap();
        assert_eq!(columns.to_host().unwrap().into_vec(), vec![103; 5000]);
    });
}

#[test]
fn a14_operators_need_not_commute() {
    on_each_backend(|device| {
        let x = line(device, &(5..100_008).collect::<Vec<i32>>());
        let left = x.reduce(.., |a, _| a.clone()).unwrap();
        assert_eq!(left.item().unwrap(), 5);
        let right = x.reduce(.., |_, b| b.clone()).unwrap();
        assert_eq!(right.item().unwrap(), 100_007);
        let last = x.scan(0, |_, b| b.clone()).unwrap();
        assert_same(last.to_host().unwrap().as_slice(), x.to_host().unwrap().as_slice(), "the right one so far");
    });
}
