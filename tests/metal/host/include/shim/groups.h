// Barriers, and operations of SIMD groups. The host runs them: see runtime/host.h.
//
// Each takes its line along, so that the host can tell whether all threads are at the same one.
#pragma once

#include "../../runtime/host.h"

namespace metal {

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };

inline void kiln_threadgroup_barrier(mem_flags flags, uint line) { kiln_host_barrier(uint(flags), line); }
inline void kiln_simdgroup_barrier(mem_flags flags, uint line) { kiln_host_simd_barrier(uint(flags), line); }
#define threadgroup_barrier(flags) kiln_threadgroup_barrier(flags, __LINE__)
#define simdgroup_barrier(flags) kiln_simdgroup_barrier(flags, __LINE__)

template <class T>
struct kiln_bits;
template <> struct kiln_bits<bool> { using type = uchar; };
#define KILN_SIZED(T) template <> struct kiln_bits<T> { using type = unsigned_of<T>::type; };
KILN_INTEGERS(KILN_SIZED)
#undef KILN_SIZED
template <> struct kiln_bits<float> { using type = uint; };
template <> struct kiln_bits<half> { using type = ushort; };

// What all lanes of a SIMD group gave to one operation.
template <class T>
struct kiln_lanes {
    const kiln_exchange* all;
    KILN_UNCHECKED static kiln_lanes of(T mine, uint line) {
        return {kiln_host_exchange(typename kiln_bits<T>::type(as_type<typename kiln_bits<T>::type>(mine)), line)};
    }
    KILN_UNCHECKED uint width() const { return all->width; }
    KILN_UNCHECKED uint lane() const { return kiln_host_lane(); }
    KILN_UNCHECKED T operator[](uint lane) const {
        return as_type<T>(typename kiln_bits<T>::type(all->values[lane % KILN_MAX_SIMD]));
    }
};

// Folds lanes `from` up to `to`, which are one at least, from the left.
template <class T, class F>
inline T kiln_fold(kiln_lanes<T> lanes, uint from, uint to, F f) {
    T out = lanes[from];
    for (uint lane = from + 1; lane < to; lane++) out = T(f(out, lanes[lane]));
    return out;
}

// Metal's SIMD operations end at 32 bits.
#define KILN_SIMD_TYPES(NAME) NAME(char) NAME(uchar) NAME(short) NAME(ushort) NAME(int) NAME(uint) KILN_FLOATS(NAME)
#define KILN_SIMD_INTEGERS(NAME) NAME(char) NAME(uchar) NAME(short) NAME(ushort) NAME(int) NAME(uint)

#define KILN_REDUCTION(T, F, OP)                                                                      \
    inline T kiln_##F(T mine, uint line) {                                                            \
        auto lanes = kiln_lanes<T>::of(mine, line);                                                   \
        return kiln_fold(lanes, 0, lanes.width(), [](T a, T b) { return T(OP); });                    \
    }
#define KILN_PREFIX(T, F, OP, IDENTITY)                                                               \
    inline T kiln_simd_prefix_inclusive_##F(T mine, uint line) {                                      \
        auto lanes = kiln_lanes<T>::of(mine, line);                                                   \
        return kiln_fold(lanes, 0, lanes.lane() + 1, [](T a, T b) { return T(OP); });                 \
    }                                                                                                 \
    inline T kiln_simd_prefix_exclusive_##F(T mine, uint line) {                                      \
        auto lanes = kiln_lanes<T>::of(mine, line);                                                   \
        if (lanes.lane() == 0) return IDENTITY;                                                       \
        return kiln_fold(lanes, 0, lanes.lane(), [](T a, T b) { return T(OP); });                     \
    }
#define KILN_ARITHMETIC(T)                       \
    KILN_REDUCTION(T, simd_sum, a + b)           \
    KILN_REDUCTION(T, simd_product, a * b)       \
    KILN_REDUCTION(T, simd_min, min(a, b))       \
    KILN_REDUCTION(T, simd_max, max(a, b))       \
    KILN_PREFIX(T, sum, a + b, T(0))             \
    KILN_PREFIX(T, product, a * b, T(1))
KILN_SIMD_TYPES(KILN_ARITHMETIC)
#undef KILN_ARITHMETIC
#define KILN_LOGIC(T)                            \
    KILN_REDUCTION(T, simd_and, a & b)           \
    KILN_REDUCTION(T, simd_or, a | b)            \
    KILN_REDUCTION(T, simd_xor, a ^ b)
KILN_SIMD_INTEGERS(KILN_LOGIC)
#undef KILN_LOGIC
#undef KILN_REDUCTION
#undef KILN_PREFIX

