// Scalar types, and as_type.
#pragma once

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long uint64_t;
typedef long int64_t;
typedef unsigned long size_t;
typedef _Float16 half;

static_assert(sizeof(ushort) == 2 && sizeof(uint) == 4 && sizeof(ulong) == 8 && sizeof(half) == 2, "Metal's sizes");

template <class T, class U>
inline T as_type(U value) {
    static_assert(sizeof(T) == sizeof(U), "as_type keeps the size");
    return __builtin_bit_cast(T, value);
}

namespace metal {
using ::as_type;
using ::half;
using ::uchar;
using ::uint;
using ::ulong;
using ::ushort;
}  // namespace metal

// NAME(type) for every integer or floating-point type.
#define KILN_SIGNED(NAME) NAME(char) NAME(short) NAME(int) NAME(long)
#define KILN_UNSIGNED(NAME) NAME(uchar) NAME(ushort) NAME(uint) NAME(ulong)
#define KILN_INTEGERS(NAME) KILN_SIGNED(NAME) KILN_UNSIGNED(NAME)
#define KILN_FLOATS(NAME) NAME(float) NAME(half)
#define KILN_NUMBERS(NAME) KILN_INTEGERS(NAME) KILN_FLOATS(NAME)
