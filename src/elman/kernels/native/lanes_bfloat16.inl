// What products are made of in bfloat16, by AVX512_BF16: two neighbours of the depth to a lane of 32 bits,
// sums in float32. Lanes are carried in float arrays, but only ever moved as bits.

namespace ELMAN_ISA {
namespace {

constexpr ptrdiff_t D = 2;  // numbers of the depth in a lane

ELMAN_INLINE V broadcast(const float *lane) {
    int32_t bits;
    memcpy(&bits, lane, sizeof bits);
    return (V)_mm512_set1_epi32(bits);
}

ELMAN_INLINE V multiply_add(V sum, V a, V b) {
    return (V)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

// Lane i holds even_i and odd_i.
ELMAN_INLINE V lanes(V even, V odd) {
    const __mmask16 every = 0xffff;  // the unmasked form warns of its own undefined register
    const VI low = (VI)_mm512_maskz_cvtepu16_epi32(every, (__m256i)_mm512_cvtneps_pbh((__m512)even));
    const VI high = (VI)_mm512_maskz_cvtepu16_epi32(every, (__m256i)_mm512_cvtneps_pbh((__m512)odd));
    return (V)(low | high << 16);
}

ELMAN_INLINE float lane(float even, float odd) { return lanes(all(even), all(odd))[0]; }

// Lanes of first_0 and first_1, first_2 and first_3, … then those of second.
ELMAN_INLINE V neighbours(V first, V second) {
    return (V)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
}

// The way back from neighbours.
ELMAN_INLINE void apart_again(V both, V &first, V &second) {
    const __mmask16 every = 0xffff;
    __m256i halves[2];
    memcpy(halves, &both, sizeof halves);
    first = (V)((VI)_mm512_maskz_cvtepu16_epi32(every, halves[0]) << 16);
    second = (V)((VI)_mm512_maskz_cvtepu16_epi32(every, halves[1]) << 16);
}

}  // namespace
}  // namespace ELMAN_ISA
