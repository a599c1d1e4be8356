//! Group (d): broadcasting.

use kiln::ErrorKind;
use kiln::prelude::*;

use crate::harness::{array, keeps_order, line, on_each_backend, values};

#[test]
fn d01_arrays_without_elements() {
    on_each_backend(|device| {
        let zeros = |shape: &[usize]| device.zeros::<f32>(shape).unwrap();
        let check = |got: &Expr<f32>, shape: &[usize]| {
            let got = got.eval().unwrap();
            assert_eq!(got.shape()[..], *shape);
            assert_eq!(values(&got), [0.0f32; 0]);
        };
        check(&zeros(&[0]).to_expr(), &[0]);
        check(&(zeros(&[0]) + 1.0), &[0]);
        check(&(zeros(&[3, 1]) + zeros(&[0])), &[3, 0]);
        check(&(zeros(&[0]) + zeros(&[1])), &[0]);
        check(&(zeros(&[2, 0, 4]) * zeros(&[1, 4])), &[2, 0, 4]);
        check(&(zeros(&[]) + zeros(&[0])), &[0]);
        assert_eq!(device.full(2.5f32, [0, 7]).unwrap().size(), 0);
        assert_eq!(zeros(&[0]).copy().unwrap().size(), 0);
        let turned = zeros(&[0, 3]).transpose();
        assert_eq!(turned.shape()[..], [3, 0]);
        assert_eq!(values(&turned.copy().unwrap()), [0.0f32; 0]);
        assert_eq!(values(&zeros(&[0]).cumsum(0).unwrap()), [0.0f32; 0]);
        let error = (zeros(&[0]) + zeros(&[3])).eval().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ShapeMismatch { .. }), "{error}");
    });
}

#[test]
fn d06_mismatch_names_both_shapes() {
    on_each_backend(|device| {
        let of = |shape: &[usize]| device.zeros::<f32>(shape).unwrap();
        for (a, b, words) in [
            (of(&[10, 1]), of(&[3, 1]), ["(10, 1)", "(3, 1)"]),
            (of(&[3, 1]), of(&[10, 1]), ["(3, 1)", "(10, 1)"]),
            (of(&[2, 3]), of(&[2]), ["(2, 3)", "(2,)"]),
        ] {
            let text = (&a + &b).eval().unwrap_err().to_string();
            let places = words.map(|word| text.find(word).expect("both shapes"));
            assert!(places[0] < places[1], "left before right: {text}");
        }
        let fused = of(&[4]) + of(&[4]) * of(&[5]);
        let text = fused.eval().unwrap_err().to_string();
        assert!(text.contains("mul: shapes (4,) and (5,)"), "{text}");
    });
}

#[test]
fn d07_scalars_keep_the_element_type() {
    on_each_backend(|device| {
        // `i32 * 2.5` does not compile; an f32 beyond the range is infinity before it comes here.
        let x = line(device, &[0.0f32, 1.0, -2.0]);
        let product: Expr<f32> = &x * 1e38 * 1e38;
        let got = values(&product.eval().unwrap());
        // A compiler that regroups multiplies the scalars first, to infinity.
        let zero = got[0] == 0.0 || !keeps_order(device);
        assert!(zero && got[1] == f32::INFINITY && got[2] == f32::NEG_INFINITY);
        let halves: Expr<f32> = line(device, &[0, 1, 2]).cast::<f32>() * 2.5;
        assert_eq!(values(&halves.eval().unwrap()), [0.0, 2.5, 5.0]);
    });
}

#[test]
fn d09_both_operands_broadcast() {
    on_each_backend(|device| {
        let a: Vec<i32> = (0..100).map(|k| k % 7).collect();
        let b: Vec<i32> = (0..100).map(|k| k % 5).collect();
        let product = array(device, &a, [1, 10, 10]) * array(device, &b, [10, 1, 10]);
        assert_eq!(product.sum(..).unwrap().item().unwrap(), 5800);
        let host = product.eval().unwrap().to_host().unwrap();
        assert_eq!(host.shape(), [10, 10, 10]);
        assert_eq!(host.get(&[2, 3, 4]), Some(24));
        assert_eq!(host.get(&[9, 9, 9]), Some(4));

        let x = array(device, &(0..6).collect::<Vec<i32>>(), [2, 1, 3]);
        let y = array(device, &(0..4).collect::<Vec<i32>>(), [4, 1]);
        let sum = (x + 10 * y + 100).eval().unwrap();
        assert_eq!(sum.shape()[..], [2, 4, 3]);
        let first = [100, 101, 102, 110, 111, 112, 120, 121, 122, 130, 131, 132];
        assert_eq!(values(&sum)[..12], first);
        assert_eq!(sum.sum(..).unwrap().item().unwrap(), 2820);
    });
}
