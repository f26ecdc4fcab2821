// Vectors of four floats, which any compiler knows; 16 registers, of which up to 12 hold sums.
#define ELMAN_ISA isa_baseline
#define ELMAN_WIDTH 4
#define ELMAN_TILE_1 6
#define ELMAN_TILE_2 6
#define ELMAN_TILE_3 4
#include "levels.h"

#include "vectors.inl"

#include "recurrence.inl"

const Kernels kernels_baseline = {"baseline", isa_baseline::recurrence_kernels};
