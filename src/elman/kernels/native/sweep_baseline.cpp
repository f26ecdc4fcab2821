// Vectors of four floats, which any compiler knows; 16 registers, of which up to 12 hold sums.
#define ELMAN_ISA isa_baseline
#define ELMAN_WIDTH 4
#define ELMAN_TILE_1 6
#define ELMAN_TILE_2 6
#define ELMAN_TILE_3 4
#include "sweep.inl"

const Kernels kernels_baseline = {"baseline", isa_baseline::packed_size, isa_baseline::scratch_size,
                                  isa_baseline::pack, isa_baseline::forward,
                                  isa_baseline::backward};
