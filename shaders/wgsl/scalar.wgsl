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
    // Exponents from 1 (subnormals share it), significands with their leading bit where there is one.
    var x_exponent = i32(max(x >> 23u, 1u));
    let y_exponent = i32(max(y >> 23u, 1u));
    var rest = (x & 0x7fffffu) | select(0x800000u, 0u, x < 0x800000u);
    let divisor = (y & 0x7fffffu) | select(0x800000u, 0u, y < 0x800000u);
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
    // Back to a float: move the leading bit to bit 23, or as far as the smallest exponent allows.
    let shift = min(i32(countLeadingZeros(rest)) - 8, x_exponent - 1);
    rest = rest << u32(shift);
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
