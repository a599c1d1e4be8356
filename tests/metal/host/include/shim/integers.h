// Functions of integers, one overload for each type that Metal has.
#pragma once

namespace metal {

#define KILN_COMMON(T)                                            \
    inline T min(T a, T b) { return b < a ? b : a; }              \
    inline T max(T a, T b) { return a < b ? b : a; }              \
    inline T clamp(T x, T low, T high) { return min(max(x, low), high); }
KILN_INTEGERS(KILN_COMMON)
#undef KILN_COMMON

#define KILN_ABS(T) \
    inline T abs(T a) { return a < 0 ? T(-(long)a) : a; }
KILN_SIGNED(KILN_ABS)
#undef KILN_ABS
#define KILN_ABS(T) \
    inline T abs(T a) { return a; }
KILN_UNSIGNED(KILN_ABS)
#undef KILN_ABS

template <class T>
struct unsigned_of;
template <> struct unsigned_of<char> { using type = uchar; };
template <> struct unsigned_of<uchar> { using type = uchar; };
template <> struct unsigned_of<short> { using type = ushort; };
template <> struct unsigned_of<ushort> { using type = ushort; };
template <> struct unsigned_of<int> { using type = uint; };
template <> struct unsigned_of<uint> { using type = uint; };
template <> struct unsigned_of<long> { using type = ulong; };
template <> struct unsigned_of<ulong> { using type = ulong; };

// Leading and trailing zeros are the width where no bit is set.
#define KILN_BITS(T)                                                                                           \
    inline T clz(T a) {                                                                                        \
        ulong bits = unsigned_of<T>::type(a);                                                                  \
        return bits == 0 ? T(8 * sizeof(T)) : T(__builtin_clzl(bits) - (64 - 8 * int(sizeof(T))));             \
    }                                                                                                          \
    inline T ctz(T a) {                                                                                        \
        ulong bits = unsigned_of<T>::type(a);                                                                  \
        return bits == 0 ? T(8 * sizeof(T)) : T(__builtin_ctzl(bits));                                         \
    }                                                                                                          \
    inline T popcount(T a) { return T(__builtin_popcountl(ulong(unsigned_of<T>::type(a)))); }                  \
    inline T reverse_bits(T a) {                                                                               \
        ulong bits = unsigned_of<T>::type(a), out = 0;                                                         \
        for (uint i = 0; i < 8 * sizeof(T); i++) out |= (bits >> i & 1) << (8 * sizeof(T) - 1 - i);            \
        return T(out);                                                                                         \
    }                                                                                                          \
    inline T mulhi(T a, T b) { return T((__extension__ (__int128)a) * b >> (8 * sizeof(T))); }                                 \
    inline T extract_bits(T a, uint offset, uint bits) {                                                       \
        if (bits == 0) return 0;                                                                               \
        uint width = 8 * sizeof(T);                                                                            \
        return T(T(unsigned_of<T>::type(a) << (width - offset - bits)) >> (width - bits));                     \
    }                                                                                                          \
    inline T insert_bits(T base, T insert, uint offset, uint bits) {                                           \
        ulong mask = (bits >= 64 ? ~0ul : (1ul << bits) - 1) << offset;                                        \
        return T((ulong(base) & ~mask) | (ulong(insert) << offset & mask));                                    \
    }
KILN_INTEGERS(KILN_BITS)
#undef KILN_BITS

KILN_LIFT_1(abs)
KILN_LIFT_1(clz)
KILN_LIFT_1(ctz)
KILN_LIFT_1(popcount)
KILN_LIFT_1(reverse_bits)
KILN_LIFT_2(mulhi)
KILN_LIFT_2(min)
KILN_LIFT_2(max)
KILN_LIFT_3(clamp)

}  // namespace metal
