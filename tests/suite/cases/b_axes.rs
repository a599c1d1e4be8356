//! Group (b): reductions along axes.

use kiln::ErrorKind;
use kiln::prelude::*;

use crate::harness::{array, assert_same, beyond_one_dimension, long_case, on_each_backend, takes, values};

#[test]
fn b01_axis_of_length_one_is_a_copy() {
    on_each_backend(|device| {
        let numbers: Vec<f32> = (1..=10_000).map(|i| i as f32).collect();
        for (shape, axis) in [([10_000, 1, 1], 2), ([10_000, 1, 1], 1), ([1, 10_000, 1], 0), ([1, 10_000, 1], 2)] {
            let x = array(device, &numbers, shape);
            for got in [x.sum(axis), x.max(axis), x.min(axis), x.prod(axis)] {
                assert_same(&values(&got.unwrap()), &numbers, &format!("{shape:?}"));
            }
        }
        let x = array(device, &numbers, [1, 10_000]);
        assert_same(&values(&x.sum(0).unwrap()), &numbers, "(1, 10000)");
        let one = array(device, &[7.0f32], [1, 1, 1]);
        for axis in 0..3 {
            assert_eq!(values(&one.sum(axis).unwrap()), [7.0]);
        }
    });
}

#[test]
fn b02_several_axes_that_are_not_neighbours() {
    on_each_backend(|device| {
        let shape = [3, 2, 3, 3, 3, 3];
        let axes = [0, 1, 3, 4, 5];
        let ints = array(device, &(0..486).collect::<Vec<i32>>(), shape);
        assert_eq!(values(&ints.sum(axes).unwrap()), [34_911, 39_285, 43_659]);
        assert_eq!(ints.sum(..).unwrap().item().unwrap(), 117_855);
        let floats = ints.cast::<f32>();
        assert_eq!(values(&floats.sum(axes).unwrap()), [34_911.0, 39_285.0, 43_659.0]);
        assert_eq!(floats.sum(..).unwrap().item().unwrap(), 117_855.0);
    });
}

#[test]
fn b03_axis_of_length_zero() {
    on_each_backend(|device| {
        let x = device.zeros::<f32>([0, 3]).unwrap();
        assert_eq!(values(&x.sum(0).unwrap()), [0.0; 3]);
        assert_eq!(values(&x.prod(0).unwrap()), [1.0; 3]);
        let error = x.min(0).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Empty { .. }), "{error}");
        for got in [x.sum(1), x.prod(1), x.min(1)] {
            assert_eq!(got.unwrap().shape()[..], [0]);
        }
        let x = device.zeros::<f32>([5, 0]).unwrap();
        for got in [x.sum(0), x.prod(0), x.min(0)] {
            assert_eq!(got.unwrap().shape()[..], [0]);
        }
        assert_eq!(values(&x.sum(1).unwrap()), [0.0; 5]);
        assert_eq!(values(&x.prod(1).unwrap()), [1.0; 5]);
        assert!(x.min(1).is_err());
        assert!(values(&x.mean(1).unwrap()).iter().all(|v| v.is_nan()));
    });
}

#[test]
fn b05_leading_axis_with_very_many_outputs() {
    long_case("B05", "needs 270 MB", |device| {
        const N: usize = 1_048_583;
        if !takes(device, 32 * N) {
            return;
        }
        let ones = device.full(1.0f32, [32, N]).unwrap();
        assert_same(&values(&ones.sum(0).unwrap()), &vec![32.0; N], "ones");
        let rows: Vec<f32> = (0..32).map(|r| r as f32).collect();
        let rows = array(device, &rows, [32, 1]).broadcast_to([32, N]).unwrap();
        let rows = rows.copy().unwrap();
        assert_same(&values(&rows.sum(0).unwrap()), &vec![496.0; N], "rows");
    });
}

/// The same with fewer rows and the smallest tiles: more workgroups than one dimension has.
#[test]
fn b05_many_outputs_scaled_down() {
    on_each_backend(|device| {
        beyond_one_dimension(device, |device| {
            const N: usize = 65_535 * 32 + 17;
            let rows: Vec<f32> = (0..3 * N).map(|i| (i / N + i % N % 7) as f32).collect();
            let x = array(device, &rows, [3, N]);
            let want: Vec<f32> = (0..N).map(|c| (3 + c % 7 * 3) as f32).collect();
            assert_same(&values(&x.sum(0).unwrap()), &want, "rows");
        });
    });
}

#[test]
fn b06_last_axis_of_many_rows() {
    on_each_backend(|device| {
        let ints: Vec<i32> = (0..65 * 33 * 7).collect();
        let x = array(device, &ints, [65, 33, 7]);
        let sums = x.sum(2).unwrap().to_host().unwrap();
        for (index, want) in [([0, 0], 21), ([32, 0], 51_765), ([33, 0], 53_382), ([64, 32], 105_077)] {
            assert_eq!(sums.get(&index), Some(want), "{index:?}");
        }
        assert_eq!(x.sum(..).unwrap().item().unwrap(), 112_717_605);
        let floats = x.cast::<f32>().sum(2).unwrap().to_host().unwrap();
        assert_eq!(floats.get(&[64, 32]), Some(105_077.0));
    });
}

#[test]
fn b08_long_axis_with_few_outputs() {
    on_each_backend(|device| {
        const N: usize = 1_000_003;
        let values_of = |i: usize, j: usize| ((7 * i + 3 * j) % 11) as i32 - 5;
        let columns: Vec<i32> = (0..3 * N).map(|k| values_of(k / 3, k % 3)).collect();
        let x = array(device, &columns, [N, 3]);
        assert_eq!(values(&x.sum(0).unwrap()), [0, 1, 2]);
        assert_eq!(values(&x.max(0).unwrap()), [5, 5, 5]);
        let turned = x.transpose();
        assert_eq!(values(&turned.sum(1).unwrap()), [0, 1, 2]);
        assert_eq!(values(&turned.max(1).unwrap()), [5, 5, 5]);
        let rows: Vec<f32> = (0..3 * N).map(|k| ((3 * (k / N) + 7 * (k % N)) % 13) as f32).collect();
        let y = array(device, &rows, [3, N]);
        assert_eq!(values(&y.sum(1).unwrap()), [6_000_010.0, 6_000_022.0, 6_000_008.0]);
    });
}

#[test]
fn b10_axes_from_the_end_out_of_range_and_repeated() {
    on_each_backend(|device| {
        let x = array(device, &(0..24).collect::<Vec<i32>>(), [2, 3, 4]);
        for (from_end, axis, want) in [
            (-1, 2, vec![6, 22, 38, 54, 70, 86]),
            (-2, 1, vec![12, 15, 18, 21, 48, 51, 54, 57]),
            (-3, 0, vec![12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34]),
        ] {
            assert_eq!(values(&x.sum(from_end).unwrap()), want, "axis {from_end}");
            assert_eq!(values(&x.sum(axis).unwrap()), want, "axis {axis}");
        }
        for axis in [3, -4, isize::MIN, isize::MAX] {
            let error = x.sum(axis).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::AxisOutOfRange { ndim: 3, .. }), "{error}");
            assert!(error.to_string().contains(&axis.to_string()), "{error}");
        }
        for axes in [[0, 0], [0, -3]] {
            let error = x.sum(axes).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::RepeatedAxis { axis: 0, .. }), "{error}");
        }
        let kept = x.sum(keep([0, 2])).unwrap();
        assert_eq!(kept.shape()[..], [1, 3, 1]);
        assert_eq!(values(&kept), [60, 92, 124]);
    });
}
