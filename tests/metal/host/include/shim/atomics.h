// Atomic 32-bit words, relaxed, which is all that Metal has for compute.
#pragma once

namespace metal {

enum memory_order { memory_order_relaxed };

template <class T>
struct atomic {
    T value;
};
using atomic_int = atomic<int>;
using atomic_uint = atomic<uint>;

#define KILN_ATOMIC(T)                                                                                            \
    inline T atomic_load_explicit(const volatile atomic<T>* at, memory_order) {                                   \
        return __atomic_load_n(&at->value, __ATOMIC_RELAXED);                                                     \
    }                                                                                                             \
    inline void atomic_store_explicit(volatile atomic<T>* at, T v, memory_order) {                                \
        __atomic_store_n(&at->value, v, __ATOMIC_RELAXED);                                                        \
    }                                                                                                             \
    inline T atomic_exchange_explicit(volatile atomic<T>* at, T v, memory_order) {                                \
        return __atomic_exchange_n(&at->value, v, __ATOMIC_RELAXED);                                              \
    }                                                                                                             \
    inline bool atomic_compare_exchange_weak_explicit(volatile atomic<T>* at, T* expected, T v, memory_order,     \
                                                      memory_order) {                                             \
        return __atomic_compare_exchange_n(&at->value, expected, v, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);    \
    }                                                                                                             \
    inline T atomic_fetch_add_explicit(volatile atomic<T>* at, T v, memory_order) {                               \
        return __atomic_fetch_add(&at->value, v, __ATOMIC_RELAXED);                                               \
    }                                                                                                             \
    inline T atomic_fetch_sub_explicit(volatile atomic<T>* at, T v, memory_order) {                               \
        return __atomic_fetch_sub(&at->value, v, __ATOMIC_RELAXED);                                               \
    }                                                                                                             \
    inline T atomic_fetch_and_explicit(volatile atomic<T>* at, T v, memory_order) {                               \
        return __atomic_fetch_and(&at->value, v, __ATOMIC_RELAXED);                                               \
    }                                                                                                             \
    inline T atomic_fetch_or_explicit(volatile atomic<T>* at, T v, memory_order) {                                \
        return __atomic_fetch_or(&at->value, v, __ATOMIC_RELAXED);                                                \
    }                                                                                                             \
    inline T atomic_fetch_xor_explicit(volatile atomic<T>* at, T v, memory_order) {                               \
        return __atomic_fetch_xor(&at->value, v, __ATOMIC_RELAXED);                                               \
    }                                                                                                             \
    inline T atomic_fetch_min_explicit(volatile atomic<T>* at, T v, memory_order) {                               \
        T seen = __atomic_load_n(&at->value, __ATOMIC_RELAXED);                                                   \
        while (!__atomic_compare_exchange_n(&at->value, &seen, min(seen, v), true, __ATOMIC_RELAXED,              \
                                            __ATOMIC_RELAXED)) {                                                  \
        }                                                                                                         \
        return seen;                                                                                              \
    }                                                                                                             \
    inline T atomic_fetch_max_explicit(volatile atomic<T>* at, T v, memory_order) {                               \
        T seen = __atomic_load_n(&at->value, __ATOMIC_RELAXED);                                                   \
        while (!__atomic_compare_exchange_n(&at->value, &seen, max(seen, v), true, __ATOMIC_RELAXED,              \
                                            __ATOMIC_RELAXED)) {                                                  \
        }                                                                                                         \
        return seen;                                                                                              \
    }
KILN_ATOMIC(int)
KILN_ATOMIC(uint)
#undef KILN_ATOMIC

}  // namespace metal
