//! Fused elementwise expressions over arrays that broadcast, each a random view, against plain loops.

use kiln::Element;
use kiln::prelude::*;
use proptest::prelude::*;

use crate::harness::{array, assert_close, assert_same, bits, line, on_each_backend, values};
use crate::inputs::{Values, cases, seeds, shapes, viewed};
use crate::naive::{Host, broadcast, maximum, minimum, room};
use crate::random::Rng;

const MOST: usize = 10_000;

/// A shape that broadcasts to `shape` or that `shape` broadcasts to: some axes of length 1, some leading ones missing.
fn partner(shape: &[usize], rng: &mut Rng) -> Vec<usize> {
    let mut out = shape.to_vec();
    for len in &mut out {
        match rng.below(4) {
            0 => *len = 1,
            1 if *len == 1 => *len = rng.pick(&[0, 1, 2, 3, 5]),
            _ => {}
        }
    }
    out.drain(..rng.below(shape.len() + 1));
    if room(&broadcast(shape, &out).unwrap_or_default()) > 4 * MOST {
        return shape.to_vec();
    }
    out
}

/// Up to three arrays that broadcast with each other; the first is a random view.
fn operands<T: Values>(device: &Device, shape: &[usize], views: &[u64], seed: u64) -> [(Array<T>, Host<T>); 3] {
    let make = |shape: &[usize], seed: u64| {
        let host = T::host(shape, seed);
        (array(device, &host.values, shape), host)
    };
    let (x, host) = make(shape, seed);
    let a = viewed(&x, &host, views, MOST);
    let mut rng = Rng(seed ^ 3);
    let shape_b = partner(&a.1.shape, &mut rng);
    let both = broadcast(&a.1.shape, &shape_b).expect("a partner broadcasts");
    let shape_c = partner(&both, &mut rng);
    // A transposed operand, so that no one layout fits all.
    let turned: Vec<usize> = shape_b.iter().rev().copied().collect();
    let (b, host_b) = make(&turned, seed ^ 4);
    let rank = turned.len();
    let host_b = host_b.permute(&(0..rank).rev().collect::<Vec<_>>());
    [a, (b.transpose(), host_b), make(&shape_c, seed ^ 5)]
}

