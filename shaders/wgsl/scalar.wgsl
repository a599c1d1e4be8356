// Scalar functions that WGSL leaves undefined, unguarded or to fast math. A kernel gets the chunks it calls.
// NaN, infinity and the sign of zero are told by bits, since compilers may assume that they do not occur.

//# name: kiln_ordered
// Whether neither operand is NaN.
fn kiln_ordered(a: f32, b: f32) -> bool {
    return max(bitcast<u32>(a) & 0x7fffffffu, bitcast<u32>(b) & 0x7fffffffu) <= 0x7f800000u;
}

//# name: kiln_key
// Bits of a number that order as integers: -inf < … < -0 < +0 < … < +inf.
fn kiln_key(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    return bits ^ select(0x80000000u, 0xffffffffu, bits >= 0x80000000u);
}

//# name: kiln_min_key_f32 needs: kiln_is_nan_f32 kiln_key
fn kiln_min_key_f32(x: f32) -> u32 {
    return select(kiln_key(x), 0u, kiln_is_nan_f32(x));
}

//# name: kiln_max_key_f32 needs: kiln_is_nan_f32 kiln_key
fn kiln_max_key_f32(x: f32) -> u32 {
    return select(kiln_key(x), 0xffffffffu, kiln_is_nan_f32(x));
}

//# name: kiln_from_key_f32
// The least and the greatest key are NaN by themselves.
fn kiln_from_key_f32(key: u32) -> f32 {
    return bitcast<f32>(key ^ select(0xffffffffu, 0x80000000u, key >= 0x80000000u));
}

//# name: kiln_min_f32 needs: kiln_is_nan_f32 kiln_key
fn kiln_min_f32(a: f32, b: f32) -> f32 {
    let take_a = kiln_is_nan_f32(a) || (!kiln_is_nan_f32(b) && kiln_key(a) <= kiln_key(b));
    return bitcast<f32>(select(bitcast<u32>(b), bitcast<u32>(a), take_a));
}

//# name: kiln_max_f32 needs: kiln_is_nan_f32 kiln_key
fn kiln_max_f32(a: f32, b: f32) -> f32 {
    let take_a = kiln_is_nan_f32(a) || (!kiln_is_nan_f32(b) && kiln_key(a) >= kiln_key(b));
    return bitcast<f32>(select(bitcast<u32>(b), bitcast<u32>(a), take_a));
}

//# name: kiln_div_i32
// x / 0 = x, MIN / -1 = MIN.
fn kiln_div_i32(a: i32, b: i32) -> i32 {
    let least = bitcast<u32>(a) == 0x80000000u;
    return a / select(b, 1, b == 0 || (least && b == -1));
}

//# name: kiln_rem_i32
// x % 0 = 0, MIN % -1 = 0. By division, since some drivers take negative operands of % for unsigned.
fn kiln_rem_i32(a: i32, b: i32) -> i32 {
    let least = bitcast<u32>(a) == 0x80000000u;
    let divisor = select(b, 1, b == 0 || (least && b == -1));
    return a - (a / divisor) * divisor;
}

//# name: kiln_div_u32
// x / 0 = x.
fn kiln_div_u32(a: u32, b: u32) -> u32 {
    return a / select(b, 1u, b == 0u);
}

//# name: kiln_rem_u32
// x % 0 = 0.
fn kiln_rem_u32(a: u32, b: u32) -> u32 {
    return a % select(b, 1u, b == 0u);
}

//# name: kiln_sqrt_f32
// The root, of zeros and +inf themselves, of other negative numbers NaN. Fast math may compute x * (1 / sqrt(x)), which is
// NaN for zero and infinity, so the built-in sees neither; subnormals, which may count as zero, come as the integers that
// they are: x = b * 2^-149.
fn kiln_sqrt_f32(x: f32) -> f32 {
    let b = bitcast<u32>(x);
    let tiny = b - 1u < 0x007fffffu;
    let special = b - 1u >= 0x7f7fffffu;
    let plain = select(b, bitcast<u32>(0.5 * f32(b)), tiny);
    let root = bitcast<u32>(sqrt(bitcast<f32>(select(plain, 0x3f800000u, special))) * select(1.0, 5.293955920339377e-23, tiny));
    let hide = root & (root << 1u) & 0x40000000u; // 0: root < 2^65
    let itself = (b << 1u) == 0u || b == 0x7f800000u;
    return bitcast<f32>(select(root, select(b | 0x7fc00000u, b, itself) ^ hide, special));
}

//# name: kiln_rem_f32
// The exact remainder with the dividend's sign, C's fmod, by long division of the significands.
// x % 0, inf % y and NaN are NaN; x % inf = x. At most 277 steps.
fn kiln_rem_f32(a: f32, b: f32) -> f32 {
    let sign = bitcast<u32>(a) & 0x80000000u;
    let x = bitcast<u32>(a) & 0x7fffffffu;
    let y = bitcast<u32>(b) & 0x7fffffffu;
    if (y == 0u || x >= 0x7f800000u || y > 0x7f800000u) {
        return bitcast<f32>(max(x, y) | 0x7fc00000u);
    }
    if (x < y) {
        return a;
    }
    // Significands with their leading bit at bit 23, so that the rest is below twice the divisor, and their exponents:
    // from 1, for subnormals below.
    var rest = (x & 0x7fffffu) | select(0x800000u, 0u, x < 0x800000u);
    var divisor = (y & 0x7fffffu) | select(0x800000u, 0u, y < 0x800000u);
    let x_zeros = countLeadingZeros(rest) - 8u;
    let y_zeros = countLeadingZeros(divisor) - 8u;
    var x_exponent = i32(max(x >> 23u, 1u)) - i32(x_zeros);
    let y_exponent = i32(max(y >> 23u, 1u)) - i32(y_zeros);
    rest = rest << x_zeros;
    divisor = divisor << y_zeros;
    for (var step = 0u; step < 280u; step++) {
        if (rest >= divisor) {
            rest -= divisor;
        }
        if (x_exponent == y_exponent || rest == 0u) {
            break;
        }
        rest = rest << 1u;
        x_exponent -= 1;
    }
    if (rest == 0u) {
        return bitcast<f32>(sign);
    }
    // Back to a float: move the leading bit to bit 23, or as far as the smallest exponent allows. Where that is to the
    // right, the bits that fall off are 0: a remainder is a multiple of the smallest float.
    let shift = min(i32(countLeadingZeros(rest)) - 8, x_exponent - 1);
    rest = (rest << u32(max(shift, 0))) >> u32(max(-shift, 0));
    let exponent = u32(x_exponent - shift);
    return bitcast<f32>(sign | select(rest, (rest & 0x7fffffu) | (exponent << 23u), rest >= 0x800000u));
}

