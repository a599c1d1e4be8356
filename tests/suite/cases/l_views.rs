//! L01: slices that include their last element, whichever way they walk.

#![expect(clippy::reversed_empty_ranges, reason = "with a negative step they are not empty")]

use kiln::prelude::*;
use kiln::{Element, SliceItem};

use crate::harness::{line, on_each_backend, values};

/// What Rust's own ranges take of `0..len`: from the first end to the last, both included, in steps.
fn walked(start: Option<isize>, last: Option<isize>, step: isize, len: isize) -> Vec<i32> {
    let place = |end: isize| if end < 0 { end + len } else { end };
    let (first, end) = if step > 0 { (0, len - 1) } else { (len - 1, 0) };
    // A first end beyond the axis begins at the axis's own, as in NumPy.
    let first = start.map_or(first, |start| if step > 0 { place(start).max(0) } else { place(start).min(len - 1) });
    let last = last.map_or(end, place);
    let mut taken = Vec::new();
    let mut at = first;
    while if step > 0 { at <= last.min(len - 1) } else { at >= last.max(0) } {
        taken.push(at as i32);
        at += step;
    }
    taken
}

fn take<T: Element>(x: &Array<T>, item: SliceItem) -> Vec<T> {
    values(&x.slice([item]).expect("a range that is cut to the axis"))
}

#[test]
fn l01_inclusive_ends_and_negative_steps() {
    on_each_backend(|device| {
        let x = line(device, &(0..8).collect::<Vec<i32>>());
        assert_eq!(values(&x.slice(s![5..=2;-1]).unwrap()), [5, 4, 3, 2]);
        assert_eq!(values(&x.slice(s![..=-1;-1]).unwrap()), [7]);
        assert_eq!(values(&x.slice(s![3..=3;-1]).unwrap()), [3]);
        assert_eq!(values(&x.slice(s![7..=0;-2]).unwrap()), [7, 5, 3, 1]);
        assert_eq!(values(&x.slice(s![6..=0;-2]).unwrap()), [6, 4, 2, 0]);
        // An index below zero counts from the end once, not twice.
        assert_eq!(values(&x.slice(s![..=-8;-1]).unwrap()), [7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(values(&x.slice(s![..=-9;-7]).unwrap()), [7, 0]);
    });
}

#[test]
fn l01_every_inclusive_range_of_a_short_axis() {
    let ends: Vec<isize> = vec![-11, -9, -8, -7, -3, -1, 0, 1, 2, 5, 7, 8, 9];
    on_each_backend(|device| {
        let mut wrong = Vec::new();
        for len in [0isize, 1, 8] {
            let x = line(device, &(0..len as i32).collect::<Vec<i32>>());
            for step in [-1isize, -2, -3, 1, 2] {
                for &last in &ends {
                    let to = take(&x, SliceItem::from(..=last).step_by(step));
                    if to != walked(None, Some(last), step, len) {
                        wrong.push(format!("{len}: ..={last};{step} is {to:?}"));
                    }
                    for &start in &ends {
                        let got = take(&x, SliceItem::from(start..=last).step_by(step));
                        if got != walked(Some(start), Some(last), step, len) {
                            wrong.push(format!("{len}: {start}..={last};{step} is {got:?}"));
                        }
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{} wrong: {}", wrong.len(), wrong[..wrong.len().min(5)].join("; "));
    });
}

/// The step may come in several calls, and numbers of any type may be ends.
#[test]
fn l01_the_last_step_counts() {
    on_each_backend(|device| {
        let x = line(device, &(0..8).collect::<Vec<i32>>());
        assert_eq!(take(&x, SliceItem::from(5..=2).step_by(2).step_by(-1)), [5, 4, 3, 2]);
        assert_eq!(take(&x, SliceItem::from(2..=5).step_by(-1).step_by(1)), [2, 3, 4, 5]);
        assert_eq!(take(&x, SliceItem::from(5usize..=2usize).step_by(-1)), [5, 4, 3, 2]);
        assert_eq!(take(&x, SliceItem::from(0usize..=usize::MAX)), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(take(&x, SliceItem::from(..=usize::MAX).step_by(-1)), [0; 0]);
        assert_eq!(take(&x, SliceItem::from(..=isize::MIN).step_by(isize::MIN)), [7]);
        assert_eq!(take(&x, SliceItem::from(isize::MIN..=isize::MAX).step_by(isize::MAX)), [0]);
        assert_eq!(take(&x, SliceItem::from(isize::MAX..=isize::MIN).step_by(-7)), [7, 0]);
        let grid = x.reshape([2, 4]).unwrap();
        assert_eq!(values(&grid.slice(s![1..=0;-1, 2..=1;-1]).unwrap()), [6, 5, 2, 1]);
        let refused = x.slice(s![5..=2;0]).expect_err("a step of zero").to_string();
        assert!(refused.contains("step") && refused.contains("zero"), "{refused}");
    });
}