#[track_caller]
fn check<T: Element>(got: &Expr<T>, want: &Host<T>, what: &str) {
    assert_eq!(got.shape().unwrap()[..], want.shape[..], "the shape of {what}");
    let got = got.eval().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(got.shape()[..], want.shape[..], "the shape of {what}");
    assert_same(&values(&got), &want.values, what);
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn integers(shape in shapes(MOST), views in seeds(), seed in any::<u64>()) {
        on_each_backend(|device| {
            let [(a, ha), (b, hb), (c, hc)] = operands::<i32>(device, &shape, &views, seed);
            let want = ha.zip(&hb, i32::wrapping_sub).zip(&hc, i32::wrapping_mul).map(|v| v.wrapping_add(7));
            check(&((&a - &b) * &c + 7), &want, "(a - b) * c + 7");
            let want = ha.zip(&hb, |a, b| a.wrapping_rem(b.max(1))).zip(&hc, |ab, c| ab ^ !c);
            check(&((&a % b.maximum(1)) ^ c.not()), &want, "a % max(b, 1) ^ !c");
            let want = ha.zip(&hb, |a, b| a < b).zip(&hc, |less, c| if less { c } else { -1 });
            check(&a.lt(&b).select(&c, -1), &want, "a < b ? c : -1");
        });
    }

    #[test]
    fn unsigned(shape in shapes(MOST), views in seeds(), seed in any::<u64>()) {
        on_each_backend(|device| {
            let [(a, ha), (b, hb), (c, hc)] = operands::<u32>(device, &shape, &views, seed);
            let want = ha.zip(&hb, |a, b| a / b.max(1)).zip(&hc, u32::wrapping_sub);
            check(&(&a / b.maximum(1) - &c), &want, "a / max(b, 1) - c");
            let want = ha.zip(&hb, |a, b| a & b).zip(&hc, |ab, c| ab | c);
            check(&(&a & &b | &c), &want, "a & b | c");
            let want = ha.zip(&hb, |a, b| a >= b).zip(&hc, |ge, c| ge && c != 0);
            check(&(a.ge(&b) & c.ne(0)), &want, "a >= b & c != 0");
        });
    }

    #[test]
    fn floats(shape in shapes(MOST), views in seeds(), seed in any::<u64>()) {
        on_each_backend(|device| {
            let [(a, ha), (b, hb), (c, hc)] = operands::<f32>(device, &shape, &views, seed);
            // No product feeds an addition, so the bits are the same everywhere.
            let want = ha.zip(&hb, |a, b| a - b).zip(&hc, |ab, c| ab * c);
            check(&((&a - &b) * &c), &want, "(a - b) * c");
            let want = ha.zip(&hb, maximum).zip(&hc, minimum).map(|v| -v);
            check(&-(a.maximum(&b).minimum(&c)), &want, "-min(max(a, b), c)");
            let want = ha.zip(&hb, |a, b| a > b).zip(&hc, |gt, c| if gt { c.abs() } else { 2.5 });
            check(&a.gt(&b).select(c.abs(), 2.5), &want, "a > b ? |c| : 2.5");
            // One that does: within the rounding of the product.
            let exact = ha.zip(&hb, |a, b| f64::from(a) * f64::from(b)).zip(&hc, |ab, c| ab + f64::from(c));
            let room = ha.zip(&hb, |a, b| f64::from((a * b).abs())).zip(&hc, |ab, c| ab + f64::from(c.abs()));
            let within = |at: usize| room.values[at] * f64::from(f32::EPSILON);
            assert_close(&values(&(&a * &b + &c).eval().unwrap()), &exact.values, within, "a * b + c");
        });
    }

    #[test]
    fn truth_values(shape in shapes(MOST), views in seeds(), seed in any::<u64>()) {
        on_each_backend(|device| {
            let [(a, ha), (b, hb), (c, hc)] = operands::<bool>(device, &shape, &views, seed);
            let want = ha.zip(&hb, |a, b| a & !b).zip(&hc, |ab, c| ab ^ c);
            check(&(&a & !&b ^ &c), &want, "a & !b ^ c");
            let want = ha.zip(&hb, |a, b| a == b).zip(&hc, |eq, c| if eq { c } else { true });
            check(&a.eq(&b).select(&c, true), &want, "a == b ? c : true");
            let want = ha.zip(&hb, |a, b| u32::from(a) + u32::from(b));
            check(&(a.cast::<u32>() + b.cast::<u32>()), &want, "u32(a) + u32(b)");
        });
    }

    #[test]
    fn expressions_share_what_they_use_twice(shape in shapes(MOST), views in seeds(), seed in any::<u64>()) {
        on_each_backend(|device| {
            let [(a, ha), (b, hb), _] = operands::<i32>(device, &shape, &views, seed);
            let z = &a - &b;
            let want = ha.zip(&hb, i32::wrapping_sub).map(|z| z.wrapping_mul(z).wrapping_add(z));
            check(&(&z * &z + z), &want, "z z + z");
        });
    }
}

