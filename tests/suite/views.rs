//! Views against plain loops: chains of slices, permutations, broadcasts, reshapes; copies and reads of them.

use kiln::prelude::*;
use kiln::{Element, SliceItem};
use proptest::prelude::*;

use crate::harness::{array, assert_same, line, on_each_backend, values};
use crate::inputs::{Values, cases, shapes, viewed};
use crate::naive::Host;

const MOST: usize = 10_000;

/// A random chain of views of an array, read as it is, copied, and used in an expression.
fn check<T: Values>(device: &Device, shape: &[usize], views: &[u64], seed: u64) {
    let host = T::host(shape, seed);
    let x = array(device, &host.values, shape);
    let (view, want) = viewed(&x, &host, views, MOST);
    let what = format!("{views:?} of {shape:?}");
    assert_same(&values(&view), &want.values, &what);
    let copy = view.copy().unwrap();
    assert!(copy.is_contiguous(), "{what}");
    assert_eq!(copy.shape(), view.shape(), "{what}");
    assert_same(&values(&copy), &want.values, &what);
    let turned = (0..want.shape.len()).rev().collect::<Vec<_>>();
    assert_same(&values(&view.transpose()), &want.permute(&turned).values, &what);
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn chains_of_views(
        shape in shapes(MOST),
        views in proptest::collection::vec(any::<u64>(), 0..7),
        seed in any::<u64>(),
    ) {
        on_each_backend(|device| match seed % 4 {
            0 => check::<bool>(device, &shape, &views, seed),
            1 => check::<f32>(device, &shape, &views, seed),
            2 => check::<i32>(device, &shape, &views, seed),
            _ => check::<u32>(device, &shape, &views, seed),
        });
    }

    #[test]
    fn slices_are_pythons(
        len in 0usize..12,
        start in proptest::option::of(-15isize..15),
        stop in proptest::option::of(-15isize..15),
        step in (-6isize..6).prop_filter("a step", |step| *step != 0),
    ) {
        on_each_backend(|device| {
            let host = i32::host(&[len], 3);
            let x = array(device, &host.values, len);
            let items = [SliceItem::Range { start, stop, step }];
            let (got, want) = (x.slice(items).unwrap(), host.slice(&items));
            assert_eq!(got.shape()[..], want.shape[..], "{items:?}");
            assert_same(&values(&got), &want.values, &format!("{items:?}"));
        });
    }
}

/// All permutations of three and four axes.
#[test]
fn every_permutation() {
    on_each_backend(|device| {
        for shape in [&[3, 4, 5][..], &[2, 3, 4, 5], &[33, 1, 65]] {
            let host = u32::host(shape, 2);
            let x = array(device, &host.values, shape);
            let rank = shape.len();
            for code in 0..rank.pow(rank as u32) {
                let axes: Vec<usize> = (0..rank).map(|at| code / rank.pow(at as u32) % rank).collect();
                let given: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
                let got = x.permute(&given);
                if (0..rank).all(|axis| axes.contains(&axis)) {
                    let want = host.permute(&axes);
                    let got = got.unwrap();
                    assert_eq!(got.shape()[..], want.shape[..]);
                    assert_same(&values(&got.copy().unwrap()), &want.values, &format!("{axes:?}"));
                } else {
                    assert!(got.is_err(), "{axes:?} is no permutation");
                }
            }
        }
    });
}

/// The notation of slices.
#[expect(clippy::reversed_empty_ranges, reason = "negative ends count from the end of the axis")]
#[test]
fn slices_as_written() {
    on_each_backend(|device| {
        let x = array(device, &(0..60).collect::<Vec<i32>>(), [3, 4, 5]);
        let host = Host::new(&[3, 4, 5], (0..60).collect());
        let check = |items: &[SliceItem], got: Array<i32>| {
            let want = host.slice(items);
            assert_eq!(got.shape()[..], want.shape[..], "{items:?}");
            assert_eq!(values(&got), want.values, "{items:?}");
        };
        macro_rules! each {
            ($([$($items:tt)*],)*) => {$(
                check(&s![$($items)*], x.slice(s![$($items)*]).unwrap());
            )*};
        }
        each! {
            [1, .., 2..4],
            [-1, ..;-1, 0..5;2],
            [.., .., ..],
            [0..2],
            [..=1, 1..=-1, ..-1],
            [.., 2, ..;-2],
            [1.., -2.., -3..-1],
            [2..0, .., ..],
            [0, 0, 0],
        }
        let none: [SliceItem; 0] = [];
        check(&none, x.slice(none).unwrap());
    });
}