//# name: kiln_i32_from_f32 needs: kiln_is_nan_f32
// Truncates and saturates; NaN gives 0.
fn kiln_i32_from_f32(x: f32) -> i32 {
    if (kiln_is_nan_f32(x)) {
        return 0;
    }
    if (x >= 2147483648.0) {
        return 2147483647;
    }
    if (x <= -2147483648.0) {
        return -2147483647 - 1;
    }
    return i32(x);
}

//# name: kiln_u32_from_f32 needs: kiln_is_nan_f32
// Truncates and saturates; NaN gives 0.
fn kiln_u32_from_f32(x: f32) -> u32 {
    if (kiln_is_nan_f32(x) || x <= 0.0) {
        return 0u;
    }
    if (x >= 4294967296.0) {
        return 4294967295u;
    }
    return u32(x);
}

//# name: kiln_fraction_u32
// The first 32 bits after the point of a / b, cut off; for a < b, and 0 for b = 0. Two digits of 16 bits by schoolbook
// division, each estimated from the divisor's high half and at most two too large (Knuth, 4.3.1, algorithm D).
fn kiln_fraction_u32(a: u32, b: u32) -> u32 {
    let shift = countLeadingZeros(b) & 31u;
    let divisor = select(b, 1u, b == 0u) << shift;
    let high = max(divisor >> 16u, 1u);
    let low = divisor & 0xffffu;
    var rest = select(a, 0u, b == 0u) << shift;
    var result = 0u;
    for (var digit = 0u; digit < 2u; digit++) {
        var q = rest / high;
        var r = rest - q * high;
        for (var step = 0u; step < 2u; step++) {
            // r < 2^16 is what still may be too large.
            let more = r < 0x10000u && (q > 0xffffu || q * low > (r << 16u));
            q -= select(0u, 1u, more);
            r += select(0u, high, more);
        }
        rest = (rest << 16u) - q * divisor;
        result = (result << 16u) | q;
    }
    return result;
}

//# name: kiln_float_bits_u32
// The bits of the float nearest to the integer high:low, ties to even.
fn kiln_float_bits_u32(high: u32, low: u32) -> u32 {
    let small = high == 0u;
    let top = select(high, low, small);
    if (top == 0u) {
        return 0u;
    }
    let below = select(low, 0u, small);
    let zeros = countLeadingZeros(top);
    // The leading 32 bits; what is below them in one sticky bit.
    let word = (top << zeros) | ((below >> 1u) >> (31u - zeros)) | select(0u, 1u, (below << zeros) != 0u);
    let kept = word >> 8u;
    let up = select(0u, 1u, (word & 0xffu) + (kept & 1u) > 128u);
    return ((select(189u, 157u, small) - zeros) << 23u) + kept + up;
}

//# name: kiln_quotient_bits_u32 needs: kiln_fraction_u32
// The bits of the float nearest to the float with bits a, divided by the integer b; for b = 0 those of a.
fn kiln_quotient_bits_u32(a: u32, b: u32) -> u32 {
    let magnitude = a & 0x7fffffffu;
    if (magnitude >= 0x7f800000u || magnitude == 0u || b == 0u) {
        return a;
    }
    // Both significands with their leading bit at bit 31.
    let tiny = magnitude < 0x00800000u;
    let zeros = countLeadingZeros(magnitude);
    let m = select((magnitude << 8u) | 0x80000000u, magnitude << (zeros & 31u), tiny);
    let shift = countLeadingZeros(b);
    let n = b << shift;
    let less = m < n;
    let part = select(m - n, m, less);
    let digits = kiln_fraction_u32(part, n);
    let inexact = digits * n != 0u; // a remainder: the low word of part * 2^32 is 0
    let lost = inexact || (!less && (digits & 1u) != 0u);
    let quotient = select((digits >> 1u) | 0x80000000u, digits, less) | select(0u, 1u, lost);
    let start = select(i32(magnitude >> 23u), 9 - i32(zeros), tiny);
    let exponent = start + i32(shift) - 31 - select(0, 1, less);
    // Bits to drop: 8, more below the smallest normal number. With 32 of them the whole is half a unit or more, with 33
    // less.
    let drop = u32(select(8, min(9 - exponent, 33), exponent < 1));
    let moved = min(drop, 31u) - 8u;
    let word = (quotient >> moved) | select(0u, 1u, (quotient << (31u - moved)) << 1u != 0u);
    let gone = drop > 31u;
    let kept = select(word >> 8u, 0u, gone);
    let up = select((word & 0xffu) + (kept & 1u) > 128u, drop == 32u && quotient > 0x80000000u, gone);
    let biased = select(u32(exponent - 1), 0u, exponent < 1);
    return (a & 0x80000000u) | ((biased << 23u) + kept + select(0u, 1u, up));
}
