// A dispatch under way on one system thread.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>
#include <vector>

#include "fibers.h"
#include "host.h"

namespace kiln {

// Draws orders. splitmix64.
struct Random {
    uint64_t state;
    uint64_t next() {
        state += 0x9e3779b97f4a7c15;
        uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    unsigned below(unsigned n) { return unsigned((next() >> 32) * n >> 32); }
};

enum class State : unsigned char { Fresh, Runnable, AtBarrier, AtExchange, Done };

// One thread of the threadgroup that runs.
struct Thread {
    State state;
    unsigned line;   // of the barrier or operation where it waits
    unsigned flags;  // of that barrier
    uint64_t calls;  // by which it came there: a hash of return addresses
    int stack;       // -1: none yet
    void* pointer;   // where it goes on
    unsigned long given;
    kiln_thread values;
};

struct Access {
    unsigned group = 0;  // serial number from 1; 0: none
    unsigned short thread = 0;
    bool atomic = false;
    // Barriers that the threadgroup has passed, and that the thread's SIMD group has, of those that order this memory.
    unsigned epoch = 0;
    unsigned simd_epoch = 0;
};

// What was last done to one word. Of reads three are kept: two by different threads of one SIMD group, one by another
// SIMD group. A write conflicts with one of them if it conflicts with any, unless reads are atomic as well as plain, of
// which the plain ones are kept.
struct Cell {
    Access write, reads[3];
};

// A stretch of memory that a kernel may access.
struct Range {
    uintptr_t from;
    uintptr_t to;
    bool threadgroup;
    bool writable;
    std::string name;
    std::vector<Cell> cells;
};

class Grid {
public:
    explicit Grid(const kiln_dispatch& dispatch);
    void run();
    const std::string& report() const { return faults; }

    // The calling thread waits.
    void barrier(unsigned flags, unsigned line, uint64_t calls);
    void simd_barrier(unsigned flags, unsigned line) { exchange(0, flags, line); }
    const kiln_exchange* exchange(unsigned long mine, unsigned flags, unsigned line);
    unsigned lane() const { return threads[current].values.thread_index_in_simdgroup; }

    void* memory(unsigned index) const { return memories[index]; }

    // A checked access by the calling thread.
    void access(uintptr_t at, size_t bytes, bool write, bool atomic, void* from);

private:
    static void enter(void* self);
    void run_group(unsigned x, unsigned y);
    void resume(unsigned thread);
    void wait(State state, unsigned flags, unsigned line);
    bool release_exchanges();
    bool release_barrier();
    void fault(const char* format, ...) __attribute__((format(printf, 2, 3)));
    [[noreturn]] void stop_thread();
    bool conflicts(const Access& earlier, const Range& range, const Access& now) const;
    void note(Range& range, Cell& cell, const Access& now, bool write, void* from);
    void describe(const char* what, const Range& range, uintptr_t at, const Access& earlier, void* from);
    void poison();
    void check_guards();

    const kiln_dispatch& dispatch;
    Random random;
    unsigned width;
    std::vector<Thread> threads;
    std::vector<unsigned> order;
    std::vector<kiln_exchange> exchanges;
    // Of each SIMD group, for device memory and for threadgroup memory.
    std::vector<unsigned> simd_epochs[2];
    std::vector<void*> buffers;
    std::vector<uint64_t> arena;
    std::vector<void*> memories;
    std::vector<Range> ranges;
    std::vector<int> free_stacks;
    void* scheduler = nullptr;
    unsigned current = 0;
    unsigned group = 0;
    unsigned device_epoch = 0;
    unsigned threadgroup_epoch = 0;
    bool stopped = false;
    unsigned fault_count = 0;
    std::string faults;
};

// The grid of this system thread, if one runs.
extern thread_local Grid* grid __attribute__((tls_model("initial-exec")));
Stacks& stacks();

}  // namespace kiln
