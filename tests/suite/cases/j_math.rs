//! Group (j): functions of numbers.

use kiln::prelude::*;

use crate::harness::{array, assert_close, assert_same, line, on_each_backend, values};

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

#[test]
fn j01_tanh_of_large_arguments() {
    on_each_backend(|device| {
        let x: [f32; 16] =
            [0.0, -0.0, 1e-5, 0.5, 1.0, 9.0, 10.0, 20.0, 44.0, 45.0, 50.0, 89.0, 100.0, 1000.0, INF, NAN];
        let got = values(&line(device, &x).tanh().eval().unwrap());
        let want: Vec<f64> = x.iter().map(|&v| f64::from(v).tanh()).collect();
        assert_close(&got, &want, |at| 5e-7 * want[at].abs(), "tanh");
        assert_eq!(got[6..15], [1.0; 9]);
        let back = values(&(-&line(device, &x)).tanh().eval().unwrap());
        let odd: Vec<f32> = got.iter().map(|v| -v).collect();
        assert_same(&back, &odd, "tanh is odd");
    });
}

#[test]
fn j03_remainder_has_the_dividends_sign() {
    on_each_backend(|device| {
        let a = line(device, &(-4..4).collect::<Vec<i32>>());
        for b in [3, -3] {
            let as_scalar = values(&(&a % b).eval().unwrap());
            let as_array = values(&(&a % &line(device, &[b; 8])).eval().unwrap());
            assert_eq!(as_scalar, [-1, 0, -2, -1, 0, 1, 2, 0], "b = {b}");
            assert_eq!(as_array, as_scalar);
        }
        let x = line(device, &[-1, -5, -769]);
        assert_eq!(values(&(x % 768).eval().unwrap()), [-1, -5, -1]);
        assert_eq!(values(&(&a / 3).eval().unwrap()), [-1, -1, 0, 0, 0, 0, 0, 1]);
    });
}

#[expect(clippy::modulo_one, reason = "the remainder by -1 is the case")]
#[test]
fn j04_division_by_zero_and_the_quotient_that_overflows() {
    const MIN: i32 = i32::MIN;
    on_each_backend(|device| {
        let x = line(device, &[7, -7, 0, MIN]);
        let zeros = device.zeros::<i32>(4).unwrap();
        for quotient in [&x / 0, &x / &zeros] {
            assert_eq!(values(&quotient.eval().unwrap()), [7, -7, 0, MIN]);
        }
        for rest in [&x % 0, &x % &zeros] {
            assert_eq!(values(&rest.eval().unwrap()), [0; 4]);
        }
        let minus = device.full(-1, 4).unwrap();
        for quotient in [&x / -1, &x / &minus] {
            assert_eq!(values(&quotient.eval().unwrap()), [-7, 7, 0, MIN]);
        }
        for rest in [&x % -1, &x % &minus] {
            assert_eq!(values(&rest.eval().unwrap()), [0; 4]);
        }
        let five = line(device, &[5u32]);
        assert_eq!(values(&(&five / 0).eval().unwrap()), [5]);
        assert_eq!(values(&(&five % 0).eval().unwrap()), [0]);
    });
}

#[test]
fn j06_float_to_integer_out_of_range() {
    on_each_backend(|device| {
        let x = [NAN, INF, -INF, 3e9, -3e9, 2_147_483_520.0, 2_147_483_648.0, 1.9, -1.9, -0.0];
        let (max, min) = (i32::MAX, i32::MIN);
        let want = [0, max, min, max, min, 2_147_483_520, max, 1, -1, 0];
        let got = line(device, &x).cast::<i32>().eval().unwrap();
        assert_eq!(values(&got), want);
        let x = [NAN, INF, -1.5, 4_294_967_296.0, 4_294_967_040.0, 1e20];
        let want = [0, u32::MAX, 0, u32::MAX, 4_294_967_040, u32::MAX];
        let got = line(device, &x).cast::<u32>().eval().unwrap();
        assert_eq!(values(&got), want);
    });
}

