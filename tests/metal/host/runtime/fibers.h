// Threads of a threadgroup as fibers of one system thread: a stack each, a switch of a few instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

namespace kiln {

// The lowest page of each is a trap; a page has 64 KiB at most.
constexpr size_t STACK = 192 << 10;

// Saves the callee-saved registers on the current stack, leaves its pointer in *save, and goes on at `load`.
extern "C" void kiln_switch(void** save, void* load);
// Where a new fiber begins: calls its function with its argument, from two callee-saved registers.
extern "C" void kiln_begin();

// Registers that a switch saves, in words of a new fiber's first frame.
#if defined(__x86_64__)
constexpr size_t SAVED = 7;
#elif defined(__aarch64__)
constexpr size_t SAVED = 20;
#else
#error "the host switches fibers on x86-64 and 64-bit Arm"
#endif

// Fills the first frame: a switch to it calls function(argument) by way of kiln_begin.
void prepare(uint64_t* frame, void (*function)(void*), void* argument);

// Stacks of one system thread, in one stretch of memory that is committed as it is touched.
class Stacks {
public:
    ~Stacks() {
        if (memory) munmap(memory, count * STACK);
    }
    // Makes room for `wanted` stacks; false if there is no memory.
    bool reserve(size_t wanted) {
        if (wanted <= count) return true;
        if (memory) munmap(memory, count * STACK);
        void* at = mmap(nullptr, wanted * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memory = at == MAP_FAILED ? nullptr : static_cast<char*>(at);
        count = memory ? wanted : 0;
        size_t page = size_t(sysconf(_SC_PAGESIZE));
        for (size_t i = 0; i < count; i++) mprotect(memory + i * STACK, page, PROT_NONE);
        return memory;
    }
    bool contains(uintptr_t at) const {
        return at - reinterpret_cast<uintptr_t>(memory) < count * STACK;
    }
    // A fiber on stack `index` that will call function(argument), which never returns.
    void* start(size_t index, void (*function)(void*), void* argument) {
        char* top = memory + (index + 1) * STACK - 16;
        uint64_t* frame = reinterpret_cast<uint64_t*>(top) - SAVED;
        prepare(frame, function, argument);
        return frame;
    }

private:
    char* memory = nullptr;
    size_t count = 0;
};

}  // namespace kiln
