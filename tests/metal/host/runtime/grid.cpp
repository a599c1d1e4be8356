// The scheduler: threadgroups one after another in random order, each one's threads as fibers in random order.
//
// A thread runs until it waits at a barrier or an operation of its SIMD group, or ends. When none can go on, SIMD
// groups whose threads all wait at one operation exchange their values; where there are none, the barrier opens, if
// every thread of the threadgroup waits at it. What is left is divergence, and reported.

#include "grid.h"

#include <cstring>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace kiln {

thread_local Grid* grid = nullptr;

Stacks& stacks() {
    static thread_local Stacks all;
    return all;
}

namespace {
// Between threadgroup variables, so that an index out of bounds hits nothing.
constexpr size_t GAP = 256;
constexpr unsigned MOST_FAULTS = 8;
}  // namespace

Grid::Grid(const kiln_dispatch& dispatch)
    : dispatch(dispatch), random{dispatch.seed}, width(dispatch.simd_width), threads(dispatch.threads),
      order(dispatch.threads), exchanges((dispatch.threads + width - 1) / width) {
    for (auto& epochs : simd_epochs) epochs.resize(exchanges.size());
    size_t bytes = GAP;
    for (unsigned i = 0; i < dispatch.code->memories; i++) {
        bytes += (dispatch.code->memory_bytes[i] + 15) / 16 * 16 + GAP;
    }
    arena.resize(bytes / 8);
    char* at = reinterpret_cast<char*>(arena.data()) + GAP;
    for (unsigned i = 0; i < dispatch.code->memories; i++) {
        size_t size = dispatch.code->memory_bytes[i];
        memories.push_back(at);
        if (dispatch.mode & KILN_CHECK) {
            auto from = reinterpret_cast<uintptr_t>(at);
            ranges.push_back({from, from + size, true, true, "threadgroup variable " + std::to_string(i),
                              std::vector<Cell>((size + 3) / 4)});
        }
        at += (size + 15) / 16 * 16 + GAP;
    }
    for (unsigned i = 0; i < dispatch.buffer_count; i++) {
        const kiln_buffer& buffer = dispatch.buffers[i];
        buffers.push_back(buffer.at);
        if (dispatch.mode & KILN_CHECK) {
            auto from = reinterpret_cast<uintptr_t>(buffer.at);
            // What nobody writes cannot race.
            size_t words = buffer.writable ? (buffer.bytes + 3) / 4 : 0;
            ranges.push_back({from, from + buffer.bytes, false, buffer.writable != 0, "buffer " + std::to_string(i),
                              std::vector<Cell>(words)});
        }
    }
    for (unsigned t = 0; t < dispatch.threads; t++) order[t] = t;
}

void Grid::run() {
    if (!stacks().reserve(dispatch.threads)) {
        fault("no memory for %u stacks", dispatch.threads);
        return;
    }
    for (unsigned t = 0; t < dispatch.threads; t++) free_stacks.push_back(int(dispatch.threads - 1 - t));
    std::vector<unsigned> groups(size_t(dispatch.groups[0]) * dispatch.groups[1]);
    for (unsigned i = 0; i < groups.size(); i++) {
        unsigned j = random.below(i + 1);
        groups[i] = groups[j];
        groups[j] = i;
    }
    for (unsigned number : groups) {
        run_group(number % dispatch.groups[0], number / dispatch.groups[0]);
        if (stopped) return;
    }
}

// Memory of threadgroups holds what others left there: noise that changes.
void Grid::poison() {
    uint64_t noise = random.next() | 0x7fc000007fc00000;
    for (uint64_t& word : arena) word = noise;
}

void Grid::check_guards() {
    if (arena.empty()) return;
    uint64_t noise = arena[0];
    auto begin = reinterpret_cast<char*>(arena.data());
    char* from = begin;
    for (unsigned i = 0; i <= memories.size(); i++) {
        char* to = i < memories.size() ? static_cast<char*>(memories[i]) : begin + arena.size() * 8;
        for (char* at = from; at < to; at += 8) {
            if (std::memcmp(at, &noise, 8) != 0) {
                fault("write outside threadgroup memory, %ld bytes before variable %u", long(to - at), i);
                return;
            }
        }
        if (i < memories.size()) {
            from = static_cast<char*>(memories[i]) + (dispatch.code->memory_bytes[i] + 15) / 16 * 16;
        }
    }
}

