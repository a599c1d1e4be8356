//! What Rust's library has not: tanh within its bound, and quotients of integers rounded once.
//!
//! Each is the twin of a chunk of `shaders/wgsl/math.wgsl` or `scalar.wgsl`, which says how it works.

/// The hyperbolic tangent, at most 2 units in the last place from the exact value. `f32::tanh` of C libraries errs by
/// more.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    let t = if magnitude > 10.0 { 10.0 } else { magnitude };
    let z = t * t;
    let mut p = 0.002_152_684_f32;
    p = p * z - 0.008_190_013_5;
    p = p * z + 0.021_706_894;
    p = p * z - 0.053_948_18;
    p = p * z + 0.133_332_21;
    p = p * z - 0.333_333_3;
    let low = t + (t * z) * p;
    let high = 1.0 - 2.0 / (exp_to_20(t + t) + 1.0);
    let result = if magnitude < 0.625 { low } else { high };
    let result = if magnitude < 1.0 / 4096.0 { magnitude } else { result };
    let result = if x.is_nan() { x } else { result };
    result.copysign(x)
}

/// e to the power x, for x from 0 to 20.
#[inline(always)]
#[expect(clippy::approx_constant, reason = "the constants of the device's text")]
fn exp_to_20(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it leaves no fraction
    let shifted = x * 1.442_695 + ROUND;
    let k = shifted - ROUND;
    let r = (x - k * 0.693_359_4) + k * 2.121_944_4e-4;
    let mut p = 0.001_384_039_1_f32;
    p = p * r + 0.008_369_349;
    p = p * r + 0.041_668_083;
    p = p * r + 0.166_665_15;
    p = p * r + 0.499_999_94;
    p = 1.0 + (r + (r * r) * p);
    // The low bits of `shifted` are those of k.
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// The first 32 bits after the point of a / b, cut off; for a < b, and 0 for b = 0.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low word")]
pub(crate) fn fraction(a: u32, b: u32) -> u32 {
    (u64::from(a) << 32).checked_div(u64::from(b)).unwrap_or(0) as u32
}

/// The bits of the float nearest to the integer high:low.
#[inline(always)]
pub(crate) fn float_bits(high: u32, low: u32) -> u32 {
    ((u64::from(high) << 32 | u64::from(low)) as f32).to_bits()
}

/// The bits of the float nearest to the float with bits `a`, divided by the integer `b`; for b = 0 those of `a`.
#[expect(clippy::cast_possible_truncation, reason = "words of a product of words")]
pub(crate) fn quotient_bits(a: u32, b: u32) -> u32 {
    let magnitude = a & 0x7fff_ffff;
    if magnitude >= 0x7f80_0000 || magnitude == 0 || b == 0 {
        return a;
    }
    // a = m * 2^(exponent - 158) with the leading bit of m at bit 31; b = n / 2^shift likewise.
    let (exponent, m) = if magnitude < 0x0080_0000 {
        let zeros = magnitude.leading_zeros();
        (9 - zeros.cast_signed(), magnitude << zeros)
    } else {
        ((magnitude >> 23).cast_signed(), (magnitude << 8) | 0x8000_0000)
    };
    let shift = b.leading_zeros();
    let n = u64::from(b << shift);
    let less = u64::from(m) < n;
    // 31 or 32 bits after the leading one, the rest in one sticky bit.
    let numerator = u64::from(m) << if less { 32 } else { 31 };
    let quotient = (numerator / n) as u32 | u32::from(numerator % n != 0);
    let exponent = exponent + shift.cast_signed() - 31 - i32::from(less);
    // Bits to drop: 8, more below the smallest normal number; what nothing is left of is less than half a unit.
    let drop = if exponent < 1 { (9 - exponent).min(33) } else { 8 }.cast_unsigned();
    let wide = u64::from(quotient);
    let kept = (wide >> drop) as u32;
    let rest = wide & ((1 << drop) - 1);
    let half = 1u64 << (drop - 1);
    let up = u32::from(rest > half || (rest == half && kept & 1 == 1));
    // The leading bit, where it is kept, adds one to the exponent; rounding up may carry into it.
    let biased = if exponent < 1 { 0 } else { exponent.cast_unsigned() - 1 };
    (a & 0x8000_0000) | ((biased << 23) + kept + up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_long_division() {
        assert_eq!(fraction(1, 2), 1 << 31);
        assert_eq!(fraction(1, 3), 0x5555_5555);
        assert_eq!(fraction(u32::MAX - 1, u32::MAX), u32::MAX - 1);
        assert_eq!(fraction(0, 7), 0);
    }

    #[test]
    fn floats_of_two_words_round_to_even() {
        let same = |high, low, want: f32| assert_eq!(float_bits(high, low), want.to_bits(), "{high:#x} {low:#x}");
        same(0, 0, 0.0);
        same(0, 16_777_217, 16_777_216.0);
        same(0, 16_777_219, 16_777_220.0);
        same(0x0100_0001, 0, 16_777_216.0 * 4_294_967_296.0);
        same(0x0100_0001, 1, 16_777_218.0 * 4_294_967_296.0);
        same(u32::MAX, u32::MAX, 18_446_744_073_709_551_616.0);
    }

    /// Divisors that floats hold: Rust's own quotient is the rounded one.
    #[test]
    fn quotients_by_small_integers_are_those_of_floats() {
        let mut word = 1u32;
        for step in 0..2_000_000u32 {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let a = if step % 4 == 0 { word & 0x80ff_ffff } else { word };
            let b = (step.wrapping_mul(2_654_435_761) >> (step % 32) & 0x00ff_ffff).max(1);
            let want = f32::from_bits(a) / b as f32;
            let got = f32::from_bits(quotient_bits(a, b));
            let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
            assert!(same, "{:?} / {b} is {got:?} for {want:?}", f32::from_bits(a));
        }
    }

    /// Divisors that no float holds: of three neighbouring floats the one nearest to the quotient, by integers.
    #[test]
    fn quotients_by_large_integers_are_nearest() {
        let whole = |bits: u32| i128::from(bits & 0x007f_ffff | 0x0080_0000) << ((bits >> 23) - 150);
        let mut word = 7u32;
        for step in 0..200_000u32 {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let a = (word >> 9) | 0x5f00_0000; // from 2^63 to 2^64
            let b = word.rotate_left(13) ^ step | 0x8000_0001;
            let off = |bits: u32| (whole(bits) * i128::from(b) - whole(a)).abs();
            let got = quotient_bits(a, b);
            assert!(off(got) <= off(got - 1) && off(got) <= off(got + 1), "{a:#x} / {b}");
        }
    }

    #[test]
    fn tanh_keeps_signs_and_specials() {
        let same = |x: f32, want: f32| assert_eq!(tanh(x).to_bits(), want.to_bits(), "{x}");
        for x in [0.0, -0.0, 1e-40, -1e-40, f32::MIN_POSITIVE] {
            same(x, x);
        }
        for x in [10.0, 11.0, f32::MAX, f32::INFINITY] {
            same(x, 1.0);
            same(-x, -1.0);
        }
        assert!(tanh(f32::NAN).is_nan());
        assert_eq!(exp_to_20(0.0).to_bits(), 1f32.to_bits());
        assert!((f64::from(exp_to_20(20.0)) / 20f64.exp() - 1.0).abs() < 1.2e-7);
    }
}
