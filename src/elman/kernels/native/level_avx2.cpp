// AVX2 and FMA: 16 registers of 8 floats, of which up to 12 hold sums.
#define ELMAN_ISA isa_avx2
#define ELMAN_WIDTH 8
#define ELMAN_TILE_1 6
#define ELMAN_TILE_2 6
#define ELMAN_TILE_3 4
#include "levels.h"

#include "vectors.inl"

#include "recurrence.inl"

const Kernels kernels_avx2 = {"avx2", isa_avx2::recurrence_kernels};
