//! Every operator on the values at the edges of every element type, each value against each, as arrays and as scalars.

use kiln::prelude::*;
use kiln::{Element, IntoExpr};

use crate::harness::{array, assert_close, assert_same, line, on_each_backend, values};
use crate::naive::{Host, maximum, minimum};

const I32: [i32; 15] = [i32::MIN, i32::MIN + 1, -769, -256, -4, -3, -2, -1, 0, 1, 2, 3, 768, i32::MAX - 1, i32::MAX];
const U32: [u32; 11] = [0, 1, 2, 3, 7, 255, 65_536, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];
/// No subnormal numbers: a GPU may flush them.
const F32: [f32; 18] = [
    f32::NAN,
    -f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -1.5,
    3.0,
    1e10,
    -7.25e-10,
    16_777_217.0,
    f32::MAX,
    f32::MIN,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
];

type Binary<T, U> = (&'static str, fn(&Array<T>, &dyn Fn() -> Expr<T>) -> Expr<U>, fn(T, T) -> U);

/// Each value against each: as a column against a row, and against each value as a scalar.
fn check<T, U>(device: &Device, all: &[T], ops: &[Binary<T, U>])
where
    T: Element + IntoExpr<T>,
    U: Element,
{
    let n = all.len();
    let column = Host::new(&[n, 1], all.to_vec());
    let row = Host::new(&[n], all.to_vec());
    let (x, y) = (array(device, all, [n, 1]), line(device, all));
    for (name, op, naive) in ops {
        let want = column.zip(&row, naive);
        let got = op(&x, &|| y.to_expr()).eval().unwrap();
        assert_same(&values(&got), &want.values, name);
        for &scalar in all {
            let got = op(&y, &|| scalar.into_expr()).eval().unwrap();
            let want: Vec<U> = all.iter().map(|&v| naive(v, scalar)).collect();
            assert_same(&values(&got), &want, &format!("{name} with {scalar:?}"));
        }
    }
}

macro_rules! comparisons {
    ($ty:ty) => {
        [
            ("lt", |x, y| x.lt(y()), |a: $ty, b: $ty| a < b),
            ("le", |x, y| x.le(y()), |a, b| a <= b),
            ("gt", |x, y| x.gt(y()), |a, b| a > b),
            ("ge", |x, y| x.ge(y()), |a, b| a >= b),
            ("eq", |x, y| x.eq(y()), |a, b| a == b),
            ("ne", |x, y| x.ne(y()), |a, b| a != b),
        ]
    };
}

macro_rules! integer_ops {
    ($ty:ty) => {
        [
            ("add", |x, y| x + y(), <$ty>::wrapping_add),
            ("sub", |x, y| x - y(), <$ty>::wrapping_sub),
            ("mul", |x, y| x * y(), <$ty>::wrapping_mul),
            (
                "div",
                |x, y| x / y(),
                |a: $ty, b: $ty| {
                    if b == 0 { a } else { a.wrapping_div(b) }
                },
            ),
            (
                "rem",
                |x, y| x % y(),
                |a, b| {
                    if b == 0 { 0 } else { a.wrapping_rem(b) }
                },
            ),
            ("minimum", |x, y| x.minimum(y()), |a, b| a.min(b)),
            ("maximum", |x, y| x.maximum(y()), |a, b| a.max(b)),
            ("and", |x, y| x & y(), |a, b| a & b),
            ("or", |x, y| x | y(), |a, b| a | b),
            ("xor", |x, y| x ^ y(), |a, b| a ^ b),
        ]
    };
}

#[test]
fn i32_at_its_edges() {
    on_each_backend(|device| {
        check::<i32, i32>(device, &I32, &integer_ops!(i32));
        check::<i32, bool>(device, &I32, &comparisons!(i32));
        let x = line(device, &I32);
        let of = |f: fn(i32) -> i32| I32.map(f);
        assert_same(&values(&(-&x).eval().unwrap()), &of(i32::wrapping_neg), "neg");
        assert_same(&values(&x.abs().eval().unwrap()), &of(i32::wrapping_abs), "abs");
        assert_same(&values(&x.not().eval().unwrap()), &of(|v| !v), "not");
    });
}

#[test]
fn u32_at_its_edges() {
    on_each_backend(|device| {
        check::<u32, u32>(device, &U32, &integer_ops!(u32));
        check::<u32, bool>(device, &U32, &comparisons!(u32));
        let x = line(device, &U32);
        assert_same(&values(&x.not().eval().unwrap()), &U32.map(|v| !v), "not");
    });
}

#[test]
fn bool_in_every_pair() {
    on_each_backend(|device| {
        let all = [false, true];
        let logic: [Binary<bool, bool>; 5] = [
            ("and", |x, y| x & y(), |a, b| a & b),
            ("or", |x, y| x | y(), |a, b| a | b),
            ("xor", |x, y| x ^ y(), |a, b| a ^ b),
            ("minimum", |x, y| x.minimum(y()), |a, b| a & b),
            ("maximum", |x, y| x.maximum(y()), |a, b| a | b),
        ];
        check(device, &all, &logic);
        let order: [Binary<bool, bool>; 6] = comparisons!(bool);
        check(device, &all, &order);
        let x = line(device, &all);
        assert_eq!(values(&x.not().eval().unwrap()), [true, false]);
        assert_eq!(values(&(!&x).eval().unwrap()), [true, false]);
    });
}

/// A result that a GPU may flush to zero is taken as zero.
fn flushed(v: f32) -> f32 {
    if v.is_subnormal() { 0.0 * v } else { v }
}

/// Sums, differences and products are rounded correctly everywhere.
#[test]
fn f32_at_its_edges() {
    on_each_backend(|device| {
        let exact: [Binary<f32, f32>; 2] =
            [("minimum", |x, y| x.minimum(y()), minimum), ("maximum", |x, y| x.maximum(y()), maximum)];
        check(device, &F32, &exact);
        check::<f32, bool>(device, &F32, &comparisons!(f32));
        let arithmetic: [Binary<f32, f32>; 4] = [
            ("add", |x, y| x + y(), |a, b| a + b),
            ("sub", |x, y| x - y(), |a, b| a - b),
            ("mul", |x, y| x * y(), |a, b| a * b),
            ("rem", |x, y| x % y(), |a, b| a % b),
        ];
        let n = F32.len();
        let (x, y) = (array(device, &F32, [n, 1]), line(device, &F32));
        for (name, op, naive) in arithmetic {
            let got = values(&op(&x, &|| y.to_expr()).eval().unwrap());
            for (at, got) in got.into_iter().enumerate() {
                let (a, b) = (F32[at / n], F32[at % n]);
                let want = naive(a, b);
                let what = format!("{name} of {a:?} and {b:?}");
                assert_same(&[flushed(got).abs()], &[flushed(want).abs()], &what);
                if !want.is_nan() && got != 0.0 {
                    assert_same(&[got], &[want], &what);
                }
            }
        }
    });
}

/// Quotients and roots: exact on the CPU, within WGSL's 2.5 and 3 units of the last place on a GPU.
#[test]
fn quotients_and_roots() {
    on_each_backend(|device| {
        let ulps = if device.info().backend == "cpu" { 0.5 } else { 3.0 };
        let n = F32.len();
        let (x, y) = (array(device, &F32, [n, 1]), line(device, &F32));
        let pairs = || (0..n * n).map(|at| (F32[at / n], F32[at % n]));
        // Quotients that are neither subnormal nor of numbers whose reciprocal is.
        let plain = |(a, b): (f32, f32)| {
            let fine = |v: f32| v == 0.0 || !v.is_finite() || (v.abs() > 1e-30 && v.abs() < 1e30);
            fine(a) && fine(b) && fine(a / b)
        };
        let got = values(&(&x / &y).eval().unwrap());
        let (got, want): (Vec<f32>, Vec<f64>) = got
            .into_iter()
            .zip(pairs())
            .filter(|&(_, pair)| plain(pair))
            .map(|(got, (a, b))| (got, f64::from(a) / f64::from(b)))
            .unzip();
        let ulp = |v: f64| v.abs() * f64::from(f32::EPSILON);
        assert_close(&got, &want, |at| ulps * ulp(want[at]), "quotients");

        let roots: Vec<f32> = F32.to_vec();
        let got = values(&line(device, &roots).sqrt().eval().unwrap());
        let want: Vec<f64> = roots.iter().map(|&v| f64::from(v).sqrt()).collect();
        assert_close(&got, &want, |at| ulps * ulp(want[at]), "roots");
    });
}

/// Negation and absolute value change the sign bit and nothing else.
#[test]
fn signs() {
    on_each_backend(|device| {
        let x = line(device, &F32);
        assert_same(&values(&(-&x).eval().unwrap()), &F32.map(|v| -v), "neg");
        assert_same(&values(&x.abs().eval().unwrap()), &F32.map(f32::abs), "abs");
    });
}

/// Every conversion, at the edges of the types it goes between.
#[test]
fn casts() {
    on_each_backend(|device| {
        let x = line(device, &F32);
        assert_same(&values(&x.cast::<i32>().eval().unwrap()), &F32.map(|v| v as i32), "f32 to i32");
        assert_same(&values(&x.cast::<u32>().eval().unwrap()), &F32.map(|v| v as u32), "f32 to u32");
        assert_same(&values(&x.cast::<bool>().eval().unwrap()), &F32.map(|v| v != 0.0), "f32 to bool");
        let x = line(device, &I32);
        assert_same(&values(&x.cast::<u32>().eval().unwrap()), &I32.map(i32::cast_unsigned), "i32 to u32");
        assert_same(&values(&x.cast::<bool>().eval().unwrap()), &I32.map(|v| v != 0), "i32 to bool");
        assert_same(&values(&x.cast::<f32>().eval().unwrap()), &I32.map(|v| v as f32), "i32 to f32");
        let x = line(device, &U32);
        assert_same(&values(&x.cast::<i32>().eval().unwrap()), &U32.map(u32::cast_signed), "u32 to i32");
        assert_same(&values(&x.cast::<bool>().eval().unwrap()), &U32.map(|v| v != 0), "u32 to bool");
        assert_same(&values(&x.cast::<f32>().eval().unwrap()), &U32.map(|v| v as f32), "u32 to f32");
        let x = line(device, &[false, true]);
        assert_eq!(values(&x.cast::<i32>().eval().unwrap()), [0, 1]);
        assert_eq!(values(&x.cast::<u32>().eval().unwrap()), [0, 1]);
        assert_eq!(values(&x.cast::<f32>().eval().unwrap()), [0.0, 1.0]);
        assert_eq!(values(&x.cast::<bool>().eval().unwrap()), [false, true]);
    });
}

/// `select` passes NaN, signed zeros and infinities through, from either side.
#[test]
fn select_keeps_bits() {
    on_each_backend(|device| {
        let x = line(device, &F32);
        let mask: Vec<bool> = (0..F32.len()).map(|i| i % 2 == 0).collect();
        let got = line(device, &mask).select(&x, -&x).eval().unwrap();
        let want: Vec<f32> = F32.iter().zip(&mask).map(|(&v, &m)| if m { v } else { -v }).collect();
        assert_same(&values(&got), &want, "select");
        assert_same(&values(&x.is_nan().eval().unwrap()), &F32.map(f32::is_nan), "is_nan");
    });
}

/// Scalars in any position are parameters with all their bits.
#[test]
fn scalars_keep_bits() {
    on_each_backend(|device| {
        for scalar in F32 {
            let got = device.full(scalar, 3).unwrap();
            assert_same(&values(&got), &[scalar; 3], "full");
        }
        for scalar in I32 {
            let got = device.full(scalar, [2, 1]).unwrap();
            assert_same(&values(&got), &[scalar; 2], "full");
        }
        let all = device.full(true, 5).unwrap();
        assert_eq!(values(&all), [true; 5]);
        assert_eq!(values(&device.zeros::<f32>([2, 2]).unwrap()), [0.0; 4]);
        assert_eq!(values(&device.zeros::<bool>(3).unwrap()), [false; 3]);
    });
}

/// Remainders are exact for subnormal divisors, too: `%` computes with bits. Devices may read a subnormal as zero.
#[test]
fn remainders_of_subnormals() {
    on_each_backend(|device| {
        let bits = [1, 2, 3, 5, 0x0012_3457, 0x007f_ffff, 0x0080_0000, 0x0080_0001, 0x3f80_0000, 0x7f7f_ffff];
        let all = bits.map(f32::from_bits);
        let n = all.len();
        let (x, y) = (array(device, &all, [n, 1]), line(device, &all));
        let got = values(&(-&x % &y).eval().unwrap());
        let want: Vec<f32> = (0..n * n).map(|at| -all[at / n] % all[at % n]).collect();
        if device.float_rules().unwrap().subnormals {
            assert_same(&got, &want, "remainders");
        }
        for (at, (got, want)) in got.into_iter().zip(want).enumerate() {
            let (a, b) = (all[at / n], all[at % n]);
            if a.is_normal() && b.is_normal() {
                assert_same(&[flushed(got).abs()], &[flushed(want).abs()], &format!("{a:?} % {b:?}"));
            }
        }
    });
}
