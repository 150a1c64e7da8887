// QANAT_UNROLL before a loop of constant length: all of it, so that arrays of vectors become registers.
#pragma once

#if defined(__clang__)
#define QANAT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define QANAT_UNROLL _Pragma("GCC unroll 64")
#endif