// A lane beyond the group gives an undefined value: here all bits set.
#define KILN_MOVES(T)                                                                                           \
    inline T kiln_from(kiln_lanes<T> lanes, uint lane) {                                                        \
        return lane < lanes.width() ? lanes[lane] : as_type<T>(kiln_bits<T>::type(~0ul));                       \
    }                                                                                                           \
    inline T kiln_simd_broadcast(T mine, ushort lane, uint line) {                                              \
        return kiln_from(kiln_lanes<T>::of(mine, line), lane);                                                  \
    }                                                                                                           \
    inline T kiln_simd_shuffle(T mine, ushort lane, uint line) {                                                \
        return kiln_from(kiln_lanes<T>::of(mine, line), lane);                                                  \
    }                                                                                                           \
    inline T kiln_simd_broadcast_first(T mine, uint line) { return kiln_lanes<T>::of(mine, line)[0]; }          \
    inline T kiln_simd_shuffle_up(T mine, ushort delta, uint line) {                                            \
        auto lanes = kiln_lanes<T>::of(mine, line);                                                             \
        return kiln_from(lanes, lanes.lane() - delta);                                                          \
    }                                                                                                           \
    inline T kiln_simd_shuffle_down(T mine, ushort delta, uint line) {                                          \
        auto lanes = kiln_lanes<T>::of(mine, line);                                                             \
        return kiln_from(lanes, lanes.lane() + delta);                                                          \
    }                                                                                                           \
    inline T kiln_simd_shuffle_xor(T mine, ushort mask, uint line) {                                            \
        auto lanes = kiln_lanes<T>::of(mine, line);                                                             \
        return kiln_from(lanes, lanes.lane() ^ mask);                                                           \
    }                                                                                                           \
    inline T kiln_quad_broadcast(T mine, ushort lane, uint line) {                                              \
        auto lanes = kiln_lanes<T>::of(mine, line);                                                             \
        return kiln_from(lanes, (lanes.lane() & ~3u) + lane);                                                   \
    }                                                                                                           \
    inline T kiln_quad_shuffle_xor(T mine, ushort mask, uint line) {                                            \
        auto lanes = kiln_lanes<T>::of(mine, line);                                                             \
        return kiln_from(lanes, lanes.lane() ^ mask);                                                           \
    }
KILN_SIMD_TYPES(KILN_MOVES)
#undef KILN_MOVES

// Component by component. Every lane takes part in the exchanges of each component.
#define KILN_LIFT_MOVE(F)                                                                      \
    template <class T, int N, class U>                                                         \
    inline vec<T, N> F(vec<T, N> mine, U lane, uint line) {                                    \
        vec<T, N> out;                                                                         \
        for (int i = 0; i < N; i++) (&out.x)[i] = F((&mine.x)[i], lane, line);                 \
        return out;                                                                            \
    }
#define KILN_LIFT_FOLD(F)                                                                      \
    template <class T, int N>                                                                  \
    inline vec<T, N> F(vec<T, N> mine, uint line) {                                            \
        vec<T, N> out;                                                                         \
        for (int i = 0; i < N; i++) (&out.x)[i] = F((&mine.x)[i], line);                       \
        return out;                                                                            \
    }
KILN_LIFT_MOVE(kiln_simd_broadcast)
KILN_LIFT_MOVE(kiln_simd_shuffle)
KILN_LIFT_MOVE(kiln_simd_shuffle_up)
KILN_LIFT_MOVE(kiln_simd_shuffle_down)
KILN_LIFT_MOVE(kiln_simd_shuffle_xor)
KILN_LIFT_FOLD(kiln_simd_broadcast_first)
KILN_LIFT_FOLD(kiln_simd_sum)
KILN_LIFT_FOLD(kiln_simd_product)
KILN_LIFT_FOLD(kiln_simd_min)
KILN_LIFT_FOLD(kiln_simd_max)

inline bool kiln_simd_all(bool mine, uint line) {
    auto lanes = kiln_lanes<bool>::of(mine, line);
    return kiln_fold(lanes, 0, lanes.width(), [](bool a, bool b) { return a && b; });
}
inline bool kiln_simd_any(bool mine, uint line) {
    auto lanes = kiln_lanes<bool>::of(mine, line);
    return kiln_fold(lanes, 0, lanes.width(), [](bool a, bool b) { return a || b; });
}
struct simd_vote {
    uint64_t bits;
    explicit operator uint64_t() const { return bits; }
};
inline simd_vote kiln_simd_ballot(bool mine, uint line) {
    auto lanes = kiln_lanes<bool>::of(mine, line);
    uint64_t bits = 0;
    for (uint lane = 0; lane < lanes.width() && lane < 64; lane++) bits |= uint64_t(lanes[lane]) << lane;
    return {bits};
}

#define simd_sum(x) kiln_simd_sum(x, __LINE__)
#define simd_product(x) kiln_simd_product(x, __LINE__)
#define simd_min(x) kiln_simd_min(x, __LINE__)
#define simd_max(x) kiln_simd_max(x, __LINE__)
#define simd_and(x) kiln_simd_and(x, __LINE__)
#define simd_or(x) kiln_simd_or(x, __LINE__)
#define simd_xor(x) kiln_simd_xor(x, __LINE__)
#define simd_prefix_inclusive_sum(x) kiln_simd_prefix_inclusive_sum(x, __LINE__)
#define simd_prefix_exclusive_sum(x) kiln_simd_prefix_exclusive_sum(x, __LINE__)
#define simd_prefix_inclusive_product(x) kiln_simd_prefix_inclusive_product(x, __LINE__)
#define simd_prefix_exclusive_product(x) kiln_simd_prefix_exclusive_product(x, __LINE__)
#define simd_broadcast(x, lane) kiln_simd_broadcast(x, lane, __LINE__)
#define simd_broadcast_first(x) kiln_simd_broadcast_first(x, __LINE__)
#define simd_shuffle(x, lane) kiln_simd_shuffle(x, lane, __LINE__)
#define simd_shuffle_up(x, delta) kiln_simd_shuffle_up(x, delta, __LINE__)
#define simd_shuffle_down(x, delta) kiln_simd_shuffle_down(x, delta, __LINE__)
#define simd_shuffle_xor(x, mask) kiln_simd_shuffle_xor(x, mask, __LINE__)
#define quad_broadcast(x, lane) kiln_quad_broadcast(x, lane, __LINE__)
#define quad_shuffle_xor(x, mask) kiln_quad_shuffle_xor(x, mask, __LINE__)
#define simd_all(x) kiln_simd_all(x, __LINE__)
#define simd_any(x) kiln_simd_any(x, __LINE__)
#define simd_ballot(x) kiln_simd_ballot(x, __LINE__)

}  // namespace metal
