// AVX-512 and FMA: 32 registers of 16 floats, of which up to 24 hold sums.
#define ELMAN_ISA isa_avx512
#define ELMAN_WIDTH 16
#define ELMAN_TILE_1 12
#define ELMAN_TILE_2 12
#define ELMAN_TILE_3 8
#include "levels.h"

#include "vectors.inl"

#include "recurrence.inl"

const Kernels kernels_avx512 = {"avx512", isa_avx512::recurrence_kernels};
