//! L10: floats that are what IEEE 754 says.

use kiln::{Array, ArrayOps, Device, Expr, FloatRules, Reduce, Scan, order};

use crate::harness::{assert_same, bits, line, on_each_backend, report, values};
use crate::random::Rng;

type OfThree = fn(&Array<f32>, &Array<f32>, &Array<f32>) -> Expr<f32>;

/// An expression of three arrays, and the same in plain Rust.
struct Form {
    text: &'static str,
    ours: OfThree,
    plain: fn(f32, f32, f32) -> f32,
    /// Whether a device that keeps these rules, subnormals apart, must have its bits.
    promised: fn(FloatRules) -> bool,
}

#[expect(clippy::eq_op, reason = "NaN for an infinity")]
const FORMS: [Form; 7] = [
    Form {
        text: "(x + y) - x",
        ours: |x, y, _| (x + y) - x,
        plain: |x, y, _| (x + y) - x,
        promised: |rules| rules.cancellation,
    },
    Form {
        text: "x*y + z",
        ours: |x, y, z| x * y + z,
        plain: |x, y, z| x * y + z,
        promised: |rules| rules.contraction,
    },
    Form {
        text: "x*y + x*z",
        ours: |x, y, z| x * y + x * z,
        plain: |x, y, z| x * y + x * z,
        promised: |rules| rules.contraction && rules.factoring,
    },
    Form {
        text: "(x - y)*z + x",
        ours: |x, y, z| (x - y) * z + x,
        plain: |x, y, z| (x - y) * z + x,
        promised: |rules| rules.contraction,
    },
    Form { text: "x - x", ours: |x, _, _| x - x, plain: |x, _, _| x - x, promised: |_| true },
    // The error term of a sum, by Knuth: what is rounded away by x + y.
    Form {
        text: "two-sum error",
        ours: |x, y, _| {
            let sum = x + y;
            let part = sum.clone() - x;
            (x - (sum - part.clone())) + (y - part)
        },
        plain: |x, y, _| {
            let sum = x + y;
            let part = sum - x;
            (x - (sum - part)) + (y - part)
        },
        promised: |rules| rules.cancellation,
    },
    Form {
        text: "-(x*y) - -z",
        ours: |x, y, z| -(x * y) - -z,
        plain: |x, y, z| -(x * y) - -z,
        promised: |rules| rules.contraction,
    },
];

const COUNT: usize = 1 << 20;

/// Random bits, ordinary numbers, and every triple of special values over and over.
fn triples() -> [Vec<f32>; 3] {
    const SPECIAL: [f32; 14] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        -f32::MIN_POSITIVE,
        1e-40,
        -1e-40,
        1e-45,
    ];
    let mut rng = Rng(10);
    let mut columns = [const { Vec::new() }; 3];
    for i in 0..COUNT {
        for (axis, column) in columns.iter_mut().enumerate() {
            let word = rng.next() as u32;
            column.push(match i % 4 {
                0 => f32::from_bits(word),
                1 | 2 => (word as i32) as f32 / (1u32 << 30) as f32,
                _ => SPECIAL[i / 4 / SPECIAL.len().pow(axis as u32) % SPECIAL.len()],
            });
        }
    }
    columns
}

/// Whether the device may do with floats what it likes: Metal's fast math, and what is not the host's strict build.
fn may_rewrite(device: &Device) -> bool {
    let info = device.info();
    info.backend == "metal" && !["strict", "checked"].iter().any(|build| info.name.contains(build))
}

