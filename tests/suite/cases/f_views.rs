//! Group (f): views, slices, copies.

use kiln::SliceItem;
use kiln::prelude::*;

use crate::harness::{array, assert_same, line, on_each_backend, values};

fn arange(device: &Device, n: i32) -> Array<i32> {
    line(device, &(0..n).collect::<Vec<i32>>())
}

#[test]
fn f01_two_slices_of_one_array() {
    on_each_backend(|device| {
        let t = line(device, &[1, 2, 3, 4]);
        let (low, high) = (t.slice(s![0..2]).unwrap(), t.slice(s![2..4]).unwrap());
        // The columns of a stack: low where the column is 0, high where it is 1.
        let column = line(device, &[true, false]);
        let turned = |x: &Array<i32>| x.reshape([2, 1]).unwrap();
        let stack = column.select(turned(&low), turned(&high)).eval().unwrap();
        assert_eq!(values(&stack), [1, 3, 2, 4]);
        assert_eq!(values(&(&low * 10 + &high).eval().unwrap()), [13, 24]);
    });
}

#[test]
fn f02_kernels_start_at_the_views_offset() {
    on_each_backend(|device| {
        let x = line(device, &[1.0f32, 2.0, 3.0, 4.0, 5.0]);
        let tail = x.slice(s![2..]).unwrap();
        assert_eq!(values(&(&tail * &tail).eval().unwrap()), [9.0, 16.0, 25.0]);
        assert_eq!(tail.sum(..).unwrap().item().unwrap(), 12.0);
        assert_eq!(tail.max(..).unwrap().item().unwrap(), 5.0);
        assert_eq!(values(&tail.cumsum(0).unwrap()), [3.0, 7.0, 12.0]);
        assert_eq!(values(&tail.gt(3.0).eval().unwrap()), [false, true, true]);
    });
}

#[test]
fn f05_negative_steps_and_empty_slices() {
    on_each_backend(|device| {
        let x = arange(device, 8);
        let range =
            |start: isize, stop: isize, step: isize| SliceItem::Range { start: Some(start), stop: Some(stop), step };
        let take = |item: SliceItem| values(&x.slice([item]).unwrap());
        assert_eq!(values(&x.slice(s![..;-1]).unwrap()), [7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(take(range(6, 1, -2)), [6, 4, 2]);
        assert_eq!(take(range(-1, -9, -3)), [7, 4, 1]);
        assert_eq!(take(range(1, 7, 3)), [1, 4]);
        assert_eq!(take(range(5, 2, 1)), [0; 0]);
        let m = arange(device, 9).reshape([3, 3]).unwrap();
        assert_eq!(values(&m.slice(s![..;-1, ..]).unwrap()), [6, 7, 8, 3, 4, 5, 0, 1, 2]);
        assert_eq!(values(&m.slice(s![.., ..;-2]).unwrap()), [2, 0, 5, 3, 8, 6]);
    });
}

#[test]
fn f06_bytes_that_fill_no_word() {
    on_each_backend(|device| {
        for n in [1, 2, 3, 5, 7, 9, 25, 1027] {
            let bits: Vec<bool> = (0..n).map(|i| (7 * i) % 251 % 2 == 1).collect();
            let x = line(device, &bits);
            assert_eq!(values(&x), bits, "up and down, n = {n}");
            assert_eq!(values(&x.copy().unwrap()), bits, "a copy, n = {n}");
            let other: Vec<bool> = (0..n).map(|i| i % 3 == 1).collect();
            let same: Vec<bool> = bits.iter().zip(&other).map(|(a, b)| a == b).collect();
            assert_eq!(values(&x.eq(line(device, &other)).eval().unwrap()), same, "compared, n = {n}");
        }
        let square: Vec<bool> = (0..25).map(|i| i % 3 == 0).collect();
        assert_eq!(values(&array(device, &square, [5, 5])), square);
    });
}

#[test]
fn f08_permute_is_not_the_inverse() {
    on_each_backend(|device| {
        let x = arange(device, 24).reshape([2, 3, 4]).unwrap();
        let y = x.permute([2, 0, 1]).unwrap();
        assert_eq!(y.shape()[..], [4, 2, 3]);
        let want = [0, 4, 8, 12, 16, 20, 1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23];
        assert_eq!(values(&y), want);
        let cube = arange(device, 8).reshape([2, 2, 2]).unwrap();
        let turned = cube.permute([2, 0, 1]).unwrap();
        assert_eq!(values(&turned), [0, 2, 4, 6, 1, 3, 5, 7]);
    });
}

#[test]
fn f11_offsets_off_the_binding_alignment() {
    on_each_backend(|device| {
        let x = line(device, &(0..1000).map(|i| i as f32).collect::<Vec<_>>());
        for (o, first, total) in [
            (1, 2.0, Some(999_000.0)),
            (3, 6.0, Some(998_994.0)),
            (63, 126.0, Some(995_094.0)),
            (64, 128.0, Some(994_968.0)),
            (65, 130.0, Some(994_840.0)),
            (255, 510.0, None),
        ] {
            let v = x.slice(s![o..]).unwrap();
            let twice = (2.0 * &v).eval().unwrap();
            assert_eq!(values(&twice)[0], first, "o = {o}");
            let sum: f32 = (o..1000).map(|i| 2.0 * i as f32).sum();
            assert_eq!(total.unwrap_or(sum), sum, "the case's own value");
            assert_eq!((2.0 * &v).sum(..).unwrap().item().unwrap(), sum, "o = {o}");
            let head = x.slice(s![..1000 - o]).unwrap();
            let both = values(&(&v + &head).eval().unwrap());
            let want: Vec<f32> = (0..1000 - o).map(|i| (i + i + o) as f32).collect();
            assert_same(&both, &want, &format!("o = {o}"));
        }
    });
}

#[test]
fn f13_packed_elements_do_not_race() {
    on_each_backend(|device| {
        let x = arange(device, 1027);
        let want: Vec<bool> = (0..1027).map(|i| i % 3 == 0).collect();
        for _ in 0..100 {
            let mask = (&x % 3).eq(0).eval().unwrap();
            assert_eq!(mask.sum(..).unwrap().item().unwrap(), 343);
            assert_eq!(values(&mask), want);
        }
        // Results of reductions and scans are packed too.
        let m = (&x % 3).eq(0).eval().unwrap().reshape([13, 79]).unwrap();
        let any: Vec<bool> = (0..79).map(|c| (0..13).any(|r| (r * 79 + c) % 3 == 0)).collect();
        assert_eq!(values(&m.any(0).unwrap()), any);
        // True from one place on: at a word's begin, inside of one, at the end of the array.
        for first in [0, 1, 3, 4, 514, 1023, 1025, 1026] {
            let so_far: Vec<bool> = (0..1027).map(|i| i >= first).collect();
            assert_eq!(values(&x.eq(first).cummax(0).unwrap()), so_far, "first = {first}");
            let until: Vec<bool> = so_far.iter().map(|late| !late).collect();
            assert_eq!(values(&x.ne(first).cummin(0).unwrap()), until, "until {first}");
        }
    });
}

#[test]
fn f15_reshape_of_a_permuted_view() {
    on_each_backend(|device| {
        let t = arange(device, 12).reshape([3, 4]).unwrap().transpose();
        let want = [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11];
        let flat = t.reshape(12).unwrap();
        assert_eq!(values(&flat), want);
        let two = t.reshape([2, 6]).unwrap();
        assert_eq!(two.shape()[..], [2, 6]);
        assert_eq!(values(&two), want);
    });
}
