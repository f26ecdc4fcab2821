// AVX-512 with bfloat16 products: the layer with softmax alone, for training that asks for it.
#define ELMAN_ISA isa_avx512bf16
#define ELMAN_WIDTH 16
#define ELMAN_TILE_2 12
#include "vectors.inl"

#include "lanes_bfloat16.inl"

#include "softmax.inl"

extern const SoftmaxKernels softmax_avx512bf16;
const SoftmaxKernels softmax_avx512bf16 = isa_avx512bf16::softmax_kernels;
