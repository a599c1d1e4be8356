// select, any, all, and the tests of a float's class.
#pragma once

namespace metal {

// One overload per type, as Apple's: mixed operands are ambiguous (gfx-rs/wgpu issue 10277 is such a call).
#define KILN_SELECT(T) \
    inline T select(T a, T b, bool c) { return c ? b : a; }
KILN_SELECT(bool)
KILN_NUMBERS(KILN_SELECT)
#undef KILN_SELECT
template <class T, int N>
inline vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<bool, N> c) {
    vec<T, N> out;
    for (int i = 0; i < N; i++) (&out.x)[i] = (&c.x)[i] ? (&b.x)[i] : (&a.x)[i];
    return out;
}

inline bool any(bool a) { return a; }
inline bool all(bool a) { return a; }
template <int N>
inline bool any(vec<bool, N> a) {
    bool out = false;
    for (int i = 0; i < N; i++) out |= (&a.x)[i];
    return out;
}
template <int N>
inline bool all(vec<bool, N> a) {
    bool out = true;
    for (int i = 0; i < N; i++) out &= (&a.x)[i];
    return out;
}

#define KILN_CLASS(T)                                              \
    inline bool isnan(T a) { return __builtin_isnan(float(a)); }   \
    inline bool isinf(T a) { return __builtin_isinf(float(a)); }   \
    inline bool isfinite(T a) { return __builtin_isfinite(float(a)); }
KILN_FLOATS(KILN_CLASS)
#undef KILN_CLASS

}  // namespace metal
