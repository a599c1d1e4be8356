// Vectors of 2, 3 and 4 components: layout, construction, operators.
//
// `.x` to `.w` and `[i]` are components. Longer swizzles come as `.swizzle<…>()`: a text edit makes them so, since C++
// has no properties. A vector of three is as large as one of four.
#pragma once

namespace metal {

template <class T, int N>
struct vec;

template <class T>
struct alignas(2 * sizeof(T)) vec<T, 2> {
    T x, y;
    vec() = default;
    explicit constexpr vec(T s) : x(s), y(s) {}
    constexpr vec(T x, T y) : x(x), y(y) {}
    template <class U>
    explicit vec(vec<U, 2> v) : x(T(v.x)), y(T(v.y)) {}
    T& operator[](uint i) { return (&x)[i]; }
    T operator[](uint i) const { return (&x)[i]; }
    template <int... I>
    vec<T, sizeof...(I)> swizzle() const {
        return vec<T, sizeof...(I)>((*this)[I]...);
    }
};

template <class T>
struct alignas(4 * sizeof(T)) vec<T, 3> {
    T x, y, z;
    vec() = default;
    explicit constexpr vec(T s) : x(s), y(s), z(s) {}
    constexpr vec(T x, T y, T z) : x(x), y(y), z(z) {}
    vec(vec<T, 2> v, T z) : x(v.x), y(v.y), z(z) {}
    vec(T x, vec<T, 2> v) : x(x), y(v.x), z(v.y) {}
    template <class U>
    explicit vec(vec<U, 3> v) : x(T(v.x)), y(T(v.y)), z(T(v.z)) {}
    T& operator[](uint i) { return (&x)[i]; }
    T operator[](uint i) const { return (&x)[i]; }
    template <int... I>
    vec<T, sizeof...(I)> swizzle() const {
        return vec<T, sizeof...(I)>((*this)[I]...);
    }
};

template <class T>
struct alignas(4 * sizeof(T)) vec<T, 4> {
    T x, y, z, w;
    vec() = default;
    explicit constexpr vec(T s) : x(s), y(s), z(s), w(s) {}
    constexpr vec(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
    vec(vec<T, 2> v, T z, T w) : x(v.x), y(v.y), z(z), w(w) {}
    vec(T x, vec<T, 2> v, T w) : x(x), y(v.x), z(v.y), w(w) {}
    vec(T x, T y, vec<T, 2> v) : x(x), y(y), z(v.x), w(v.y) {}
    vec(vec<T, 2> v, vec<T, 2> u) : x(v.x), y(v.y), z(u.x), w(u.y) {}
    vec(vec<T, 3> v, T w) : x(v.x), y(v.y), z(v.z), w(w) {}
    vec(T x, vec<T, 3> v) : x(x), y(v.x), z(v.y), w(v.z) {}
    template <class U>
    explicit vec(vec<U, 4> v) : x(T(v.x)), y(T(v.y)), z(T(v.z)), w(T(v.w)) {}
    T& operator[](uint i) { return (&x)[i]; }
    T operator[](uint i) const { return (&x)[i]; }
    template <int... I>
    vec<T, sizeof...(I)> swizzle() const {
        return vec<T, sizeof...(I)>((*this)[I]...);
    }
};

// Component by component; a scalar stands for a vector of itself. Arithmetic keeps the element type, as Metal's does.
#define KILN_BINARY(OP, RESULT)                                            \
    template <class T, int N>                                              \
    inline vec<RESULT, N> operator OP(vec<T, N> a, vec<T, N> b) {          \
        vec<RESULT, N> out;                                                \
        for (int i = 0; i < N; i++) (&out.x)[i] = RESULT((&a.x)[i] OP(&b.x)[i]); \
        return out;                                                        \
    }                                                                      \
    template <class T, int N>                                              \
    inline vec<RESULT, N> operator OP(vec<T, N> a, T b) {                  \
        return a OP vec<T, N>(b);                                          \
    }                                                                      \
    template <class T, int N>                                              \
    inline vec<RESULT, N> operator OP(T a, vec<T, N> b) {                  \
        return vec<T, N>(a) OP b;                                          \
    }
KILN_BINARY(+, T)
KILN_BINARY(-, T)
KILN_BINARY(*, T)
KILN_BINARY(/, T)
KILN_BINARY(%, T)
KILN_BINARY(&, T)
KILN_BINARY(|, T)
KILN_BINARY(^, T)
KILN_BINARY(<<, T)
KILN_BINARY(>>, T)
KILN_BINARY(<, bool)
KILN_BINARY(<=, bool)
KILN_BINARY(>, bool)
KILN_BINARY(>=, bool)
KILN_BINARY(==, bool)
KILN_BINARY(!=, bool)
KILN_BINARY(&&, bool)
KILN_BINARY(||, bool)
#undef KILN_BINARY

// A shift's amount is unsigned whatever is shifted.
template <class T, int N>
inline vec<T, N> operator<<(vec<T, N> a, vec<uint, N> b) {
    vec<T, N> out;
    for (int i = 0; i < N; i++) (&out.x)[i] = T((&a.x)[i] << (&b.x)[i]);
    return out;
}
template <class T, int N>
inline vec<T, N> operator>>(vec<T, N> a, vec<uint, N> b) {
    vec<T, N> out;
    for (int i = 0; i < N; i++) (&out.x)[i] = T((&a.x)[i] >> (&b.x)[i]);
    return out;
}
template <int N>
inline vec<uint, N> operator<<(vec<uint, N> a, vec<uint, N> b) {
    vec<uint, N> out;
    for (int i = 0; i < N; i++) (&out.x)[i] = (&a.x)[i] << (&b.x)[i];
    return out;
}
template <int N>
inline vec<uint, N> operator>>(vec<uint, N> a, vec<uint, N> b) {
    vec<uint, N> out;
    for (int i = 0; i < N; i++) (&out.x)[i] = (&a.x)[i] >> (&b.x)[i];
    return out;
}

#define KILN_UNARY(OP)                                                  \
    template <class T, int N>                                           \
    inline vec<T, N> operator OP(vec<T, N> a) {                         \
        vec<T, N> out;                                                  \
        for (int i = 0; i < N; i++) (&out.x)[i] = T(OP(&a.x)[i]);       \
        return out;                                                     \
    }
KILN_UNARY(-)
KILN_UNARY(~)
KILN_UNARY(!)
#undef KILN_UNARY

#define KILN_NAMES(T) using T##2 = vec<T, 2>; using T##3 = vec<T, 3>; using T##4 = vec<T, 4>;
KILN_NAMES(bool)
KILN_NUMBERS(KILN_NAMES)
#undef KILN_NAMES

// Without padding, and aligned as one component.
template <class T, int N>
struct packed {
    T at[N];
    packed() = default;
    packed(vec<T, N> v) {
        for (int i = 0; i < N; i++) at[i] = (&v.x)[i];
    }
    operator vec<T, N>() const {
        vec<T, N> v;
        for (int i = 0; i < N; i++) (&v.x)[i] = at[i];
        return v;
    }
    T& operator[](uint i) { return at[i]; }
    T operator[](uint i) const { return at[i]; }
};
#define KILN_NAMES(T) \
    using packed_##T##2 = packed<T, 2>; using packed_##T##3 = packed<T, 3>; using packed_##T##4 = packed<T, 4>;
KILN_NUMBERS(KILN_NAMES)
#undef KILN_NAMES

// F(a), F(a, b) and F(a, b, c) for vectors, from F for scalars.
#define KILN_LIFT_1(F)                                                  \
    template <class T, int N>                                           \
    inline vec<T, N> F(vec<T, N> a) {                                   \
        vec<T, N> out;                                                  \
        for (int i = 0; i < N; i++) (&out.x)[i] = F((&a.x)[i]);         \
        return out;                                                     \
    }
#define KILN_LIFT_2(F)                                                  \
    template <class T, int N>                                           \
    inline vec<T, N> F(vec<T, N> a, vec<T, N> b) {                      \
        vec<T, N> out;                                                  \
        for (int i = 0; i < N; i++) (&out.x)[i] = F((&a.x)[i], (&b.x)[i]); \
        return out;                                                     \
    }
#define KILN_LIFT_3(F)                                                  \
    template <class T, int N>                                           \
    inline vec<T, N> F(vec<T, N> a, vec<T, N> b, vec<T, N> c) {         \
        vec<T, N> out;                                                  \
        for (int i = 0; i < N; i++) (&out.x)[i] = F((&a.x)[i], (&b.x)[i], (&c.x)[i]); \
        return out;                                                     \
    }

}  // namespace metal
