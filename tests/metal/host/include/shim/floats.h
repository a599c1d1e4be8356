// Functions of float and half. Half computes in float and rounds once.
#pragma once

namespace metal {

#define KILN_F1(F, BUILTIN)                                                \
    inline float F(float a) { return BUILTIN(a); }                         \
    inline half F(half a) { return half(BUILTIN(float(a))); }              \
    KILN_LIFT_1(F)
#define KILN_F2(F, BUILTIN)                                                \
    inline float F(float a, float b) { return BUILTIN(a, b); }             \
    inline half F(half a, half b) { return half(BUILTIN(float(a), float(b))); }
KILN_F1(cos, __builtin_cosf)
KILN_F1(cosh, __builtin_coshf)
KILN_F1(sin, __builtin_sinf)
KILN_F1(sinh, __builtin_sinhf)
KILN_F1(tan, __builtin_tanf)
KILN_F1(tanh, __builtin_tanhf)
KILN_F1(acos, __builtin_acosf)
KILN_F1(asin, __builtin_asinf)
KILN_F1(atan, __builtin_atanf)
KILN_F1(asinh, __builtin_asinhf)
KILN_F1(acosh, __builtin_acoshf)
KILN_F1(atanh, __builtin_atanhf)
KILN_F1(ceil, __builtin_ceilf)
KILN_F1(floor, __builtin_floorf)
KILN_F1(rint, __builtin_rintf)
KILN_F1(round, __builtin_roundf)
KILN_F1(trunc, __builtin_truncf)
KILN_F1(exp, __builtin_expf)
KILN_F1(exp2, __builtin_exp2f)
KILN_F1(log, __builtin_logf)
KILN_F1(log2, __builtin_log2f)
KILN_F1(sqrt, __builtin_sqrtf)
KILN_F2(atan2, __builtin_atan2f)
KILN_F2(pow, __builtin_powf)
KILN_F2(fmod, __builtin_fmodf)
KILN_F2(copysign, __builtin_copysignf)
KILN_LIFT_2(atan2)
KILN_LIFT_2(pow)
KILN_LIFT_2(fmod)
KILN_LIFT_2(copysign)

// NaN operands: either result is allowed, so the result here is the one that a kernel should least rely on.
#define KILN_FLOAT(T)                                                                  \
    inline T min(T a, T b) { return b < a ? b : a; }                                   \
    inline T max(T a, T b) { return a < b ? b : a; }                                   \
    inline T clamp(T x, T low, T high) { return min(max(x, low), high); }              \
    inline T saturate(T x) { return clamp(x, T(0), T(1)); }                            \
    inline T abs(T a) { return T(__builtin_fabsf(float(a))); }                         \
    inline T fabs(T a) { return abs(a); }                                              \
    inline T fract(T a) { return min(T(a - floor(a)), T(1) - T(sizeof(T) == 2 ? 0x1p-11f : 0x1p-24f)); } \
    inline T rsqrt(T a) { return T(1.0f / __builtin_sqrtf(float(a))); }                \
    inline T sign(T a) { return a > T(0) ? T(1) : a < T(0) ? T(-1) : T(0); }           \
    inline T fma(T a, T b, T c) { return T(__builtin_fmaf(float(a), float(b), float(c))); } \
    inline T mix(T a, T b, T t) { return a + (b - a) * t; }                            \
    inline T step(T edge, T x) { return x < edge ? T(0) : T(1); }                      \
    inline T smoothstep(T low, T high, T x) {                                          \
        T t = saturate(T((x - low) / (high - low)));                                   \
        return t * t * (T(3) - T(2) * t);                                              \
    }                                                                                  \
    inline T ldexp(T a, int e) { return T(__builtin_ldexpf(float(a), e)); }            \
    inline T frexp(T a, int& e) { return T(__builtin_frexpf(float(a), &e)); }          \
    inline T modf(T a, T& whole) {                                                     \
        whole = trunc(a);                                                              \
        return copysign(T(a - whole), a);                                              \
    }
KILN_FLOATS(KILN_FLOAT)
#undef KILN_FLOAT
KILN_LIFT_1(saturate)
KILN_LIFT_1(fract)
KILN_LIFT_1(rsqrt)
KILN_LIFT_1(sign)
KILN_LIFT_1(fabs)
KILN_LIFT_2(step)
KILN_LIFT_3(fma)
KILN_LIFT_3(mix)
KILN_LIFT_3(smoothstep)
template <class T, int N>
inline vec<T, N> ldexp(vec<T, N> a, vec<int, N> e) {
    vec<T, N> out;
    for (int i = 0; i < N; i++) (&out.x)[i] = ldexp((&a.x)[i], (&e.x)[i]);
    return out;
}

template <class T, int N>
inline T dot(vec<T, N> a, vec<T, N> b) {
    T sum = a.x * b.x;
    for (int i = 1; i < N; i++) sum = T(sum + (&a.x)[i] * (&b.x)[i]);
    return sum;
}
template <class T>
inline vec<T, 3> cross(vec<T, 3> a, vec<T, 3> b) {
    return vec<T, 3>(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
template <class T, int N>
inline T length(vec<T, N> a) { return sqrt(dot(a, a)); }
template <class T, int N>
inline T distance(vec<T, N> a, vec<T, N> b) { return length(a - b); }
template <class T, int N>
inline vec<T, N> normalize(vec<T, N> a) { return a * rsqrt(dot(a, a)); }

}  // namespace metal
