//! Running combinations of random views along random axes, every element type, against plain loops.

use kiln::Element;
use kiln::prelude::*;
use proptest::prelude::*;

use crate::harness::{array, assert_close, assert_same, line, on_each_backend, values, where_order_is_kept};
use crate::inputs::{Values, cases, seeds, shapes, viewed};
use crate::naive::{Host, maximum, minimum, running};
use crate::random::Rng;
use crate::reduce::{affine, naive_affine};

const MOST: usize = 20_000;

struct Case<T> {
    x: Array<T>,
    host: Host<T>,
    given: isize,
    axis: usize,
}

impl<T: Values> Case<T> {
    /// A random view and an axis of it; nothing where the view has no axis.
    fn of(device: &Device, host: &Host<T>, views: &[u64], seed: u64) -> Option<Self> {
        let x = array(device, &host.values, &host.shape[..]);
        let (x, host) = viewed(&x, host, views, MOST);
        let rank = host.shape.len();
        if rank == 0 {
            return None;
        }
        let mut rng = Rng(seed ^ 2);
        let axis = rng.below(rank);
        Some(Self { x, host, given: rng.axis(axis, rank), axis })
    }

    fn what(&self, op: &str) -> String {
        format!("{op} of {} with strides {:?} along {}", self.x.shape(), self.x.strides(), self.given)
    }

    fn check<U: Element>(&self, op: &str, got: kiln::Result<Array<U>>, want: impl Fn(&[T]) -> Vec<U>) {
        let what = self.what(op);
        let got = got.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(got.shape(), self.x.shape(), "{what}");
        let want = self.host.scan(self.axis, want);
        assert_same(&values(&got), &want.values, &what);
    }
}

macro_rules! check_integers {
    ($device:expr, $ty:ty, $shape:expr, $views:expr, $seed:expr) => {
        if let Some(case) = Case::of($device, &<$ty>::host($shape, $seed), $views, $seed) {
            let (x, axis) = (&case.x, case.given);
            case.check("cumsum", x.cumsum(axis), |line| {
                let wide = running(line, i128::from, |total, v| total + i128::from(v));
                wide.into_iter().map(|v| v as $ty).collect()
            });
            case.check("cumprod", x.cumprod(axis), |line| running(line, |v| v, <$ty>::wrapping_mul));
            case.check("cummin", x.cummin(axis), |line| running(line, |v| v, |a, b| a.min(b)));
            case.check("cummax", x.cummax(axis), |line| running(line, |v| v, |a, b| a.max(b)));
        }
    };
}

