// Lock discipline as attributes. Clang checks them with -Wthread-safety (the `clang` preset makes that an
// error); other compilers ignore them.
#pragma once

// Abseil's headers define three of these names; theirs go first, so that the order of includes does not
// matter.
#include "absl/base/thread_annotations.h"
#undef GUARDED_BY
#undef PT_GUARDED_BY
#undef NO_THREAD_SAFETY_ANALYSIS

#if defined(__clang__)
#define QANAT_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define QANAT_THREAD_ATTRIBUTE(x)
#endif

#define CAPABILITY(x) QANAT_THREAD_ATTRIBUTE(capability(x))
#define SCOPED_CAPABILITY QANAT_THREAD_ATTRIBUTE(scoped_lockable)
#define GUARDED_BY(x) QANAT_THREAD_ATTRIBUTE(guarded_by(x))
#define PT_GUARDED_BY(x) QANAT_THREAD_ATTRIBUTE(pt_guarded_by(x))
#define REQUIRES(...) QANAT_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) QANAT_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) QANAT_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) QANAT_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) QANAT_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS QANAT_THREAD_ATTRIBUTE(no_thread_safety_analysis)