/// Views share memory and are metadata only; `reshape` copies where it must.
#[test]
fn views_move_nothing() {
    on_each_backend(|device| {
        let x = array(device, &(0..24).collect::<Vec<i32>>(), [2, 3, 4]);
        assert_eq!(x.strides(), [12, 4, 1]);
        assert_eq!(x.transpose().strides(), [1, 4, 12]);
        assert_eq!(x.reverse(-1).unwrap().strides(), [12, 4, -1]);
        assert_eq!(x.broadcast_to([5, 2, 3, 4]).unwrap().strides(), [0, 12, 4, 1]);
        assert_eq!(x.reshape([6, 4]).unwrap().strides(), [4, 1]);
        assert!(x.reshape(24).unwrap().is_contiguous());
        assert!(!x.transpose().is_contiguous());
        let flat = x.transpose().reshape(24).unwrap();
        assert_eq!(values(&flat)[..5], [0, 12, 4, 16, 8]);
        let same = x.eval().unwrap();
        assert_eq!(same.strides(), x.strides());
        let text = format!("{x:?}");
        assert!(text.starts_with("Array<i32> (2, 3, 4) on "), "{text}");
    });
}

/// Windows that overlap, made of a slice of a broadcast: reading them is fine.
#[test]
fn reads_of_repeated_elements() {
    on_each_backend(|device| {
        let x = line(device, &[1.0f32, 2.0, 3.0]);
        let view = x.broadcast_to([2, 4, 3]).unwrap().slice(s![.., 1..3, ..;-2]).unwrap();
        assert_eq!(view.shape()[..], [2, 2, 2]);
        assert_same(&values(&view), &[3.0, 1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0], "a view of a broadcast");
        assert_eq!(view.sum(..).unwrap().item().unwrap(), 16.0);
    });
}

fn round_trip<T: Values>(device: &Device) {
    for n in [0, 1, 2, 3, 4, 5, 7, 9, 25, 63, 64, 65, 1027, 65_537] {
        let host = T::host(&[n], n as u64).values;
        let x = line(device, &host);
        assert_same(&values(&x), &host, "what was uploaded");
        assert_same(&values(&x.copy().unwrap()), &host, "a copy");
        if n > 1 {
            let odd = x.slice(s![1..]).unwrap();
            assert_same(&values(&odd), &host[1..], "a slice from the second element");
            let back: Vec<T> = host.iter().rev().copied().collect();
            assert_same(&values(&x.reverse(0).unwrap().copy().unwrap()), &back, "reversed");
        }
    }
}

/// Lengths that fill no whole number of words, every element type.
#[test]
fn what_goes_up_comes_down() {
    fn kind<T: Element>() -> String {
        T::DTYPE.to_string()
    }
    assert_eq!(kind::<bool>(), "bool");
    on_each_backend(|device| {
        round_trip::<bool>(device);
        round_trip::<i32>(device);
        round_trip::<u32>(device);
        round_trip::<f32>(device);
    });
}

#[test]
fn numbers_of_the_types_that_arrays_return() {
    on_each_backend(|device| {
        let x = array(device, &(0..12).collect::<Vec<i32>>(), [3, 4]);
        let n = x.shape()[1];
        let want = [vec![12, 15, 18, 21], vec![6, 22, 38]];
        for (axis, want) in (0..x.ndim()).zip(want) {
            assert_eq!(values(&x.sum(axis).unwrap()), want);
            assert_eq!(x.cumsum(axis).unwrap().size(), 12);
        }
        assert_eq!(values(&x.sum([0usize, 1]).unwrap()), [66]);
        assert_eq!(values(&x.slice(s![0usize, 0..n]).unwrap()), [0, 1, 2, 3]);
        assert_eq!(values(&x.slice(s![1usize, ..usize::MAX]).unwrap()), [4, 5, 6, 7]);
        assert!(x.sum(usize::MAX).is_err() && x.cumsum(n).is_err() && x.slice(s![usize::MAX]).is_err());
    });
}
