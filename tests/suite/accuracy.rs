//! Errors in units of the last place: sums against double precision, functions against their exact values.

use kiln::prelude::*;

use crate::harness::{line, on_each_backend, values};
use crate::inputs::Values;
use crate::random::Rng;

/// The distance between neighbouring `f32` around a value.
fn ulp(value: f64) -> f64 {
    let magnitude = (value.abs() as f32).max(f32::MIN_POSITIVE);
    f64::from(magnitude.next_up()) - f64::from(magnitude)
}

/// Asserts that a function errs by at most `most` ulp; NaN and infinities must be right.
fn check(device: &Device, name: &str, x: &[f32], got: fn(&Array<f32>) -> Expr<f32>, want: fn(f64) -> f64, most: f64) {
    let got = values(&got(&line(device, x)).eval().unwrap());
    let mut worst = (0.0, 0.0);
    for (&x, got) in x.iter().zip(got) {
        let want = want(f64::from(x));
        let rounded = want as f32;
        if !rounded.is_finite() {
            let same = got.to_bits() == rounded.to_bits() || (got.is_nan() && rounded.is_nan());
            assert!(same, "{name}({x:?}) is {got:?}, not {rounded:?}");
        } else if rounded.is_subnormal() {
            assert!(got.abs() <= f32::MIN_POSITIVE, "{name}({x:?}) is {got:?}");
        } else {
            let error = (f64::from(got) - want).abs() / ulp(want);
            assert!(error.is_finite(), "{name}({x:?}) is {got:?}, not {want:?}");
            if error > worst.0 {
                worst = (error, x);
            }
        }
    }
    assert!(worst.0 <= most, "{name} errs by {:.2} ulp at {:?}", worst.0, worst.1);
}

/// Numbers of either sign with exponents between two.
fn spread(seed: u64, low: i32, high: i32) -> Vec<f32> {
    let mut rng = Rng(seed);
    let count = 8192;
    (0..count)
        .map(|_| {
            let bits = rng.next();
            let exponent = low + rng.below((high - low) as usize) as i32;
            f32::from_bits((bits as u32 & 0x807f_ffff) | (((exponent + 127) as u32) << 23))
        })
        .collect()
}

const SPECIAL: [f32; 8] = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX];

#[test]
fn exp_and_ln() {
    on_each_backend(|device| {
        let mut x = spread(1, -20, 7);
        x.extend(SPECIAL);
        x.extend([88.72, 88.73, -87.3, -87.4, -103.9, -104.0, 200.0, -200.0]);
        check(device, "exp", &x, |x| x.exp(), f64::exp, 2.0);
        let mut x = spread(2, -126, 127);
        x.iter_mut().for_each(|v| *v = v.abs());
        x.extend((0..4096).map(|i| 0.9 + i as f32 * 0.2 / 4096.0));
        x.extend(SPECIAL);
        check(device, "ln", &x, |x| x.ln(), f64::ln, 2.0);
    });
}

#[test]
fn sin_and_cos() {
    on_each_backend(|device| {
        for (low, high) in [(-20, 2), (2, 10), (10, 127)] {
            let mut x = spread(3, low, high);
            x.extend(SPECIAL);
            check(device, "sin", &x, |x| x.sin(), f64::sin, 2.0);
            check(device, "cos", &x, |x| x.cos(), f64::cos, 2.0);
        }
        // Around the zeros.
        let x: Vec<f32> = (-2000..2000).map(|i| (f64::from(i) * std::f64::consts::FRAC_PI_2) as f32).collect();
        check(device, "sin", &x, |x| x.sin(), f64::sin, 2.0);
        check(device, "cos", &x, |x| x.cos(), f64::cos, 2.0);
    });
}

#[test]
fn tanh_and_sqrt() {
    on_each_backend(|device| {
        let mut x = spread(4, -20, 6);
        x.extend((0..4096).map(|i| 0.5 + i as f32 / 8192.0));
        x.extend(SPECIAL);
        check(device, "tanh", &x, |x| x.tanh(), f64::tanh, 2.0);
        let mut x = spread(5, -120, 120);
        x.extend(SPECIAL);
        check(device, "sqrt", &x, |x| x.sqrt(), f64::sqrt, 3.0);
    });
}

