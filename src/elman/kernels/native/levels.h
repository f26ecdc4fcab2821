// The instruction sets that this file was built with, each with all its kernels.
#pragma once
#include "recurrence.h"

struct Kernels {
    const char *name;
    RecurrenceKernels recurrence;
};

extern const Kernels kernels_baseline;
#ifdef ELMAN_HAVE_X86
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;
#endif
