// f32 elementary functions, equally accurate on every backend (built-in ones may err by 2^-11).
// * NaN, infinity and signed zero are tested and made as u32 bits. Fast math may drop a select with
//   an arm provably NaN or infinite, so those bits are XORed with an unprovable zero ("hide").
// * Good whether or not a*b+c fuses; kiln_opaque_f32 stops reassociation (k*C1 + k*C2 = k*(C1+C2)).
// No loops, tables, fma() or 64-bit integers. A chunk uses the earlier chunks named after "needs".
// Max errors in ulp: plain / all a*b+c fused / fast math (g++ and clang) / llvmpipe.

//# name: kiln_is_nan_f32
// True for every NaN bit pattern; x != x is false for NaN on Vulkan and under fast math.
fn kiln_is_nan_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

//# name: kiln_opaque_f32
// Returns v. zero is 0 at run time but not provably, so arithmetic cannot be merged across it.
fn kiln_opaque_f32(v: f32, zero: u32) -> f32 {
    return bitcast<f32>(bitcast<u32>(v) ^ zero);
}

//# name: kiln_mulhi_u32
// High word of the 64-bit product, by 16-bit halves (no intermediate overflows).
fn kiln_mulhi_u32(a: u32, b: u32) -> u32 {
    let al = a & 0xffffu;
    let bl = b & 0xffffu;
    let p = (a >> 16u) * bl + ((al * bl) >> 16u);
    let q = al * (b >> 16u) + (p & 0xffffu);
    return (a >> 16u) * (b >> 16u) + (p >> 16u) + (q >> 16u);
}

//# name: kiln_exp_f32 needs: kiln_opaque_f32
// exp(x) = 2^k * exp(r), r = x - k*ln2 in two parts (Cody & Waite; ln2 split of cephes expf),
// own minimax polynomial (2^-28). The exponent is added in integers; results below exp(-87) are
// made 2^64 too large, then scaled once (gradual underflow). Max error 0.98 / 1.02 / 1.02 / 0.99.
fn kiln_exp_f32(x: f32) -> f32 {
    let b = bitcast<u32>(x);
    let a = b & 0x7fffffffu;
    // |x| limited to 104 in integers, NaN included: exp(-104) rounds to 0.
    let t = bitcast<f32>((b & 0x80000000u) | min(a, 0x42d00000u));
    let kf = round(t * 1.44269504f);
    let k = i32(kf);
    let zero = u32(k + 1024) >> 16u;
    let h = kiln_opaque_f32(t - kf * 0.693359375f, zero); // exact: 9-bit constant
    let r = h + kf * 2.12194442e-4f;
    var p = 0.00138403906f;
    p = p * r + 0.00836934894f;
    p = p * r + 0.0416680835f;
    p = p * r + 0.166665152f;
    p = p * r + 0.49999994f;
    p = 1.0f + kiln_opaque_f32(r + (r * r) * p, zero);
    let under = b > 0xc2ae0000u; // x < -87
    let e = u32(k + select(0i, 64i, under)) << 23u;
    let v = bitcast<f32>(bitcast<u32>(p) + e) * select(1.0f, 5.421010862427522e-20f, under);
    let hide = bitcast<u32>(p) & 0x40000000u; // 0: p < 2
    let inf = (b > 0x42b17217u) & (b <= 0x7f800000u);
    let o = select(bitcast<u32>(v), 0x7f800000u ^ hide, inf);
    return bitcast<f32>(select(o, (b | 0x00400000u) ^ hide, a > 0x7f800000u));
}

