//! Reductions of random views over random axes, every element type, against plain loops.

use kiln::prelude::*;
use kiln::{Axes, Element, Expr};
use proptest::prelude::*;

use crate::harness::{array, assert_close, assert_same, line, on_each_backend, values};
use crate::inputs::{Values, cases, seeds, shapes, viewed};
use crate::naive::{Host, maximum, minimum};
use crate::random::Rng;

const MOST: usize = 20_000;

/// A random view, the axes to reduce as a user gives them and counted from the front, and whether they stay.
struct Case<T> {
    x: Array<T>,
    host: Host<T>,
    axes: Axes,
    plain: Vec<usize>,
    keep: bool,
}

impl<T: Values> Case<T> {
    fn new(device: &Device, shape: &[usize], views: &[u64], seed: u64) -> Self {
        Self::of(device, &T::host(shape, seed), views, seed)
    }

    fn of(device: &Device, host: &Host<T>, views: &[u64], seed: u64) -> Self {
        let x = array(device, &host.values, &host.shape[..]);
        let (x, host) = viewed(&x, host, views, MOST);
        let mut rng = Rng(seed ^ 1);
        let rank = host.shape.len();
        let keep = rng.below(2) == 0;
        let (axes, plain) = if rng.below(4) == 0 {
            (Axes::from(..), (0..rank).collect())
        } else {
            let (given, plain) = rng.axes(rank);
            (Axes::from(given), plain)
        };
        let axes = if keep { kiln::keep(axes) } else { axes };
        Self { x, host, axes, plain, keep }
    }

    fn what(&self, op: &str) -> String {
        format!("{op} of {} with strides {:?} over {:?}", self.x.shape(), self.x.strides(), self.axes)
    }

    /// Asserts the values and the shape of a reduction.
    fn check<U: Element>(&self, op: &str, got: kiln::Result<Array<U>>, want: impl Fn(&[T]) -> U) {
        let what = self.what(op);
        let got = got.unwrap_or_else(|error| panic!("{what}: {error}"));
        let want = self.host.reduce(&self.plain, self.keep, want);
        assert_eq!(got.shape()[..], want.shape[..], "{what}");
        assert_same(&values(&got), &want.values, &what);
    }

    /// As [`check`](Self::check) for operations that have no value over no elements.
    fn check_filled<U: Element>(&self, op: &str, got: kiln::Result<Array<U>>, want: impl Fn(&[T]) -> U) {
        let (_, lines) = self.host.lines(&self.plain, self.keep);
        if lines.first().is_some_and(Vec::is_empty) {
            let error = got.expect_err("nothing to combine");
            let empty = matches!(error.kind(), kiln::ErrorKind::Empty { .. });
            assert!(empty, "{}: {error}", self.what(op));
        } else {
            self.check(op, got, want);
        }
    }
}