/// Sums err by a few ulp times log2 of the length, of the sum of magnitudes.
#[test]
fn sums_of_every_kind() {
    let n = 200_000;
    let uniform = |seed: u64| {
        let mut rng = Rng(seed);
        move |_| rng.below(1 << 24) as f32 / 16_777_216.0
    };
    let kinds: [(&str, Vec<f32>); 7] = [
        ("random", f32::host(&[n], 8).values),
        ("uniform", (0..n).map(uniform(9)).collect()),
        ("alternating", (0..n).map(|i| if i % 2 == 0 { 1e6 } else { -1e6 } + i as f32 * 0.01).collect()),
        ("ramp up", (0..n).map(|i| i as f32).collect()),
        ("ramp down", (0..n).rev().map(|i| i as f32).collect()),
        ("small after large", (0..n).map(|i| if i == 0 { 16_777_216.0 } else { 1.0 }).collect()),
        ("offset", (0..n).map(uniform(10)).map(|v| 1e4 + v).collect()),
    ];
    on_each_backend(|device| {
        for (kind, host) in &kinds {
            let exact: f64 = host.iter().map(|&v| f64::from(v)).sum();
            let size: f64 = host.iter().map(|&v| f64::from(v.abs())).sum();
            let most = size * f64::from(f32::EPSILON) / 2.0 * (n as f64).log2();
            let x = line(device, host);
            let sum = f64::from(x.sum(..).unwrap().item().unwrap());
            assert!((sum - exact).abs() <= most, "{kind}: {sum} for {exact} within {most}");
            let mean = f64::from(x.mean(..).unwrap().item().unwrap());
            let within = most / n as f64 + 0.5 * ulp(exact / n as f64);
            assert!((mean - exact / n as f64).abs() <= within, "{kind}: the mean is {mean}");
            let mut running = 0.0;
            let mut magnitude = 0.0;
            for (at, (&v, got)) in host.iter().zip(values(&x.cumsum(0).unwrap())).enumerate() {
                running += f64::from(v);
                magnitude += f64::from(v.abs());
                let steps = ((at + 2) as f64).log2() + 2.0;
                let most = magnitude * f64::from(f32::EPSILON) / 2.0 * steps;
                assert!((f64::from(got) - running).abs() <= most, "{kind}: running sum at {at} is {got} for {running}");
            }
        }
    });
}

/// A hundred million ones sum to a hundred million, as do their means and products to one.
#[test]
fn a_hundred_million_ones() {
    on_each_backend(|device| {
        let ones = device.full(1.0f32, ()).unwrap();
        let ones = ones.broadcast_to([100, 1_000_000]).unwrap();
        assert_eq!(ones.sum(..).unwrap().item().unwrap(), 1e8);
        assert_eq!(ones.mean(..).unwrap().item().unwrap(), 1.0);
        assert_eq!(values(&ones.sum(1).unwrap()), [1e6; 100]);
    });
}

/// Means of integers are right where 32-bit sums overflow.
#[test]
fn means_of_large_integers() {
    on_each_backend(|device| {
        let close = |got: f32, want: f64| assert_eq!(got, want as f32);
        let many = |v: i32| line(device, &[v; 5000]).mean(..).unwrap().item().unwrap();
        close(many(i32::MAX), f64::from(i32::MAX));
        close(many(i32::MIN), f64::from(i32::MIN));
        close(many(-7), -7.0);
        let most = line(device, &[u32::MAX; 5000]).mean(..).unwrap();
        close(most.item().unwrap(), f64::from(u32::MAX));
        let mixed = line(device, &[i32::MIN, i32::MAX, -1, 3, 1]);
        let want = f64::from(2) / 5.0;
        close(mixed.mean(..).unwrap().item().unwrap(), want);
    });
}