//# name: kiln_ln_f32 needs: kiln_opaque_f32
// x = m * 2^k, m in [sqrt(1/2), sqrt(2)), split in integers; polynomial and two-part ln2 of cephes
// logf. Subnormals are normalised by an integer conversion, so flushing devices get them right.
// Max error: 0.84 / 0.83 / 0.90 / 0.84.
fn kiln_ln_f32(x: f32) -> f32 {
    let b = bitcast<u32>(x);
    let tiny = b < 0x00800000u;
    // A subnormal's bits are an integer count of 2^-149.
    let n = select(b, bitcast<u32>(f32(b)), tiny) + 0x004afb0du; // 1.0 - sqrt(1/2) in bits
    let k = f32(i32(n >> 23u) - select(127i, 276i, tiny));
    let f = bitcast<f32>((n & 0x007fffffu) + 0x3f3504f3u) - 1.0f; // exact
    let z = f * f;
    var p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    let y = ((z * f) * p - k * 2.12194442e-4f) - 0.5f * z;
    let v = kiln_opaque_f32(f + y, bitcast<u32>(p) >> 31u) + k * 0.693359375f; // p > 0
    // +inf -> +inf; NaN and negative -> NaN; +-0 -> -inf.
    let hide = bitcast<u32>(p) & 0x40000000u; // 0: p < 2
    var o = select(bitcast<u32>(v), b ^ hide, b == 0x7f800000u);
    o = select(o, (b | 0x7fc00000u) ^ hide, b > 0x7f800000u);
    return bitcast<f32>(select(o, 0xff800000u ^ hide, (b & 0x7fffffffu) == 0u));
}

//# name: kiln_reduce_f32 needs: kiln_opaque_f32 kiln_mulhi_u32
// Returns (bits of r, q) with x = r + q*pi/2, |r| <= pi/4 (a little more by rounding); q mod 4.
// |x| < 800: Cody & Waite, pi/2 in three parts, the rounding error of the second step kept.
// Else Payne & Hanek (1983): the 96 bits of 2/pi that matter times the significand. For infinity
// and NaN, r is finite and means nothing.
fn kiln_reduce_f32(x: f32) -> vec2<u32> {
    let b = bitcast<u32>(x);
    let a = b & 0x7fffffffu;
    if (a < 0x44480000u) {
        let kf = round(x * 0.636619772f);
        let k = i32(kf);
        let zero = u32(k + 4096) >> 16u;
        let h = kiln_opaque_f32(x - kf * 1.57080078125f, zero); // exact: 12-bit constant
        let c = kf * -4.454515874385834e-6f; // exact: 15-bit constant
        let s = kiln_opaque_f32(h - c, zero);
        let g = kiln_opaque_f32(h - s, zero);
        let e = kiln_opaque_f32(g - c, zero); // rounding error of s
        let r = s + kiln_opaque_f32(e - kf * 6.07710062827671e-11f, zero);
        return vec2<u32>(bitcast<u32>(r), u32(k));
    }
    // Words of 2/pi after one word of zeros, starting at bit d = exponent - 1.
    let d = (a >> 23u) - 128u;
    let d64 = (d & 64u) != 0u;
    let d32 = (d & 32u) != 0u;
    let g0 = select(0u, 0x4e441529u, d64);
    let g1 = select(0xa2f9836eu, 0xfc2757d1u, d64);
    let g2 = select(0x4e441529u, 0xf534ddc0u, d64);
    let g3 = select(0xfc2757d1u, 0xdb629599u, d64);
    let g4 = select(0xf534ddc0u, 0x3c439041u, d64);
    let w0 = select(g0, g1, d32);
    let w1 = select(g1, g2, d32);
    let w2 = select(g2, g3, d32);
    let w3 = select(g3, g4, d32);
    let sh = d & 31u;
    let v0 = (w0 << sh) | ((w1 >> 1u) >> (31u - sh));
    let v1 = (w1 << sh) | ((w2 >> 1u) >> (31u - sh));
    let v2 = (w2 << sh) | ((w3 >> 1u) >> (31u - sh));
    // (hi, mid) = x * 2/pi mod 4, with 62 bits after the point.
    let m = (a << 8u) | 0x80000000u;
    let low = m * v1;
    let mid = low + kiln_mulhi_u32(m, v2);
    let hi = m * v0 + kiln_mulhi_u32(m, v1) + select(0u, 1u, mid < low);
    // Distance to the nearest integer as sign and 64-bit magnitude, then normalised to 32 bits.
    let f = (hi << 2u) | (mid >> 30u);
    let neg = f >> 31u;
    let y = f ^ (0u - neg);
    let n = min(countLeadingZeros(y), 31u);
    let t = (y << n) | ((((mid << 2u) ^ (0u - neg)) >> 1u) >> (31u - n));
    let r = bitcast<u32>(f32(kiln_mulhi_u32(t, 0xc90fdaa2u))) - ((n + 31u) << 23u);
    let q = (hi >> 30u) + neg;
    return vec2<u32>(r | ((neg << 31u) ^ (b & 0x80000000u)), select(q, 0u - q, b > a));
}