/// Operators that every integer type has.
macro_rules! check_integers {
    ($device:expr, $ty:ty, $shape:expr, $views:expr, $seed:expr) => {{
        let case = Case::<$ty>::new($device, $shape, $views, $seed);
        let (x, axes) = (&case.x, || case.axes.clone());
        let wide = |line: &[$ty]| line.iter().map(|&v| i128::from(v)).sum::<i128>();
        case.check("sum", x.sum(axes()), |line| wide(line) as $ty);
        case.check("prod", x.prod(axes()), |line| line.iter().fold(1, |total: $ty, &v| total.wrapping_mul(v)));
        case.check_filled("min", x.min(axes()), |line| line.iter().copied().min().unwrap());
        case.check_filled("max", x.max(axes()), |line| line.iter().copied().max().unwrap());
        let means = x.mean(axes()).unwrap();
        let want = case.host.reduce(&case.plain, case.keep, |line| wide(line) as f64 / line.len() as f64);
        // The sum is exact; a GPU's conversion and division may be off by three units in the last place.
        let ulp = |at: usize| 3.0 * want.values[at].abs() * f64::from(f32::EPSILON);
        assert_close(&values(&means), &want.values, ulp, &case.what("mean"));
    }};
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
            let case = Case::<f32>::new(device, &shape, &views, seed);
            let (x, axes) = (&case.x, || case.axes.clone());
            case.check_filled("min", x.min(axes()), |line| line.iter().copied().reduce(minimum).unwrap());
            case.check_filled("max", x.max(axes()), |line| line.iter().copied().reduce(maximum).unwrap());

            let exact = |line: &[f32]| line.iter().map(|&v| f64::from(v)).sum::<f64>();
            let size = |line: &[f32]| line.iter().map(|&v| f64::from(v).abs()).sum::<f64>();
            let steps = |line: &[f32]| (line.len().max(2) as f64).log2() + 3.0;
            let want = case.host.reduce(&case.plain, case.keep, exact);
            let bound = case.host.reduce(&case.plain, case.keep, |line| {
                size(line) * steps(line) * f64::from(f32::EPSILON) / 2.0
            });
            let sums = x.sum(axes()).unwrap();
            assert_eq!(sums.shape()[..], want.shape[..]);
            assert_close(&values(&sums), &want.values, |at| bound.values[at], &case.what("sum"));

            let count = case.host.reduce(&case.plain, case.keep, <[f32]>::len);
            let means: Vec<f64> = want.values.iter().zip(&count.values).map(|(s, &n)| s / n as f64).collect();
            let within = |at: usize| {
                bound.values[at] / count.values[at] as f64 + means[at].abs() * f64::from(f32::EPSILON) * 2.0
            };
            assert_close(&values(&x.mean(axes()).unwrap()), &means, within, &case.what("mean"));
        });
    }

    #[test]
    fn products_of_floats(shape in shapes(MOST), views in seeds(), seed in any::<u64>()) {
        // Signs and a few powers of two: every product is exact.
        let host = i32::host(&shape, seed).map(|v| match v & 127 {
            0 => 2.0f32,
            1 => 0.5,
            other if other % 2 == 0 => 1.0,
            _ => -1.0,
        });
        on_each_backend(|device| {
            let case = Case::of(device, &host, &views, seed);
            case.check("prod", case.x.prod(case.axes.clone()), |line| line.iter().product());
        });
    }

    #[test]
    fn truth_values(shape in shapes(MOST), views in seeds(), seed in any::<u64>()) {
        on_each_backend(|device| {
            let case = Case::<bool>::new(device, &shape, &views, seed);
            let (x, axes) = (&case.x, || case.axes.clone());
            let count = |line: &[bool]| line.iter().filter(|&&v| v).count();
            case.check("sum", x.sum(axes()), |line| count(line) as u32);
            case.check("prod", x.prod(axes()), |line| u32::from(count(line) == line.len()));
            case.check("any", x.any(axes()), |line| count(line) > 0);
            case.check("all", x.all(axes()), |line| count(line) == line.len());
            case.check_filled("min", x.min(axes()), |line| count(line) == line.len());
            case.check_filled("max", x.max(axes()), |line| count(line) > 0);
            let want = case.host.reduce(&case.plain, case.keep, |line| count(line) as f64 / line.len() as f64);
            let ulp = |at: usize| 3.0 * want.values[at] * f64::from(f32::EPSILON);
            assert_close(&values(&x.mean(axes()).unwrap()), &want.values, ulp, &case.what("mean"));
        });
    }

    #[test]
    fn own_operators_in_order(shape in shapes(MOST), views in seeds(), seed in any::<u64>()) {
        let host = u32::host(&shape, seed);
        on_each_backend(|device| {
            let case = Case::of(device, &host, &views, seed);
            let (x, axes) = (&case.x, || case.axes.clone());
            case.check_filled("affine", x.reduce(axes(), affine), |line| {
                line.iter().copied().reduce(naive_affine).unwrap()
            });
            case.check_filled("left", x.reduce(axes(), |a, _| a.clone()), |line| line[0]);
            case.check_filled("right", x.reduce(axes(), |_, b| b.clone()), |line| line[line.len() - 1]);
            // From an initial value, which enters once, on the left.
            let initial = 0x0003_0005u32;
            case.check("affine from", x.reduce_from(initial, axes(), affine), |line| {
                line.iter().copied().fold(initial, naive_affine)
            });
        });
    }

    #[test]
    fn expressions(shape in shapes(MOST), views in seeds(), seed in any::<u64>()) {
        // (x * 3 - y) % 1000 over broadcasting, reduced without an array in between.
        let host = i32::host(&shape, seed);
        on_each_backend(|device| {
            let case = Case::of(device, &host, &views, seed);
            let row: Vec<usize> = case.host.shape.last().copied().into_iter().collect();
            let y = i32::host(&row, seed ^ 7);
            let expr = (&case.x * 3 - &array(device, &y.values, row)) % 1000;
            let want = case.host.zip(&y, |x, y| x.wrapping_mul(3).wrapping_sub(y).wrapping_rem(1000));
            let got = expr.sum(case.axes.clone()).unwrap();
            let want = want.reduce(&case.plain, case.keep, |line| {
                line.iter().map(|&v| i128::from(v)).sum::<i128>() as i32
            });
            assert_eq!(got.shape()[..], want.shape[..]);
            assert_same(&values(&got), &want.values, &case.what("sum of an expression"));
        });
    }
}

