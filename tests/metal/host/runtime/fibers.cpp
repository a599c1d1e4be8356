// The switch of stacks, for each processor.
//
// A called function finds the stack pointer where its processor's convention wants it, because kiln_begin calls with the
// stack at a multiple of 16.

#include "fibers.h"

#if defined(__x86_64__)
asm(R"(
.text
.globl kiln_switch
.hidden kiln_switch
kiln_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.globl kiln_begin
.hidden kiln_begin
kiln_begin:
    movq %r12, %rdi
    call *%r13
    ud2
)");
void kiln::prepare(uint64_t* frame, void (*function)(void*), void* argument) {
    frame[2] = reinterpret_cast<uint64_t>(function);  // r13
    frame[3] = reinterpret_cast<uint64_t>(argument);  // r12
    frame[1] = frame[0] = frame[4] = frame[5] = 0;
    frame[6] = reinterpret_cast<uint64_t>(kiln_begin);
}
#elif defined(__aarch64__)
asm(R"(
.text
.globl kiln_switch
.hidden kiln_switch
kiln_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.globl kiln_begin
.hidden kiln_begin
kiln_begin:
    mov x0, x19
    blr x20
    brk #1
)");
void kiln::prepare(uint64_t* frame, void (*function)(void*), void* argument) {
    for (size_t i = 0; i < SAVED; i++) frame[i] = 0;
    frame[0] = reinterpret_cast<uint64_t>(argument);    // x19
    frame[1] = reinterpret_cast<uint64_t>(function);    // x20
    frame[11] = reinterpret_cast<uint64_t>(kiln_begin);  // x30
}
#endif
