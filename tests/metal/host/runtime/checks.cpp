// Every access of a checked kernel, through the calls that the compiler's thread sanitizer makes before each.
//
// The sanitizer's own library is not linked; these functions take its place. What they know of an address is whether it
// lies in a buffer, in threadgroup memory or on a thread's own stack, and for the first two who touched the word last.
//
// Two accesses to a word, one a write and not both atomic, race unless something orders them: the same thread; a
// threadgroup barrier with the flag of that memory; a barrier of the SIMD group that both belong to, with that flag.
// Nothing orders threadgroups of one dispatch.

#include "grid.h"

#include <dlfcn.h>

namespace kiln {

namespace {
// Where in its library a fault lies; the Rust side makes an MSL line of it.
std::string place(void* from) {
    Dl_info info;
    if (!dladdr(from, &info)) return "";
    // The call returns behind the instruction that is meant.
    size_t offset = static_cast<char*>(from) - static_cast<char*>(info.dli_fbase) - 1;
    char text[32];
    std::snprintf(text, sizeof text, "+0x%zx>", offset);
    return std::string("<") + info.dli_fname + text;
}
}  // namespace

bool Grid::conflicts(const Access& earlier, const Range& range, const Access& now) const {
    if (earlier.group == 0 || (earlier.atomic && now.atomic)) return false;
    if (earlier.group != now.group) return !range.threadgroup;
    if (earlier.thread == now.thread || earlier.epoch != now.epoch) return false;
    return earlier.thread / width != now.thread / width || earlier.simd_epoch == now.simd_epoch;
}

void Grid::describe(const char* what, const Range& range, uintptr_t at, const Access& earlier, void* from) {
    char with[96] = "";
    if (earlier.group != 0) {
        std::snprintf(with, sizeof with, " with thread %u%s", earlier.thread,
                      earlier.group == group ? "" : " of another threadgroup");
    }
    fault("%s: %s, word %zu, thread %u%s %s", what, range.name.c_str(), size_t(at - range.from) / 4, current, with,
          place(from).c_str());
}

void Grid::note(Range& range, Cell& cell, const Access& now, bool write, void* from) {
    uintptr_t at = range.from + uintptr_t(&cell - range.cells.data()) * 4;
    if (range.threadgroup) {
        // What other threadgroups did to their memory is nothing to this one.
        for (Access& read : cell.reads) {
            if (read.group != group) read = {};
        }
        if (cell.write.group != group) cell.write = {};
        if (!write && cell.write.group == 0) {
            describe("read of threadgroup memory that nobody wrote", range, at, {}, from);
            return;
        }
    }
    if (conflicts(cell.write, range, now)) {
        describe(write ? "race of two writes" : "race of a read with a write", range, at, cell.write, from);
    }
    if (write) {
        for (const Access& read : cell.reads) {
            if (conflicts(read, range, now)) describe("race of a write with a read", range, at, read, from);
        }
        cell.write = now;
        return;
    }
    auto same_simd = [&](const Access& a) { return a.group == now.group && a.thread / width == now.thread / width; };
    for (Access& read : cell.reads) {
        bool same = read.group == now.group && read.thread == now.thread;
        bool before = read.group == now.group && read.epoch != now.epoch;
        bool simd_before = same_simd(read) && read.simd_epoch != now.simd_epoch;
        // A plain read says more than an atomic one.
        bool weaker = read.atomic && !now.atomic;
        if (read.group == 0 || same || before || simd_before || weaker) {
            read = now;
            return;
        }
    }
    // Three by one SIMD group say no more than two: the third place is for another.
    Access& third = cell.reads[2];
    bool one_simd = third.group == cell.reads[0].group && third.thread / width == cell.reads[0].thread / width;
    if (one_simd && !same_simd(third)) third = now;
}

void Grid::access(uintptr_t at, size_t bytes, bool write, bool atomic, void* from) {
    if (stacks().contains(at)) return;
    for (Range& range : ranges) {
        if (at < range.from || at >= range.to) continue;
        if (at + bytes > range.to || (write && !range.writable)) break;
        Access now;
        now.group = group;
        now.thread = static_cast<unsigned short>(current);
        now.atomic = atomic;
        now.epoch = range.threadgroup ? threadgroup_epoch : device_epoch;
        now.simd_epoch = simd_epochs[range.threadgroup][current / width];
        if (range.cells.empty()) return;
        size_t first = (at - range.from) / 4, last = (at + bytes - 1 - range.from) / 4;
        for (size_t word = first; word <= last; word++) note(range, range.cells[word], now, write, from);
        if (fault_count > 0 && stopped) stop_thread();
        return;
    }
    for (const Range& range : ranges) {
        if (write && !range.writable && at >= range.from && at < range.to) {
            fault("write of %zu bytes to %s, which is read-only, thread %u %s", bytes, range.name.c_str(), current,
                  place(from).c_str());
            stop_thread();
        }
    }
    // Which range it was meant for is not known; the nearest one tells most.
    const Range* nearest = nullptr;
    size_t best = ~size_t(0);
    for (const Range& range : ranges) {
        size_t away = at < range.from ? range.from - at : at >= range.to ? at - range.to : 0;
        if (away < best) best = away, nearest = &range;
    }
    fault("%s of %zu bytes outside all memory: %zu bytes %s %s, thread %u %s", write ? "write" : "read", bytes, best,
          nearest && at < nearest->from ? "before" : "after", nearest ? nearest->name.c_str() : "nothing", current,
          place(from).c_str());
    stop_thread();
}

namespace {
inline void plain(void* at, size_t bytes, bool write, void* from) {
    if (grid) grid->access(reinterpret_cast<uintptr_t>(at), bytes, write, false, from);
}
inline void atomically(const volatile void* at, size_t bytes, bool write, void* from) {
    if (grid) grid->access(reinterpret_cast<uintptr_t>(at), bytes, write, true, from);
}
}  // namespace

}  // namespace kiln

