//! Questions that only running can answer: which rules of IEEE 754 does the device's compiler keep?
//!
//! Kernels compute floats as they are written: in the order of [`order`](crate::plan::order), each operation rounded. A
//! compiler may not: Metal's default is fast math, which lets it regroup, fuse and cancel, and flushes subnormals.

use crate::array::Array;
use crate::device::Device;
use crate::elementwise::ArrayOps;
use crate::error::Result;
use crate::expr::Expr;
use crate::plan::order;
use crate::reduce::Reduce;
use crate::scan::Scan;

/// Elements of the known data: several tiles of most schedules, and no multiple of anything.
const LENGTH: usize = 20_011;

/// Which rules of IEEE 754 a device keeps for `+`, `-` and `*` of `f32`, as [`Device::float_rules`] measures them.
///
/// Each is `true` where results have the bits of plain Rust, NaN counting as NaN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FloatRules {
    /// Sums and running sums are added up in the order of [`order`](crate::plan::order): nothing is regrouped.
    pub order: bool,
    /// `(x + y) - x` is computed, and not taken for `y`.
    pub cancellation: bool,
    /// `x * y + x * z` is computed as two products, and not as `x * (y + z)`.
    pub factoring: bool,
    /// A product is rounded before it is added to something: `x * y + z` is not fused.
    pub contraction: bool,
    /// Infinities, NaN and signed zeros are computed with: `x - x` is NaN for an infinite `x`.
    pub infinities: bool,
    /// Subnormals are neither read nor written as zero.
    pub subnormals: bool,
}

impl FloatRules {
    /// Whether all are kept: then `+`, `-` and `*` have the same bits as in plain Rust, in any expression.
    #[must_use]
    pub const fn all(self) -> bool {
        self.order && self.cancellation && self.factoring && self.contraction && self.infinities && self.subnormals
    }
}

/// A Weyl sequence, scaled so that magnitudes span ten binary orders.
fn known(first: u32) -> Vec<f32> {
    let value = |i: u32| {
        let bits = i.wrapping_mul(0x9e37_79b9);
        let magnitude = f32::from_bits((120 + bits % 10) << 23 | bits >> 9);
        if bits & 0x100 == 0 { magnitude } else { -magnitude }
    };
    (first..).take(LENGTH).map(value).collect()
}

