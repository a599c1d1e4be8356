//! L05, L11: means that are rounded once, functions within their bounds.

use kiln::{Array, ArrayOps, Device, Expr, Reduce, order};

use crate::harness::{assert_same, bits, line, on_each_backend, values};
use crate::random::Rng;

/// The float nearest to a / b, for whole numbers: f64 has 53 bits, so the search decides among three floats exactly.
fn nearest(a: i128, b: i128) -> f32 {
    // a / b against a float, which is a whole number of 2^-40 here: the differences are exact in 128 bits.
    let off = |f: f32| ((f64::from(f) * 2f64.powi(40)) as i128 * b - (a << 40)).abs();
    let guess = (a as f64 / b as f64) as f32;
    let mut best = guess;
    for other in [guess.next_down(), guess.next_up()] {
        let (was, is) = (off(best), off(other));
        if is < was || (is == was && other.to_bits() % 2 == 0) {
            best = other;
        }
    }
    best
}

#[test]
fn l05_means_are_rounded_once() {
    on_each_backend(|device| {
        let mean = |value: i32, count: usize| {
            let one = device.full(value, ()).unwrap();
            one.broadcast_to([count]).unwrap().mean(..).unwrap().item().unwrap()
        };
        assert_eq!(mean(16_777_213, 4097), 16_777_213.0);
        assert_eq!(mean(7, 16_777_217), 7.0);
        assert_eq!(mean(-7, 16_777_217), -7.0);
        let mut host = vec![1.0f32; (1 << 24) - 1];
        host.extend([0.0, 0.0]);
        assert_eq!(line(device, &host).mean(..).unwrap().item().unwrap(), 0.999_999_9);
    });
}

#[test]
fn l05_means_of_integers_are_the_nearest_floats() {
    on_each_backend(|device| {
        let mut rng = Rng(5);
        // Lines of equal length, random bits with fewer and fewer of them, some close to zero in sum.
        for length in [1usize, 2, 3, 7, 10, 1000, 4097] {
            let lines = 300;
            let mut x: Vec<i32> = (0..lines * length).map(|at| (rng.next() as i32) >> (at / length % 32)).collect();
            for line in x.chunks_exact_mut(length).step_by(3) {
                // The sum of these lines is ±1, 0 or small.
                let (last, rest) = line.split_last_mut().unwrap();
                rest.iter_mut().for_each(|v| *v >>= 14);
                *last = (rng.below(5) as i32 - 2).wrapping_sub(rest.iter().sum());
            }
            let array = device.array(&x, [lines, length]).unwrap();
            let want: Vec<f32> = x
                .chunks_exact(length)
                .map(|line| nearest(line.iter().map(|&v| i128::from(v)).sum(), length as i128))
                .collect();
            assert_same(&values(&array.mean(1).unwrap()), &want, &format!("i32, {length}"));
            let want: Vec<f32> = x
                .chunks_exact(length)
                .map(|line| nearest(line.iter().map(|&v| i128::from(v.cast_unsigned())).sum(), length as i128))
                .collect();
            assert_same(&values(&array.cast::<u32>().mean(1).unwrap()), &want, &format!("u32, {length}"));
            let want: Vec<f32> = x
                .chunks_exact(length)
                .map(|line| nearest(line.iter().map(|&v| i128::from(v > 3)).sum(), length as i128))
                .collect();
            assert_same(&values(&array.gt(3).mean(1).unwrap()), &want, &format!("bool, {length}"));
        }
    });
}

/// The total is the sum's; its quotient is the nearest float. Divisors that floats hold, so that Rust's own is it.
#[test]
fn l05_means_of_floats_are_the_nearest_floats() {
    on_each_backend(|device| {
        let rules = device.float_rules().unwrap();
        let plain = rules.order && rules.infinities;
        let mut rng = Rng(6);
        for length in [1usize, 2, 3, 7, 10, 49, 1000] {
            let lines = 1000;
            let x: Vec<f32> = (0..lines * length)
                .map(|at| {
                    let word = rng.next() as u32;
                    match at / length % 4 {
                        // Totals are exact where sums may be regrouped.
                        _ if !plain => (word >> 18) as f32 - 8000.0,
                        0 => f32::from_bits(word),
                        // Small exponents: quotients that are subnormal, or just not.
                        1 => f32::from_bits(word & 0x81ff_ffff),
                        _ => (word as i32) as f32,
                    }
                })
                .collect();
            let array = device.array(&x, [lines, length]).unwrap();
            let got = values(&array.mean(1).unwrap());
            for (line, got) in x.chunks_exact(length).zip(got) {
                let total = order::total(line, &mut |a: &f32, b: &f32| a + b).unwrap();
                let want = total / length as f32;
                let flushed = !rules.subnormals && line.iter().chain([&total]).any(|v| v.is_subnormal());
                assert!(flushed || bits(got) == bits(want), "{length}: {got:e} for {want:e}");
            }
        }
    });
}