void Grid::run_group(unsigned x, unsigned y) {
    group++;
    device_epoch = threadgroup_epoch = 0;
    for (auto& epochs : simd_epochs) std::fill(epochs.begin(), epochs.end(), 0);
    poison();
    unsigned count = dispatch.threads;
    for (unsigned t = 0; t < count; t++) {
        Thread& thread = threads[t];
        thread.state = State::Fresh;
        thread.stack = -1;
        thread.values = {};
        auto three = [](unsigned (&to)[3], unsigned a, unsigned b) { to[0] = a, to[1] = b, to[2] = 1; };
        kiln_thread& v = thread.values;
        v.thread_position_in_grid[0] = x * count + t;
        v.thread_position_in_grid[1] = y;
        v.thread_position_in_threadgroup[0] = t;
        v.threadgroup_position_in_grid[0] = x;
        v.threadgroup_position_in_grid[1] = y;
        three(v.threadgroups_per_grid, dispatch.groups[0], dispatch.groups[1]);
        three(v.threads_per_threadgroup, count, 1);
        three(v.threads_per_grid, dispatch.groups[0] * count, dispatch.groups[1]);
        v.thread_index_in_threadgroup = t;
        v.thread_index_in_simdgroup = t % width;
        v.simdgroup_index_in_threadgroup = t / width;
        v.threads_per_simdgroup = width;
        v.simdgroups_per_threadgroup = (count + width - 1) / width;
        v.buffers = buffers.data();
        v.threadgroup_memory = memories.data();
    }
    for (;;) {
        for (unsigned i = count; i > 1; i--) std::swap(order[i - 1], order[random.below(i)]);
        bool all_done = true;
        for (unsigned t : order) {
            if (threads[t].state == State::Fresh || threads[t].state == State::Runnable) resume(t);
            if (stopped) return;
            all_done = all_done && threads[t].state == State::Done;
        }
        if (all_done) break;
        if (!release_exchanges() && !release_barrier()) {
            stopped = true;
            return;
        }
    }
    check_guards();
}

void Grid::enter(void* self) {
    Thread& thread = *static_cast<Thread*>(self);
    grid->dispatch.code->entry(&thread.values);
    thread.state = State::Done;
    kiln_switch(&thread.pointer, grid->scheduler);
}

void Grid::resume(unsigned t) {
    Thread& thread = threads[t];
    if (thread.state == State::Fresh) {
        thread.stack = free_stacks.back();
        free_stacks.pop_back();
        thread.pointer = stacks().start(size_t(thread.stack), enter, &thread);
    }
    thread.state = State::Runnable;
    current = t;
    kiln_switch(&scheduler, thread.pointer);
    if (thread.state == State::Done) free_stacks.push_back(thread.stack);
}

void Grid::wait(State state, unsigned flags, unsigned line) {
    Thread& thread = threads[current];
    thread.state = state;
    thread.flags = flags;
    thread.line = line;
    kiln_switch(&thread.pointer, scheduler);
}

void Grid::stop_thread() {
    stopped = true;
    kiln_switch(&threads[current].pointer, scheduler);
    __builtin_unreachable();
}

void Grid::barrier(unsigned flags, unsigned line, uint64_t calls) {
    threads[current].calls = calls;
    wait(State::AtBarrier, flags, line);
}

const kiln_exchange* Grid::exchange(unsigned long mine, unsigned flags, unsigned line) {
    threads[current].given = mine;
    wait(State::AtExchange, flags, line);
    return &exchanges[current / width];
}