/// Composition of affine maps `t -> m t + c` modulo 2^16, packed as `m << 16 | c`: associative, not commutative.
pub(crate) fn affine(a: &Expr<u32>, b: &Expr<u32>) -> Expr<u32> {
    let (ma, ca) = (a / 65536, a & 0xffff);
    let (mb, cb) = (b / 65536, b & 0xffff);
    ((ma * &mb) & 0xffff) * 65536 + ((ca * mb + cb) & 0xffff)
}

/// The same on the host.
pub(crate) fn naive_affine(a: u32, b: u32) -> u32 {
    let (ma, ca) = (a >> 16, a & 0xffff);
    let (mb, cb) = (b >> 16, b & 0xffff);
    (ma.wrapping_mul(mb) & 0xffff) << 16 | (ca.wrapping_mul(mb).wrapping_add(cb) & 0xffff)
}

#[test]
fn the_affine_operator_is_associative_and_not_commutative() {
    let mut rng = Rng(3);
    let [a, b, c] = [(); 3].map(|()| u32::draw(&mut rng));
    let left = naive_affine(naive_affine(a, b), c);
    assert_eq!(left, naive_affine(a, naive_affine(b, c)));
    assert_ne!(naive_affine(a, b), naive_affine(b, a));
}

/// Lengths around tiles, workgroups and the limits of a dispatch, each as a line, as rows and as columns.
#[test]
fn lengths_around_every_edge() {
    let lengths = [
        1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 4095, 4096,
        4097, 16383, 16384, 16385, 65534, 65535, 65536, 65537, 999_983,
    ];
    on_each_backend(|device| {
        for n in lengths {
            let host = u32::host(&[n], n as u64).values;
            let total = |line: &[u32]| line.iter().fold(0u32, |total, &v| total.wrapping_add(v));
            let x = line(device, &host);
            assert_eq!(x.sum(..).unwrap().item().unwrap(), total(&host), "n = {n}");
            let product = host.iter().copied().reduce(naive_affine).unwrap();
            assert_eq!(x.reduce(0, affine).unwrap().item().unwrap(), product, "n = {n}");
            if n < 70_000 {
                // Two rows and two columns.
                let both = u32::host(&[2 * n], n as u64).values;
                let rows = array(device, &both, [2, n]).sum(1).unwrap();
                let want: Vec<u32> = both.chunks(n).map(total).collect();
                assert_same(&values(&rows), &want, &format!("rows of {n}"));
                let columns = array(device, &both, [n, 2]).sum(0).unwrap();
                let want = [0, 1].map(|c| total(&both.iter().skip(c).step_by(2).copied().collect::<Vec<_>>()));
                assert_same(&values(&columns), &want, &format!("columns of {n}"));
            }
        }
    });
}

/// Shapes that break naive kernels: many lines, few lines, many axes, lengths of one.
#[test]
fn shapes_of_every_kind() {
    let shapes: [&[usize]; 14] = [
        &[3, 100_003],
        &[100_003, 3],
        &[1, 5000],
        &[5000, 1],
        &[512, 1000],
        &[33, 65],
        &[17, 19, 23, 29],
        &[2, 3, 2, 3, 2, 3],
        &[65_536, 2],
        &[2, 65_536],
        &[70_000, 3],
        &[1, 1, 1],
        &[4097, 31],
        &[],
    ];
    on_each_backend(|device| {
        for shape in shapes {
            let host = i32::host(shape, 5);
            let x = array(device, &host.values, shape);
            let mut sets: Vec<Vec<usize>> = (0..shape.len()).map(|axis| vec![axis]).collect();
            sets.push((0..shape.len()).collect());
            sets.push((0..shape.len()).step_by(2).collect());
            sets.push(Vec::new());
            for axes in sets {
                let given: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
                let got = x.sum(given).unwrap();
                let want = host.reduce(&axes, false, |line| line.iter().map(|&v| i128::from(v)).sum::<i128>() as i32);
                assert_eq!(got.shape()[..], want.shape[..]);
                assert_same(&values(&got), &want.values, &format!("{shape:?} over {axes:?}"));
            }
        }
    });
}

/// An axis that is broadcast counts as often as it is long.
#[test]
fn over_and_along_a_broadcast_axis() {
    on_each_backend(|device| {
        let x = line(device, &[1, 2, 3]).broadcast_to([5, 3]).unwrap();
        assert_eq!(values(&x.sum(0).unwrap()), [5, 10, 15]);
        assert_eq!(values(&x.sum(1).unwrap()), [6; 5]);
        assert_eq!(x.sum(..).unwrap().item().unwrap(), 30);
        let one = device.full(1.0f32, ()).unwrap();
        let many = one.broadcast_to(100_000_000).unwrap();
        assert_eq!(many.sum(..).unwrap().item().unwrap(), 1e8);
    });
}