/// Every triple of some values, as three columns.
fn triples(values: &[f32]) -> [Vec<f32>; 3] {
    let n = values.len();
    let column = |step: usize| (0..n * n * n).map(|i| values[i / step % n]).collect();
    [column(n * n), column(n), column(1)]
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// An expression of three columns, and the same in plain Rust.
type Form = (fn(&Array<f32>, &Array<f32>, &Array<f32>) -> Expr<f32>, fn(f32, f32, f32) -> f32);

const CANCELLATION: Form = (|x, y, _| (x + y) - x, |x, y, _| (x + y) - x);
const FACTORING: Form = (|x, y, z| x * y + x * z, |x, y, z| x * y + x * z);
const CONTRACTION: Form = (|x, y, z| (x - y) * z + x, |x, y, z| (x - y) * z + x);
const PRODUCT: Form = (|x, y, z| x * y + z, |x, y, z| x * y + z);
#[expect(clippy::eq_op, reason = "NaN for an infinity")]
const DIFFERENCE: Form = (|x, _, _| x - x, |x, _, _| x - x);

impl Device {
    /// Whether sums and running sums of floats have the bits that [`order`] defines, measured on
    /// known data whose sums differ in any other order. Waits for the device; nothing is remembered.
    ///
    /// It is `true` wherever the compiler does not regroup additions. Where it is `false`, results are as accurate as
    /// promised but their last bits are this device's own. [`float_rules`](Self::float_rules) asks for more.
    ///
    /// # Errors
    /// The device failed.
    pub fn keeps_float_order(&self) -> Result<bool> {
        let data = known(1);
        let mut add = |a: &f32, b: &f32| a + b;
        let line: Array<f32> = self.array(&data, LENGTH)?;
        let sum = line.sum(..)?.item()?;
        let running = line.cumsum(0)?.to_host()?.into_vec();
        let sums_agree = order::total(&data, &mut add).is_some_and(|want| same(sum, want));
        let want = order::running(&data, &mut add);
        Ok(sums_agree && running.iter().zip(want).all(|(&got, want)| same(got, want)))
    }

    /// Which rules of IEEE 754 this device keeps for floats, measured on known data whose results differ where one is
    /// broken. Waits for the device; nothing is remembered.
    ///
    /// # Errors
    /// The device failed.
    pub fn float_rules(&self) -> Result<FloatRules> {
        let plain = [known(1), known(30_001), known(60_001)];
        let special = triples(&[0.0, -0.0, 1.0, -1.5, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
        let tiny = triples(&[0.0, 1.0, -0.5, 1e-30, 1e-40, -1e-45, f32::MIN_POSITIVE, -1.5 * f32::MIN_POSITIVE]);
        let all = [CANCELLATION, FACTORING, CONTRACTION, PRODUCT, DIFFERENCE];
        Ok(FloatRules {
            order: self.keeps_float_order()?,
            cancellation: self.computes(&[CANCELLATION], &plain)?,
            factoring: self.computes(&[FACTORING], &plain)?,
            contraction: self.computes(&[CONTRACTION, PRODUCT], &plain)?,
            infinities: self.computes(&all, &special)?,
            subnormals: self.computes(&all, &tiny)?,
        })
    }

    /// Whether expressions of these columns have the bits of plain Rust.
    fn computes(&self, forms: &[Form], columns: &[Vec<f32>; 3]) -> Result<bool> {
        let [x, y, z] = columns;
        let array = |values: &[f32]| -> Result<Array<f32>> { self.array(values, values.len()) };
        let (a, b, c) = (array(x)?, array(y)?, array(z)?);
        for (ours, plain) in forms {
            let got = ours(&a, &b, &c).eval()?.to_host()?.into_vec();
            let want = x.iter().zip(y).zip(z).map(|((&x, &y), &z)| plain(x, y, z));
            if !got.iter().zip(want).all(|(&got, want)| same(got, want)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A probe whose data add up to the same in any order would answer yes everywhere.
    #[test]
    fn the_data_tell_orders_apart() {
        let data = known(1);
        let serial: f32 = data.iter().sum();
        let pairs: f32 = data.chunks(2).map(|pair| pair.iter().sum::<f32>()).sum();
        let tree = order::total(&data, &mut |a: &f32, b: &f32| a + b).unwrap();
        let bits = [tree, serial, pairs].map(f32::to_bits);
        assert!(bits[0] != bits[1] && bits[0] != bits[2] && bits[1] != bits[2], "{tree} {serial} {pairs}");
    }

    /// How many results a broken rule changes.
    fn changed(form: Form, broken: fn(f32, f32, f32) -> f32, columns: &[Vec<f32>; 3]) -> usize {
        let [x, y, z] = columns;
        let at = |i: &usize| !same(form.1(x[*i], y[*i], z[*i]), broken(x[*i], y[*i], z[*i]));
        (0..x.len()).filter(at).count()
    }

    /// Each answer would be no where its rule is broken.
    #[test]
    fn the_data_tell_broken_rules_apart() {
        let plain = [known(1), known(30_001), known(60_001)];
        assert!(changed(CANCELLATION, |_, y, _| y, &plain) > 1000);
        assert!(changed(FACTORING, |x, y, z| x * (y + z), &plain) > 1000);
        assert!(changed(FACTORING, |x, y, z| x.mul_add(y, x * z), &plain) > 100);
        assert!(changed(CONTRACTION, |x, y, z| (x - y).mul_add(z, x), &plain) > 1000);
        assert!(changed(PRODUCT, |x, y, z| x.mul_add(y, z), &plain) > 1000);
        let special = triples(&[1.0, f32::INFINITY, f32::NAN]);
        assert!(changed(DIFFERENCE, |_, _, _| 0.0, &special) >= 18);
        let flush = |x: f32| if x.is_subnormal() { 0.0 * x } else { x };
        let tiny = [1e-40, -1e-45, 1.5 * f32::MIN_POSITIVE, f32::MIN_POSITIVE];
        // Inputs alone, results alone.
        assert!(tiny.iter().any(|&x| !same(flush(x) + 0.0, x + 0.0)));
        assert!(!same(flush(tiny[2] - tiny[3]), tiny[2] - tiny[3]));
    }

    /// The values themselves stay clear of what other answers are about.
    #[test]
    fn plain_data_have_no_subnormal_results() {
        let [x, y, z] = [known(1), known(30_001), known(60_001)];
        for form in [CANCELLATION, FACTORING, CONTRACTION, PRODUCT] {
            let values = (0..LENGTH).map(|i| form.1(x[i], y[i], z[i]));
            assert!(values.into_iter().all(|v| v.is_finite() && !v.is_subnormal()));
        }
    }
}