//# name: kiln_quadrant_f32 needs: kiln_opaque_f32
// Bits of sin(r + q*pi/2) for |r| <= pi/4: own minimax polynomials (error 2^-27.8 and 2^-33).
fn kiln_quadrant_f32(r: f32, q: u32) -> u32 {
    let z = r * r;
    let c = (1.0f - 0.5f * z)
        + (z * z) * ((2.44321018e-5f * z - 0.00138873083f) * z + 0.0416666456f);
    let u = (r * z) * ((-0.000195078828f * z + 0.00833210628f) * z - 0.166666538f);
    let s = r + kiln_opaque_f32(u, bitcast<u32>(c) >> 31u); // c > 0; never r * (1 + ...)
    return bitcast<u32>(select(s, c, (q & 1u) != 0u)) ^ ((q & 2u) << 30u);
}

//# name: kiln_sin_f32 needs: kiln_opaque_f32 kiln_mulhi_u32 kiln_reduce_f32 kiln_quadrant_f32
// sin(x), all finite x; x below 2^-12; NaN for inf and NaN. Max error 1.58 / 1.57 / 1.57 / 1.56.
fn kiln_sin_f32(x: f32) -> f32 {
    let b = bitcast<u32>(x);
    let a = b & 0x7fffffffu;
    let t = kiln_reduce_f32(x);
    let v = kiln_quadrant_f32(bitcast<f32>(t.x), t.y);
    let o = select(v, b, a < 0x39800000u);
    let hide = t.x & 0x40000000u; // 0: |r| < 2
    return bitcast<f32>(select(o, (b | 0x7fc00000u) ^ hide, a >= 0x7f800000u));
}

//# name: kiln_cos_f32 needs: kiln_opaque_f32 kiln_mulhi_u32 kiln_reduce_f32 kiln_quadrant_f32
// cos(x), all finite x; NaN for inf and NaN. Max error 1.58 / 1.57 / 1.58 / 1.56.
fn kiln_cos_f32(x: f32) -> f32 {
    let b = bitcast<u32>(x);
    let t = kiln_reduce_f32(x);
    let v = kiln_quadrant_f32(bitcast<f32>(t.x), t.y + 1u);
    let nan = (b | 0x7fc00000u) ^ (t.x & 0x40000000u); // |r| < 2
    return bitcast<f32>(select(v, nan, (b & 0x7fffffffu) >= 0x7f800000u));
}

//# name: kiln_tanh_f32 needs: kiln_opaque_f32 kiln_exp_f32
// |x| < 2^-12: x. |x| < 0.625: odd minimax polynomial (own, error 2^-32; cut as in cephes tanhf).
// Else 1 - 2/(exp(2|x|) + 1), the quotient (2.5 ulp allowed) refined by one Newton step; |x| is
// limited to 10, where the result is exactly 1.
// Max error: 1.76 / 1.34 / 1.50 / 1.34 (plain and fused: with the quotient 3 ulp off).
fn kiln_tanh_f32(x: f32) -> f32 {
    let b = bitcast<u32>(x);
    let a = b & 0x7fffffffu;
    let t = bitcast<f32>(min(a, 0x41200000u));
    let z = t * t;
    var p = 0.00215268391f;
    p = p * z - 0.00819001347f;
    p = p * z + 0.021706894f;
    p = p * z - 0.0539481789f;
    p = p * z + 0.133332208f;
    p = p * z - 0.333333313f;
    let low = t + (t * z) * p;
    let d = kiln_exp_f32(t + t) + 1.0f;
    let y = kiln_opaque_f32(1.0f / d, bitcast<u32>(d) >> 31u);
    let high = 1.0f - 2.0f * (y + y * (1.0f - d * y));
    var o = select(bitcast<u32>(high), bitcast<u32>(low), a < 0x3f200000u);
    o = select(o, a, a < 0x39800000u);
    o = select(o, (a | 0x00400000u) ^ (bitcast<u32>(y) & 0x40000000u), a > 0x7f800000u); // y < 2
    return bitcast<f32>(o | (b & 0x80000000u));
}
