// AVX-512 with VNNI, which multiplies four int8 pairs a lane at once: the products of int8 alone.
#define ELMAN_ISA isa_avx512_vnni
#define ELMAN_WIDTH 16
#include "vectors.inl"

#include "generation_int8.inl"

extern const MultiplyInt8 multiply_int8_avx512_vnni;
const MultiplyInt8 multiply_int8_avx512_vnni = isa_avx512_vnni::multiply_int8;
