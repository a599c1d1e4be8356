// Between compiled kernels, the host that runs their threads, and the Rust side. Plain C, one meaning on all three.
#pragma once

#define KILN_MAX_SIMD 64

#ifdef __SANITIZE_THREAD__
// Reads memory of the host, which the checks do not know.
#define KILN_UNCHECKED __attribute__((no_sanitize("thread")))
#else
#define KILN_UNCHECKED
#endif

extern "C" {

// One thread of a kernel: its built-in values, and where its buffers and threadgroup variables are.
struct kiln_thread {
    unsigned thread_position_in_grid[3];
    unsigned thread_position_in_threadgroup[3];
    unsigned threadgroup_position_in_grid[3];
    unsigned threadgroups_per_grid[3];
    unsigned threads_per_threadgroup[3];
    unsigned threads_per_grid[3];
    unsigned thread_index_in_threadgroup;
    unsigned thread_index_in_simdgroup;
    unsigned simdgroup_index_in_threadgroup;
    unsigned threads_per_simdgroup;
    unsigned simdgroups_per_threadgroup;
    void* const* buffers;
    void* const* threadgroup_memory;
};

typedef void (*kiln_entry)(const kiln_thread*);

// A compiled kernel, as its library exports it.
struct kiln_kernel {
    kiln_entry entry;
    // Bytes of each threadgroup variable.
    const unsigned long* memory_bytes;
    unsigned memories;
};

// What all lanes gave to one operation of a SIMD group.
struct kiln_exchange {
    unsigned width;
    unsigned long values[KILN_MAX_SIMD];
};

// Called by kernels. `line` is the MSL line.
void kiln_host_barrier(unsigned flags, unsigned line);
void kiln_host_simd_barrier(unsigned flags, unsigned line);
const kiln_exchange* kiln_host_exchange(unsigned long mine, unsigned line);
unsigned kiln_host_lane();
// A threadgroup variable that is declared inside the kernel.
void* kiln_host_memory(unsigned index);

// A buffer of a dispatch.
struct kiln_buffer {
    void* at;
    unsigned long bytes;
    unsigned writable;
};

enum {
    // The kernel was compiled with checks: note races, reads of unwritten memory, accesses outside buffers.
    KILN_CHECK = 1,
    // Subnormal numbers are zero, as a GPU may have it.
    KILN_FLUSH = 2,
};

// One dispatch. `threads` per threadgroup, in one dimension.
struct kiln_dispatch {
    const kiln_kernel* code;
    unsigned threads;
    unsigned groups[2];
    unsigned simd_width;
    unsigned mode;
    // The order of threads and threadgroups is drawn from it.
    unsigned long seed;
    const kiln_buffer* buffers;
    unsigned buffer_count;
};

// Runs a dispatch. Returns 0, or the length of a report in `report`: one line for each fault.
unsigned long kiln_run(const kiln_dispatch* dispatch, char* report, unsigned long capacity);

}  // extern "C"
