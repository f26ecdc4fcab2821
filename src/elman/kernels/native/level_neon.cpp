// NEON of AArch64: 32 registers of 4 floats, of which up to 24 hold sums.
#define ELMAN_ISA isa_neon
#define ELMAN_WIDTH 4
#define ELMAN_TILE_1 12
#define ELMAN_TILE_2 12
#define ELMAN_TILE_3 8
#define ELMAN_TILE_4 6
#include "levels.h"

#include "vectors.inl"

#include "recurrence.inl"

const Kernels kernels_neon = {"neon", isa_neon::recurrence_kernels};