// Lets SIMD groups go on whose threads all wait at one operation; whether there was one.
bool Grid::release_exchanges() {
    bool any = false;
    for (unsigned simd = 0; simd < exchanges.size(); simd++) {
        unsigned first = simd * width, last = std::min(first + width, dispatch.threads);
        unsigned waiting = last;
        for (unsigned t = first; t < last; t++) {
            if (threads[t].state == State::AtExchange) waiting = t;
        }
        if (waiting == last) continue;
        for (unsigned t = first; t < last; t++) {
            const Thread& thread = threads[t];
            if (thread.state == State::AtExchange && thread.line == threads[waiting].line) continue;
            const char* where = thread.state == State::Done ? "has ended" : "waits elsewhere";
            fault("line %u: operation of a SIMD group in divergent flow: thread %u is there, thread %u %s",
                  threads[waiting].line, waiting, t, where);
            stopped = true;
            return true;
        }
        exchanges[simd].width = last - first;
        // Operations of a SIMD group order no memory; its barriers do.
        if (threads[waiting].flags & 1) simd_epochs[0][simd]++;
        if (threads[waiting].flags & 2) simd_epochs[1][simd]++;
        for (unsigned t = first; t < last; t++) {
            exchanges[simd].values[t - first] = threads[t].given;
            threads[t].state = State::Runnable;
        }
        any = true;
    }
    return any;
}

// Opens the barrier where all threads wait; false, and a report, where they do not.
bool Grid::release_barrier() {
    unsigned waiting = 0;
    while (threads[waiting].state != State::AtBarrier) waiting++;
    for (unsigned t = 0; t < dispatch.threads; t++) {
        if (threads[t].state == State::Done) {
            fault("line %u: divergent barrier: thread %u waits there, thread %u has ended", threads[waiting].line,
                  waiting, t);
            return false;
        }
        if (threads[t].line != threads[waiting].line) {
            fault("divergent barriers: thread %u waits at line %u, thread %u at line %u", waiting,
                  threads[waiting].line, t, threads[t].line);
            return false;
        }
    }
    // One line of a function that is called from two places is two barriers. Builds with fast math may have two copies of
    // one place.
    for (unsigned t = 0; t < dispatch.threads && !(dispatch.mode & KILN_FLUSH); t++) {
        if (threads[t].calls != threads[waiting].calls) {
            fault("line %u: divergent barrier: threads %u and %u came there by different calls", threads[waiting].line,
                  waiting, t);
            return false;
        }
    }
    unsigned flags = threads[waiting].flags;
    if (flags & 1) device_epoch++;
    if (flags & 2) threadgroup_epoch++;
    for (Thread& thread : threads) thread.state = State::Runnable;
    return true;
}

void Grid::fault(const char* format, ...) {
    if (++fault_count > MOST_FAULTS) {
        stopped = true;
        return;
    }
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (faults.find(line) == std::string::npos) faults += std::string(line) + "\n";
}

}  // namespace kiln

using kiln::grid;

// Kernels and this library keep frame pointers: a frame begins with the one before it and the return address.
void kiln_host_barrier(unsigned flags, unsigned line) {
    uint64_t calls = 0;
    auto frame = static_cast<uintptr_t*>(__builtin_frame_address(0));
    while (kiln::stacks().contains(reinterpret_cast<uintptr_t>(frame))) {
        calls = (calls ^ frame[1]) * 0x9e3779b97f4a7c15;
        frame = reinterpret_cast<uintptr_t*>(frame[0]);
    }
    grid->barrier(flags, line, calls);
}
void kiln_host_simd_barrier(unsigned flags, unsigned line) { grid->simd_barrier(flags, line); }
const kiln_exchange* kiln_host_exchange(unsigned long mine, unsigned line) { return grid->exchange(mine, 0, line); }
unsigned kiln_host_lane() { return grid->lane(); }
void* kiln_host_memory(unsigned index) { return grid->memory(index); }

unsigned long kiln_run(const kiln_dispatch* dispatch, char* report, unsigned long capacity) {
    kiln::Grid all(*dispatch);
    grid = &all;
#if defined(__x86_64__)
    // Flush subnormals to zero, and take them for zero.
    unsigned before = _mm_getcsr();
    if (dispatch->mode & KILN_FLUSH) _mm_setcsr(before | 0x8040);
    all.run();
    _mm_setcsr(before);
#elif defined(__aarch64__)
    uint64_t before, flush;
    asm volatile("mrs %0, fpcr" : "=r"(before));
    flush = before | (dispatch->mode & KILN_FLUSH ? 1ul << 24 : 0);
    asm volatile("msr fpcr, %0" ::"r"(flush));
    all.run();
    asm volatile("msr fpcr, %0" ::"r"(before));
#endif
    grid = nullptr;
    size_t length = std::min<size_t>(all.report().size(), capacity);
    std::memcpy(report, all.report().data(), length);
    return length;
}
