//! Bad input: each is an error value of the right kind, whose words name the operation and the values. No panic.

use kiln::prelude::*;
use kiln::{Error, ErrorKind, IntoExpr, Options, Result, SliceItem};

use crate::harness::{array, assert_same, line, on_each_backend, values};

/// Asserts an error's kind and that its text has every word.
#[track_caller]
fn check<T: std::fmt::Debug>(result: Result<T>, kind: fn(&ErrorKind) -> bool, words: &[&str]) -> Error {
    let error = result.expect_err("bad input is an error");
    assert!(kind(error.kind()), "another kind of error: {error:?}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    assert!(!text.contains('\n'), "one line: {text}");
    error
}

macro_rules! kind {
    ($($kind:ident)|*) => {
        |kind| matches!(kind, $(ErrorKind::$kind { .. })|*)
    };
}

fn cube(device: &Device) -> Array<f32> {
    array(device, &[1.0; 24], [2, 3, 4])
}

#[test]
fn shapes_that_do_not_broadcast() {
    on_each_backend(|device| {
        let a = array(device, &[1.0f32; 10], [10, 1]);
        let b = array(device, &[1.0f32; 12], [3, 4]);
        let words = ["add", "(10, 1)", "(3, 4)"];
        let line = line!() + 1;
        let error = check((&a + &b).eval(), kind!(ShapeMismatch), &words);
        let at = error.location().expect("the operator's place");
        assert_eq!((at.file(), at.line()), (file!(), line));
        assert!(error.to_string().contains("errors.rs"), "{error}");

        // The error comes out of whatever evaluates it, and of what is made of it.
        let bad = || &a + &b;
        check((bad() * 2.0).eval(), kind!(ShapeMismatch), &words);
        check((2.0 - bad()).sum(..), kind!(ShapeMismatch), &words);
        check(bad().mean(0), kind!(ShapeMismatch), &words);
        check(bad().cumsum(0), kind!(ShapeMismatch), &words);
        check(bad().lt(&a).any(..), kind!(ShapeMismatch), &words);
        check(bad().cast::<i32>().eval(), kind!(ShapeMismatch), &words);
        check(bad().reduce(.., |a, _| a.clone()), kind!(ShapeMismatch), &words);
        check(bad().shape().cloned(), kind!(ShapeMismatch), &words);
        assert!(format!("{:?}", bad()).contains("(10, 1)"));

        check((&b - &a).eval(), kind!(ShapeMismatch), &["sub", "(3, 4)", "(10, 1)"]);
        check(a.maximum(&b).eval(), kind!(ShapeMismatch), &["max", "(10, 1)"]);
        check(a.lt(&b).eval(), kind!(ShapeMismatch), &["lt", "(10, 1)"]);
        let mask = array(device, &[true; 5], 5);
        check(mask.select(&b, &b).eval(), kind!(ShapeMismatch), &["select", "(5,)", "(3, 4)"]);
        check(b.broadcast_to([3, 5]), kind!(ShapeMismatch), &["broadcast_to", "(3, 4)", "(3, 5)"]);
        check(b.broadcast_to(4), kind!(ShapeMismatch), &["broadcast_to", "(4,)"]);
    });
}

#[test]
fn axes_that_are_not_there() {
    on_each_backend(|device| {
        let x = cube(device);
        for axis in [3, -4, 100, isize::MIN, isize::MAX] {
            let given = axis.to_string();
            let words = |op: &'static str| [op, given.as_str(), "3 axes"];
            check(x.sum(axis), kind!(AxisOutOfRange), &words("sum"));
            check(x.prod([0, axis]), kind!(AxisOutOfRange), &words("prod"));
            check(x.min(keep(axis)), kind!(AxisOutOfRange), &words("min"));
            check(x.max(axis), kind!(AxisOutOfRange), &words("max"));
            check(x.mean(axis), kind!(AxisOutOfRange), &words("mean"));
            check(x.gt(0.0).any(axis), kind!(AxisOutOfRange), &words("any"));
            check(x.gt(0.0).all(axis), kind!(AxisOutOfRange), &words("all"));
            check(x.cumsum(axis), kind!(AxisOutOfRange), &words("cumsum"));
            check(x.cumprod(axis), kind!(AxisOutOfRange), &words("cumprod"));
            check(x.cummin(axis), kind!(AxisOutOfRange), &words("cummin"));
            check(x.cummax(axis), kind!(AxisOutOfRange), &words("cummax"));
            check(x.reverse(axis), kind!(AxisOutOfRange), &words("reverse"));
            check(x.scan(axis, |a, _| a.clone()), kind!(AxisOutOfRange), &words("scan"));
            check(x.reduce(axis, |a, _| a.clone()), kind!(AxisOutOfRange), &words("reduce"));
            check(x.permute([0, 1, axis]), kind!(AxisOutOfRange | NotAPermutation), &["permute", &given]);
        }
        for axes in [[0, 0], [0, -3], [2, -1]] {
            check(x.sum(axes), kind!(RepeatedAxis), &["sum", "twice", "(2, 3, 4)"]);
        }
        let scalar = device.full(1.0f32, ()).unwrap();
        check(scalar.sum(0), kind!(AxisOutOfRange), &["sum", "axis 0", "0 axes"]);
        check(scalar.max(-1), kind!(AxisOutOfRange), &["max", "axis -1"]);
        check(scalar.cumsum(0), kind!(AxisOutOfRange), &["cumsum", "axis 0"]);
        check(scalar.reverse(0), kind!(AxisOutOfRange), &["reverse", "axis 0"]);
        assert_eq!(scalar.sum(..).unwrap().item().unwrap(), 1.0);
    });
}

#[test]
fn permutations_that_are_none() {
    on_each_backend(|device| {
        let x = cube(device);
        let none: [isize; 0] = [];
        check(x.permute(none), kind!(NotAPermutation), &["permute", "[]", "(2, 3, 4)"]);
        check(x.permute([0, 1]), kind!(NotAPermutation), &["permute", "[0, 1]"]);
        check(x.permute([0, 1, 1]), kind!(NotAPermutation), &["permute", "[0, 1, 1]"]);
        check(x.permute([0, 1, -2]), kind!(NotAPermutation), &["permute", "-2"]);
        check(x.permute([0, 1, 2, 3]), kind!(NotAPermutation | AxisOutOfRange), &["permute"]);
    });
}

#[test]
fn slices_that_do_not_fit() {
    on_each_backend(|device| {
        let x = cube(device);
        for index in [2, -3, 100, isize::MIN, isize::MAX] {
            let words = ["slice", &index.to_string(), "(2, 3, 4)"];
            check(x.slice([SliceItem::Index(index)]), kind!(BadSlice), &words);
        }
        check(x.slice(s![.., ..;0]), kind!(BadSlice), &["step", "zero"]);
        check(x.slice(s![0, 0, 0, 0]), kind!(BadSlice), &["4", "3"]);
        let empty = device.zeros::<f32>(0).unwrap();
        check(empty.slice(s![0]), kind!(BadSlice), &["index 0", "(0,)"]);
        // Ends out of range are cut, of any size.
        for step in [1, -1, isize::MIN, isize::MAX] {
            let item = SliceItem::Range { start: Some(isize::MIN), stop: Some(isize::MAX), step };
            let n = x.slice([item]).unwrap().shape()[0];
            assert_eq!(n, if step == 1 { 2 } else { usize::from(step > 0) }, "step {step}");
        }
    });
}

#[test]
fn lengths_that_do_not_fill_the_shape() {
    on_each_backend(|device| {
        check(device.array(&[1.0f32; 5], [2, 3]), kind!(LengthMismatch), &["array", "5", "(2, 3)", "6"]);
        check(device.array(&[1u32], 0), kind!(LengthMismatch), &["array", "1", "(0,)"]);
        check(device.array(&[0i32; 0], ()), kind!(LengthMismatch), &["array", "0", "()"]);
        check(device.array(&[true; 4], [usize::MAX, 2]), kind!(TooLarge), &["array", "2"]);
        let x = cube(device);
        check(x.reshape([5, 5]), kind!(LengthMismatch), &["reshape", "24", "(5, 5)"]);
        check(x.reshape([usize::MAX, usize::MAX]), kind!(TooLarge), &["reshape", "too large"]);
        check(x.reshape(()), kind!(LengthMismatch), &["reshape", "24", "()"]);
        check(x.item(), kind!(NotOneElement), &["item", "(2, 3, 4)", "24"]);
        check(x.read_item().wait(), kind!(NotOneElement), &["24"]);
        check(device.zeros::<i32>(0).unwrap().item(), kind!(NotOneElement), &["(0,)"]);
    });
}

#[test]
fn nothing_to_combine() {
    on_each_backend(|device| {
        let x = device.zeros::<f32>([0, 3]).unwrap();
        check(x.min(0), kind!(Empty), &["min", "(0, 3)"]);
        check(x.max(..), kind!(Empty), &["max", "(0, 3)", "initial"]);
        check(x.reduce(0, |a, b| a + b), kind!(Empty), &["reduce", "(0, 3)"]);
        check((&x + 1.0).min(keep(0)), kind!(Empty), &["min"]);
        assert_eq!(x.min(1).unwrap().shape()[..], [0]);
        let from = x.reduce_from(2.5, 0, |a, b| a.maximum(b)).unwrap();
        assert_eq!(values(&from), [2.5; 3]);
    });
}

#[test]
fn arrays_that_are_too_large() {
    const MANY: usize = 1 << 31;
    on_each_backend(|device| {
        let name = device.info().to_string();
        for shape in [vec![MANY], vec![1 << 40], vec![1 << 20, 1 << 20], vec![MANY - 3]] {
            let words = ["full", "elements of one array", "2147483644", &name];
            check(device.full(1.0f32, &shape[..]), kind!(Limit), &words);
            check(device.zeros::<bool>(&shape[..]), kind!(Limit), &words);
            let one = device.full(1u32, ()).unwrap();
            let view = one.broadcast_to(&shape[..]).unwrap();
            check(view.copy(), kind!(Limit), &["copy", "2147483644"]);
            check(view.max(..), kind!(Limit), &["max", "elements combined into one", "2147483644"]);
        }
        // Two views that broadcast to more than there may be.
        let row = device.full(1.0f32, 1).unwrap().broadcast_to(1 << 16).unwrap();
        let column = row.reshape([1 << 16, 1]).unwrap();
        check((&row + &column).eval(), kind!(Limit), &["eval", "4294967296"]);
        check((&row + &column).cumsum(0), kind!(Limit), &["cumsum"]);
        check((&row + &column).sum(..), kind!(Limit), &["sum", "4294967296"]);
        // No elements is not too many.
        assert_eq!(device.zeros::<f32>([usize::MAX, 0]).unwrap().size(), 0);
        assert_same(&values(&line(device, &[1.0f32, 2.0])), &[1.0, 2.0], "afterwards");
    });
}

#[test]
fn expressions_without_an_array() {
    let scalar = || -> Expr<f32> { 2.0f32.into_expr() };
    check(scalar().eval(), kind!(NoArray), &["eval", "no array"]);
    check((scalar() + 1.0).eval(), kind!(NoArray), &["eval"]);
    check(scalar().sum(..), kind!(NoArray), &["sum"]);
    check(scalar().max(..), kind!(NoArray), &["max"]);
    check(scalar().mean(..), kind!(NoArray), &["mean"]);
    check(scalar().cumsum(0), kind!(NoArray | AxisOutOfRange), &["cumsum"]);
    check(scalar().reduce(.., |a, b| a + b), kind!(NoArray), &["reduce"]);
}

#[test]
fn operators_that_use_more_than_their_arguments() {
    on_each_backend(|device| {
        let x = line(device, &[1.0f32, 2.0, 3.0]);
        let y = line(device, &[1.0f32]);
        check(x.reduce(.., |a, b| a + b + &y), kind!(BadOperator), &["reduce", "arguments"]);
        check(x.reduce(.., |_, _| y.to_expr()), kind!(BadOperator), &["reduce"]);
        check(x.scan(0, |a, b| (a + b) * y.to_expr()), kind!(BadOperator), &["scan", "arguments"]);
        check(x.reduce_from(0.0, .., |a, b| a + b + &y), kind!(BadOperator), &["reduce"]);
        let mut kept = None;
        let sum = x.reduce(.., |a, b| {
            kept = Some(a.clone());
            a + b
        });
        assert_eq!(sum.unwrap().item().unwrap(), 6.0);
        let foreign = kept.expect("the closure ran");
        check(x.reduce(.., |a, b| a + b + &foreign), kind!(BadOperator), &["reduce", "arguments"]);
        check(x.scan(0, |_, _| foreign.clone()), kind!(BadOperator), &["scan"]);
        check((&x + &foreign).eval(), kind!(BadOperator), &["eval", "arguments"]);
        check(x.reduce(.., |a, b| a + b + (&x + &line(device, &[1.0; 2]))), kind!(ShapeMismatch), &["add"]);
        // A scalar is no array: it may be used.
        let scaled = x.reduce(.., |a, b| a + b + 0.5).unwrap();
        assert_eq!(scaled.item().unwrap(), 7.0);
        assert_eq!(x.reduce(.., |_, _| 4.0f32.into_expr()).unwrap().item().unwrap(), 4.0);
    });
}

#[test]
fn devices_that_are_not_there() {
    let kind: fn(&ErrorKind) -> bool = kind!(NoDevice);
    let error = check(Options::new().adapter("no such adapter").open(), kind, &["no such adapter"]);
    assert!(error.to_string().starts_with("no device for"), "{error}");
    check(Options::new().adapter("999").open(), kind, &["999"]);
    let absent = if cfg!(target_os = "macos") { kiln::Backend::Dx12 } else { kiln::Backend::Metal };
    check(Options::new().backend(absent).open(), kind, &[]);
    check(Options::new().backend(kiln::Backend::Vulkan).adapter("no such adapter").open(), kind, &["no such adapter"]);
}

#[test]
fn reduced_lengths_beyond_any_machine() {
    on_each_backend(|device| {
        let one = device.full(1.0f32, ()).unwrap();
        let n = 1 << 30;
        let [a, b, c] = [[n, 1, 1], [1, n, 1], [1, 1, n]].map(|shape| one.broadcast_to(shape).unwrap());
        let huge = &a + &b + &c;
        for error in [huge.sum(..).unwrap_err(), huge.mean([0, 1]).unwrap_err(), huge.cumsum(0).unwrap_err()] {
            assert!(matches!(error.kind(), ErrorKind::Limit { .. } | ErrorKind::TooLarge { .. }), "{error}");
        }
        // A line of more elements than fit a number, of which there are none.
        let none = device.zeros::<f32>([usize::MAX, 2, 0]).unwrap();
        assert_eq!(none.sum(2).unwrap_err().kind().to_string().split(':').next(), Some("sum"));
        assert!(none.sum([0, 1]).is_err());
        let far = device.zeros::<f32>([0, 4, isize::MAX as usize]).unwrap();
        assert_eq!(far.slice(kiln::s![.., 3, ..;2]).unwrap().size(), 0);
    });
}