#[test]
fn l10_floats_have_the_bits_of_plain_rust() {
    let [x, y, z] = triples();
    on_each_backend(|device| {
        let rules = device.float_rules().unwrap();
        let exact = rules.order && rules.cancellation && rules.factoring && rules.contraction;
        assert!(may_rewrite(device) || exact, "{}: {rules:?}", device.info());
        let (a, b, c) = (line(device, &x), line(device, &y), line(device, &z));
        for form in &FORMS {
            let got = values(&(form.ours)(&a, &b, &c).eval().unwrap());
            let want: Vec<f32> = (0..COUNT).map(|i| (form.plain)(x[i], y[i], z[i])).collect();
            let tiny = |i: &usize| {
                [x[*i], y[*i], z[*i], want[*i], x[*i] * y[*i], x[*i] * z[*i]].iter().any(|v| v.is_subnormal())
            };
            let differ = |i: &usize| bits(got[*i]) != bits(want[*i]);
            let (subnormal, other): (Vec<_>, Vec<_>) = (0..COUNT).filter(differ).partition(tiny);
            let digest =
                got.iter().fold(0u64, |sum, &v| sum.rotate_left(5).wrapping_mul(0x9e37_79b9) ^ u64::from(bits(v)));
            println!(
                "{:<14} {} other and {} subnormal bits differ, digest {digest:016x}, on {}",
                form.text,
                other.len(),
                subnormal.len(),
                device.info()
            );
            let shown = |at: &[usize]| at.first().map(|&i| (x[i], y[i], z[i], got[i], want[i]));
            if (form.promised)(rules) && rules.infinities {
                assert!(other.is_empty(), "{}: {} differ, first {:?}", form.text, other.len(), shown(&other));
            }
            if (form.promised)(rules) && rules.infinities && rules.subnormals {
                assert!(
                    subnormal.is_empty(),
                    "{}: {} differ, first {:?}",
                    form.text,
                    subnormal.len(),
                    shown(&subnormal)
                );
            }
        }
        if !rules.all() {
            report(&format!("not run: all of case L10 on {} (it keeps {rules:?})", device.info()));
        }
    });
}

#[test]
fn l10_infinities_and_nan_do_not_cancel() {
    on_each_backend(|device| {
        if !device.float_rules().unwrap().infinities {
            assert!(may_rewrite(device), "{}", device.info());
            return report(&format!("not run: case L10, infinities on {}", device.info()));
        }
        let x = line(device, &[1.0f32, 1.0, 1.0]);
        let y = line(device, &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
        assert_same(&values(&((&x + &y) - &y).eval().unwrap()), &[f32::NAN; 3], "(x + y) - y");
        assert_same(&values(&(&y - &y).eval().unwrap()), &[f32::NAN; 3], "y - y");
        assert!(((&y - &y) * 0.0).sum(..).unwrap().item().unwrap().is_nan());
    });
}

/// What a reduction's or a scan's kernel computes on the way has the same bits as what is stored first.
#[test]
fn l10_expressions_that_feed_sums_are_computed() {
    let [x, y, z] = triples();
    let ordinary: Vec<usize> = (0..COUNT).filter(|i| matches!(i % 4, 1 | 2)).collect();
    let pick = |column: &[f32]| -> Vec<f32> { ordinary.iter().map(|&i| column[i]).collect() };
    let [x, y, z] = [pick(&x), pick(&y), pick(&z)];
    on_each_backend(|device| {
        let rules = device.float_rules().unwrap();
        let (a, b, c) = (line(device, &x), line(device, &y), line(device, &z));
        for form in &FORMS {
            if !((form.promised)(rules) && rules.order) {
                assert!(may_rewrite(device), "{}", device.info());
                report(&format!("not run: case L10, sum of {} on {}", form.text, device.info()));
                continue;
            }
            let terms: Vec<f32> = (0..x.len()).map(|i| (form.plain)(x[i], y[i], z[i])).collect();
            let want = order::total(&terms, &mut |a: &f32, b: &f32| a + b).unwrap();
            let sum = (form.ours)(&a, &b, &c).sum(..).unwrap().item().unwrap();
            assert_eq!(bits(sum), bits(want), "{}: {sum} for {want}", form.text);
            let running = values(&(form.ours)(&a, &b, &c).cumsum(0).unwrap());
            assert_same(&running, &order::running(&terms, &mut |a: &f32, b: &f32| a + b), form.text);
        }
    });
}