/// The worst error in units of the last place over `inputs`, by double precision.
fn worst(device: &Device, inputs: &[f32], ours: fn(&Array<f32>) -> Expr<f32>, exact: fn(f64) -> f64) -> (f64, f32) {
    let got = values(&ours(&line(device, inputs)).eval().unwrap());
    let mut worst = (0.0, 0.0);
    for (&x, got) in inputs.iter().zip(got) {
        let want = exact(f64::from(x));
        let rounded = want as f32;
        if rounded.is_nan() || rounded.is_infinite() {
            assert!(bits(got) == bits(rounded), "f({x:e}) is {got:e} for {rounded:e}");
            continue;
        }
        if rounded.abs() < f32::MIN_POSITIVE {
            // Devices may flush subnormals.
            assert!(got.abs() <= f32::MIN_POSITIVE, "f({x:e}) is {got:e} for {rounded:e}");
            continue;
        }
        let unit = f64::from(rounded.abs().next_up()) - f64::from(rounded.abs());
        let error = (f64::from(got) - want).abs() / unit;
        assert!(error.is_finite(), "f({x:e}) is {got:e} for {rounded:e}");
        if error > worst.0 {
            worst = (error, x);
        }
    }
    worst
}

#[test]
fn l11_tanh_keeps_its_bound() {
    let low = 0.05f32.to_bits();
    let high = 1.2f32.to_bits();
    let mut inputs: Vec<f32> = (low..high).step_by(29).map(f32::from_bits).collect();
    inputs.push(f32::from_bits(0x3e6e_e50c));
    on_each_backend(|device| {
        let (error, at) = worst(device, &inputs, |x| x.tanh(), f64::tanh);
        assert!(error <= 2.0, "{error} ulp at {at:e} on {}", device.info());
    });
}

/// Every function over all floats with `KILN_TEST_LONG`, else over one in 4,099.
#[test]
fn l11_every_float() {
    struct Function {
        name: &'static str,
        ours: fn(&Array<f32>) -> Expr<f32>,
        exact: fn(f64) -> f64,
        bound: f64,
    }
    let functions = [
        Function { name: "exp", ours: |x| x.exp(), exact: f64::exp, bound: 2.0 },
        Function { name: "ln", ours: |x| x.ln(), exact: f64::ln, bound: 2.0 },
        Function { name: "sin", ours: |x| x.sin(), exact: f64::sin, bound: 2.0 },
        Function { name: "cos", ours: |x| x.cos(), exact: f64::cos, bound: 2.0 },
        Function { name: "tanh", ours: |x| x.tanh(), exact: f64::tanh, bound: 2.0 },
        Function { name: "sqrt", ours: |x| x.sqrt(), exact: f64::sqrt, bound: 3.0 },
    ];
    let step = if std::env::var_os("KILN_TEST_LONG").is_some() { 1 } else { 4099 };
    on_each_backend(|device| {
        let all: Vec<u64> = (0..1u64 << 32).step_by(1 << 24).collect();
        let mut errors = [(0.0, 0.0); 6];
        for pieces in all.chunks(if step == 1 { 1 } else { all.len() }) {
            let inputs: Vec<f32> = pieces
                .iter()
                .flat_map(|&piece| (piece..piece + (1 << 24)).step_by(step))
                .map(|word| f32::from_bits(word as u32))
                .collect();
            for (function, error) in functions.iter().zip(&mut errors) {
                let found = worst(device, &inputs, function.ours, function.exact);
                if found.0 > error.0 {
                    *error = found;
                }
            }
        }
        for (function, (error, at)) in functions.iter().zip(errors) {
            println!("{}: {error:.3} ulp, at {at:e}, on {}", function.name, device.info());
            assert!(error <= function.bound, "{}: {error} ulp at {at:e} on {}", function.name, device.info());
        }
    });
}