proptest! {
    #![proptest_config(cases(28))]

    #[test]
    fn integers(shape in shapes(MOST), views in seeds(), seed in any::<u64>()) {
        on_each_backend(|device| {
            if seed % 2 == 0 {
                check_integers!(device, i32, &shape, &views, seed);
            } else {
                check_integers!(device, u32, &shape, &views, seed);
            }
        });
    }

    #[test]
    fn floats(shape in shapes(MOST), views in seeds(), seed in any::<u64>()) {
        on_each_backend(|device| {
            let Some(case) = Case::of(device, &f32::host(&shape, seed), &views, seed) else { return };
            let (x, axis) = (&case.x, case.given);
            case.check("cummin", x.cummin(axis), |line| running(line, |v| v, minimum));
            case.check("cummax", x.cummax(axis), |line| running(line, |v| v, maximum));
            let add = |total: f64, v: f32| total + f64::from(v);
            let want = case.host.scan(case.axis, |line| running(line, f64::from, add));
            let size = case.host.map(f32::abs).scan(case.axis, |line| running(line, f64::from, add));
            let steps = (case.host.shape[case.axis].max(2) as f64).log2() + 3.0;
            let within = |at: usize| size.values[at] * steps * f64::from(f32::EPSILON) / 2.0;
            let got = x.cumsum(axis).unwrap();
            assert_eq!(got.shape(), x.shape());
            assert_close(&values(&got), &want.values, within, &case.what("cumsum"));
        });
    }

    #[test]
    fn truth_values(shape in shapes(MOST), views in seeds(), seed in any::<u64>()) {
        on_each_backend(|device| {
            let Some(case) = Case::of(device, &bool::host(&shape, seed), &views, seed) else { return };
            let (x, axis) = (&case.x, case.given);
            case.check("cumsum", x.cumsum(axis), |line| running(line, u32::from, |n, v| n + u32::from(v)));
            case.check("cumprod", x.cumprod(axis), |line| running(line, u32::from, |n, v| n * u32::from(v)));
            case.check("cummin", x.cummin(axis), |line| running(line, |v| v, |a, b| a & b));
            case.check("cummax", x.cummax(axis), |line| running(line, |v| v, |a, b| a | b));
            case.check("scan xor", x.scan(axis, |a, b| a ^ b), |line| running(line, |v| v, |a, b| a ^ b));
        });
    }

    #[test]
    fn own_operators_in_order(shape in shapes(MOST), views in seeds(), seed in any::<u64>()) {
        on_each_backend(|device| {
            let Some(case) = Case::of(device, &u32::host(&shape, seed), &views, seed) else { return };
            let (x, axis) = (&case.x, case.given);
            case.check("affine", x.scan(axis, affine), |line| running(line, |v| v, naive_affine));
            case.check("left", x.scan(axis, |a, _| a.clone()), |line| running(line, |v| v, |a, _| a));
            case.check("right", x.scan(axis, |_, b| b.clone()), <[u32]>::to_vec);
        });
    }

    #[test]
    fn expressions(shape in shapes(MOST), views in seeds(), seed in any::<u64>()) {
        on_each_backend(|device| {
            let Some(case) = Case::of(device, &i32::host(&shape, seed), &views, seed) else { return };
            let axis = case.given;
            let first = case.host.shape[0];
            let shape: Vec<usize> = case.host.shape.iter().enumerate().map(|(at, _)| if at == 0 { first } else { 1 }).collect();
            let y = i32::host(&shape, seed ^ 9);
            let expr = &case.x ^ &array(device, &y.values, &y.shape[..]);
            let want = case.host.zip(&y, |x, y| x ^ y);
            let want = want.scan(case.axis, |line| running(line, |v| v, i32::wrapping_add));
            assert_same(&values(&expr.cumsum(axis).unwrap()), &want.values, &case.what("cumsum of an expression"));
        });
    }
}

/// Lengths around tiles, blocks of tiles and workgroups, as a line, as rows and as columns.
#[test]
fn lengths_around_every_edge() {
    let lengths = [
        1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 4095, 4096,
        4097, 16383, 16384, 16385, 32767, 32768, 32769, 49153, 65535, 65536, 65537, 999_983,
    ];
    on_each_backend(|device| {
        for n in lengths {
            let host = u32::host(&[n], n as u64).values;
            let x = line(device, &host);
            let sums = running(&host, |v| v, u32::wrapping_add);
            assert_same(&values(&x.cumsum(0).unwrap()), &sums, &format!("cumsum of {n}"));
            let want = running(&host, |v| v, naive_affine);
            assert_same(&values(&x.scan(0, affine).unwrap()), &want, &format!("affine maps of {n}"));
            if n < 70_000 {
                let both = u32::host(&[2, n], n as u64);
                let rows = array(device, &both.values, [2, n]);
                let want = both.scan(1, |line| running(line, |v| v, u32::wrapping_add));
                assert_same(&values(&rows.cumsum(1).unwrap()), &want.values, &format!("rows of {n}"));
                let turned = rows.transpose().copy().unwrap();
                let want = want.permute(&[1, 0]);
                assert_same(&values(&turned.cumsum(0).unwrap()), &want.values, &format!("columns of {n}"));
            }
        }
    });
}

/// The last running value is the total, bit for bit, on every backend.
#[test]
fn the_last_value_is_the_total() {
    where_order_is_kept("the last value is the total", |device| {
        for n in [1, 4, 5, 100, 4097, 16_400, 200_001] {
            let x = line(device, &f32::host(&[n], 77).values);
            let last = x.cumsum(0).unwrap().slice(s![-1]).unwrap();
            let total = x.sum(..).unwrap();
            assert_same(&values(&last), &values(&total), &format!("n = {n}"));
        }
    });
}