#[test]
fn j07_tests_for_nan_are_not_folded() {
    on_each_backend(|device| {
        let from_host = line(device, &[NAN, -NAN, INF, -INF, 1.0, -0.0]);
        // The same, with the NaN made on the device.
        let bases = line(device, &[INF, -INF, INF, -INF, 1.0, -0.0]);
        let minus = line(device, &[INF, -INF, 0.0, 0.0, 0.0, 0.0]);
        let from_device = (&bases - &minus).eval().unwrap();
        for x in [from_host, from_device] {
            let check = |expr: Expr<bool>, want: [u8; 6]| {
                assert_eq!(values(&expr.eval().unwrap()), want.map(|bit| bit == 1));
            };
            check(x.is_nan(), [1, 1, 0, 0, 0, 0]);
            check(x.abs().eq(INF), [0, 0, 1, 1, 0, 0]);
            check(x.abs().lt(INF), [0, 0, 0, 0, 1, 1]);
            check(x.eq(&x), [0, 0, 1, 1, 1, 1]);
            check(x.ne(&x), [1, 1, 0, 0, 0, 0]);
            check(x.lt(1.0), [0, 0, 0, 1, 0, 1]);
            check(x.ge(1.0), [0, 0, 1, 0, 1, 0]);
            check(x.lt(1.0).not(), [1, 1, 1, 0, 1, 0]);
            let zeroed = x.is_nan().select(0.0, &x).eval().unwrap();
            assert_same(&values(&zeroed), &[0.0, 0.0, INF, -INF, 1.0, -0.0], "where");
        }
        // In one expression, where a compiler could see that it is inf - inf.
        let fused = (&bases - &minus).is_nan().eval().unwrap();
        assert_eq!(values(&fused), [true, true, false, false, false, false]);
    });
}

#[test]
fn j12_maximum_and_minimum_propagate_nan() {
    on_each_backend(|device| {
        let x = line(device, &[1.0, NAN, 3.0]);
        let y = line(device, &[NAN, 2.0, 1.0]);
        for (a, b) in [(&x, &y), (&y, &x)] {
            let max = values(&a.maximum(b).eval().unwrap());
            assert_same(&max, &[NAN, NAN, 3.0], "maximum");
            let min = values(&a.minimum(b).eval().unwrap());
            assert_same(&min, &[NAN, NAN, 1.0], "minimum");
        }
        let clamped = x.maximum(0.0).minimum(2.0).eval().unwrap();
        assert_same(&values(&clamped), &[1.0, NAN, 2.0], "clamp");
    });
}

#[test]
fn j15_quotients_of_equal_numbers() {
    on_each_backend(|device| {
        let x = line(device, &(1..=1000).map(|i| i as f32).collect::<Vec<_>>());
        assert_same(&values(&(&x / &x).eval().unwrap()), &[1.0; 1000], "x / x");
        // Remainders are exact: all pairs.
        let a = array(device, &(0..=1000).map(|i| i as f32).collect::<Vec<_>>(), [1001, 1]);
        let b = line(device, &(1..=100).map(|i| i as f32).collect::<Vec<_>>());
        let want: Vec<f32> = (0..100_100).map(|k| (k / 100 % (k % 100 + 1)) as f32).collect();
        assert_same(&values(&(&a % &b).eval().unwrap()), &want, "a % b");
    });
}

#[test]
fn j16_scalars_are_not_constants_of_the_kernel() {
    on_each_backend(|device| {
        macro_rules! check {
            ($x:expr, $op:tt, $scalar:expr) => {{
                let (x, scalar) = (&$x, $scalar);
                let full = device.full(scalar, x.shape()).unwrap();
                let by_scalar = values(&(x $op scalar).eval().unwrap());
                let by_array = values(&(x $op &full).eval().unwrap());
                assert_same(&by_scalar, &by_array, &format!("{} {scalar:?}", stringify!($op)));
                by_scalar
            }};
        }
        let i = line(device, &[7, -7, 0, i32::MIN, i32::MAX]);
        check!(i, /, 0);
        check!(i, %, 0);
        check!(i, /, -1);
        assert_eq!(check!(i, +, i32::MIN)[3], 0);
        assert_eq!(check!(i, *, i32::MIN)[0], i32::MIN);
        let u = line(device, &[0u32, 1, u32::MAX]);
        assert_eq!(check!(u, +, u32::MAX), [u32::MAX, 0, u32::MAX - 1]);
        let f = line(device, &[0.0f32, -1.0, 2.0, f32::MAX]);
        assert_eq!(check!(f, +, f32::MAX)[3], INF);
        check!(f, *, 1e-45);
        assert_same(&check!(f, *, -0.0), &[-0.0, 0.0, -0.0, -0.0], "times -0");
        check!(f, *, INF);
        check!(f, *, NAN);
        let twice = (&f + 3.402_823_5e38 + 3.402_823_5e38).eval().unwrap();
        assert_eq!(values(&twice)[2], INF);
        // Clamped with the low end above the high one: the last operation wins.
        let clamped = f.maximum(5.0).minimum(1.0).eval().unwrap();
        assert_eq!(values(&clamped), [1.0; 4]);
    });
}