/// Every operator takes arrays, expressions and scalars on either side, owned or borrowed.
#[test]
fn operators_take_every_mix_of_operands() {
    on_each_backend(|device| {
        let x = line(device, &[6i32, 7, 8]);
        let e = || &x + 0;
        for (got, want) in [
            (&x + &x, [12, 14, 16]),
            (x.clone() + x.clone(), [12, 14, 16]),
            (&x - e(), [0, 0, 0]),
            (e() - &x, [0, 0, 0]),
            (&e() * &e(), [36, 49, 64]),
            (e() * 2, [12, 14, 16]),
            (2 * e(), [12, 14, 16]),
            (2 * &e(), [12, 14, 16]),
            (2 * &x, [12, 14, 16]),
            (2 * x.clone(), [12, 14, 16]),
            (100 / &x, [16, 14, 12]),
            (100 - e(), [94, 93, 92]),
            (100 % &x, [4, 2, 4]),
            (-&x, [-6, -7, -8]),
            (-e(), [-6, -7, -8]),
            (!&x, [!6, !7, !8]),
            (5 & &x, [4, 5, 0]),
            (&x | 1, [7, 7, 9]),
            (1 ^ e(), [7, 6, 9]),
        ] {
            assert_eq!(values(&got.eval().unwrap()), want);
        }
    });
}

/// A statement with many operands and operations is still one expression; a long chain is no recursion.
#[test]
fn long_expressions() {
    on_each_backend(|device| {
        let x = line(device, &i32::host(&[1000], 1).values);
        let mut chain = x.to_expr();
        for i in 0..500 {
            chain = chain ^ i;
        }
        let all = (0..500).fold(0, |all, i| all ^ i);
        let want: Vec<i32> = values(&x).iter().map(|v| v ^ all).collect();
        assert_same(&values(&chain.eval().unwrap()), &want, "500 operations");

        let arrays: Vec<Array<i32>> = (0..6).map(|i| device.full(1 << i, 1000).unwrap()).collect();
        let sum = arrays[1..].iter().fold(arrays[0].to_expr(), |sum, a| sum + a);
        assert_same(&values(&sum.eval().unwrap()), &[63; 1000], "six operands");

        // Far too long: an error, not a stack overflow, and dropping it is safe.
        let mut endless = x.to_expr();
        for _ in 0..100_000 {
            endless = endless + 1;
        }
        let error = endless.eval().expect_err("more operations than one kernel takes");
        assert!(error.to_string().contains("4096"), "{error}");
    });
}

/// Scalars are operands of their own; 0-d arrays broadcast.
#[test]
fn zero_dimensional_arrays_broadcast() {
    on_each_backend(|device| {
        let two = device.full(2.0f32, ()).unwrap();
        assert_eq!((two.ndim(), two.size()), (0, 1));
        let x = array(device, &[1.0f32, 2.0, 3.0, 4.0], [2, 2]);
        assert_eq!(values(&(&x * &two).eval().unwrap()), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(values(&(&two * &two).eval().unwrap()), [4.0]);
        assert_eq!((&two + 1.0).sum(..).unwrap().item().unwrap(), 3.0);
    });
}

/// Arrays are values: an expression made before sees what it was made of.
#[test]
fn an_expression_holds_its_arrays() {
    on_each_backend(|device| {
        let expr = {
            let x = line(device, &[1.0f32, 2.0, 3.0]);
            let y = x.clone();
            drop(x);
            &y + &y
        };
        let noise: Vec<_> = (0..10).map(|i| device.full(i as f32, 3).unwrap()).collect();
        drop(noise);
        assert_eq!(values(&expr.eval().unwrap()), [2.0, 4.0, 6.0]);
        assert_eq!(bits(expr.sum(..).unwrap().item().unwrap()), bits(12.0f32));
    });
}

/// More arrays than one kernel can read: parts are computed first, and nobody notices.
#[test]
fn more_arrays_than_one_kernel_takes() {
    on_each_backend(|device| {
        let arrays: Vec<Array<i32>> = (0..300).map(|i| device.full(i, 4).unwrap()).collect();
        let sum = arrays[1..].iter().fold(arrays[0].to_expr(), |sum, a| sum + a);
        assert_eq!(values(&sum.eval().unwrap()), [44_850; 4]);
        assert_eq!(sum.sum(..).unwrap().item().unwrap(), 4 * 44_850);
        assert_eq!(values(&sum.cumsum(0).unwrap())[3], 4 * 44_850);
    });
}