#define FROM __builtin_return_address(0)
#define PLAIN(N)                                                                                \
    extern "C" void __tsan_read##N(void* at) { kiln::plain(at, N, false, FROM); }               \
    extern "C" void __tsan_write##N(void* at) { kiln::plain(at, N, true, FROM); }               \
    extern "C" void __tsan_unaligned_read##N(void* at) { kiln::plain(at, N, false, FROM); }     \
    extern "C" void __tsan_unaligned_write##N(void* at) { kiln::plain(at, N, true, FROM); }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
extern "C" void __tsan_read_range(void* at, size_t bytes) { kiln::plain(at, bytes, false, FROM); }
extern "C" void __tsan_write_range(void* at, size_t bytes) { kiln::plain(at, bytes, true, FROM); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}

// The sanitizer turns atomic built-ins into these, which must do the work as well.
#define CHANGE(BITS, T, NAME)                                                                  \
    extern "C" T __tsan_atomic##BITS##_##NAME(volatile T* at, T v, int) {                      \
        kiln::atomically(at, sizeof(T), true, FROM);                                           \
        return __atomic_##NAME(at, v, __ATOMIC_RELAXED);                                       \
    }
#define ATOMIC(BITS, T)                                                                                      \
    extern "C" T __tsan_atomic##BITS##_load(const volatile T* at, int) {                                     \
        kiln::atomically(at, sizeof(T), false, FROM);                                                        \
        return __atomic_load_n(at, __ATOMIC_RELAXED);                                                        \
    }                                                                                                        \
    extern "C" void __tsan_atomic##BITS##_store(volatile T* at, T v, int) {                                  \
        kiln::atomically(at, sizeof(T), true, FROM);                                                         \
        __atomic_store_n(at, v, __ATOMIC_RELAXED);                                                           \
    }                                                                                                        \
    extern "C" T __tsan_atomic##BITS##_exchange(volatile T* at, T v, int) {                                  \
        kiln::atomically(at, sizeof(T), true, FROM);                                                         \
        return __atomic_exchange_n(at, v, __ATOMIC_RELAXED);                                                 \
    }                                                                                                        \
    extern "C" int __tsan_atomic##BITS##_compare_exchange_weak(volatile T* at, T* expected, T v, int, int) { \
        kiln::atomically(at, sizeof(T), true, FROM);                                                         \
        return __atomic_compare_exchange_n(at, expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);      \
    }                                                                                                        \
    extern "C" int __tsan_atomic##BITS##_compare_exchange_strong(volatile T* at, T* expected, T v, int, int) { \
        kiln::atomically(at, sizeof(T), true, FROM);                                                         \
        return __atomic_compare_exchange_n(at, expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);      \
    }                                                                                                        \
    extern "C" T __tsan_atomic##BITS##_compare_exchange_val(volatile T* at, T expected, T v, int, int) {     \
        kiln::atomically(at, sizeof(T), true, FROM);                                                         \
        __atomic_compare_exchange_n(at, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);            \
        return expected;                                                                                     \
    }                                                                                                        \
    CHANGE(BITS, T, fetch_add)                                                                               \
    CHANGE(BITS, T, fetch_sub)                                                                               \
    CHANGE(BITS, T, fetch_and)                                                                               \
    CHANGE(BITS, T, fetch_or)                                                                                \
    CHANGE(BITS, T, fetch_xor)
ATOMIC(32, unsigned)
ATOMIC(64, unsigned long)
