// Products of int8 weights with int8 vectors, exact in int32, compiled once for each instruction set
// after vectors.inl: with VNNI, with AVX2 in halves of 32 bytes, or with what any compiler knows.
#include "generation.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ELMAN_ISA {
namespace {

#if defined(__AVX512VNNI__)

typedef __m512i Sum8;  // of one vector of rows
typedef __m512i Four8;

ELMAN_INLINE Four8 four_steps(const uint8_t *x) {
    int32_t four;
    memcpy(&four, x, 4);
    return _mm512_set1_epi32(four);
}

ELMAN_INLINE void add_products(Sum8 &sum, const unsigned char *w, const Four8 &x) {
    sum = _mm512_dpbusd_epi32(sum, x, _mm512_loadu_si512(w));
}

// The operand is unsigned, 128 too high: what that adds is known for each row.
ELMAN_INLINE VI whole_sum(const Sum8 &sum, const int32_t *sums) {
    return (VI)_mm512_sub_epi32(sum, _mm512_loadu_si512(sums));
}

#elif defined(__AVX2__)

struct Sum8 {
    __m256i half[W / 8];
};
struct Four8 {
    __m256i steps, absolute;
};

ELMAN_INLINE Four8 four_steps(const uint8_t *x) {
    int32_t four;
    memcpy(&four, x, 4);
    __m256i steps = _mm256_xor_si256(_mm256_set1_epi32(four), _mm256_set1_epi8((char)0x80));
    return {steps, _mm256_abs_epi8(steps)};
}

// |x| · (w with the sign of x): two products of at most 127 · 127 never saturate 16 bits.
ELMAN_INLINE void add_products(Sum8 &sum, const unsigned char *w, const Four8 &x) {
#pragma GCC unroll 2
    for (int h = 0; h < W / 8; h++) {
        __m256i weights = _mm256_loadu_si256((const __m256i *)(w + 32 * h));
        __m256i pairs = _mm256_maddubs_epi16(x.absolute, _mm256_sign_epi8(weights, x.steps));
        __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        sum.half[h] = _mm256_add_epi32(sum.half[h], fours);
    }
}

ELMAN_INLINE VI whole_sum(const Sum8 &sum, const int32_t *) {
    VI all_sums;
    memcpy(&all_sums, &sum, sizeof all_sums);
    return all_sums;
}

#else

typedef VI Sum8;
struct Four8 {
    int32_t step[4];
};

ELMAN_INLINE Four8 four_steps(const uint8_t *x) {
    return {{x[0] - 128, x[1] - 128, x[2] - 128, x[3] - 128}};
}

ELMAN_INLINE void add_products(Sum8 &sum, const unsigned char *w, const Four8 &x) {
    typedef uint32_t VU __attribute__((vector_size(W * 4)));
    VU word;
    memcpy(&word, w, sizeof word);
    sum += ((VI)(word << 24) >> 24) * x.step[0] + ((VI)(word << 16) >> 24) * x.step[1];
    sum += ((VI)(word << 8) >> 24) * x.step[2] + ((VI)word >> 24) * x.step[3];
}

ELMAN_INLINE VI whole_sum(const Sum8 &sum, const int32_t *) { return sum; }

#endif

template <int MR, int NP, int NV>
void tile_int8(const PackedMatrix &m, const Operands &x, float *const *out, ptrdiff_t row,
               ptrdiff_t panel) {
    const unsigned char *w = m.data + panel * m.panel_bytes;
    Sum8 sums[MR][NP * NV];
    memset(&sums, 0, sizeof sums);
    for (ptrdiff_t k = 0; k < (m.depth + 3) / 4; k++) {
        Four8 four[MR];
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++) four[i] = four_steps(x.steps[row + i] + 4 * k);
#pragma GCC unroll 8
        for (int v = 0; v < NP * NV; v++)
#pragma GCC unroll 8
            for (int i = 0; i < MR; i++)
                add_products(sums[i][v],
                             w + v / NV * m.panel_bytes + (k * NV + v % NV) * (ptrdiff_t)(W * 4),
                             four[i]);
    }
#pragma GCC unroll 8
    for (int v = 0; v < NP * NV; v++) {
        const ptrdiff_t at = (panel * NV + v) * W;
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++) {
            V sum = __builtin_convertvector(whole_sum(sums[i][v], m.sums + at), V);
            store(out[row + i] + at, sum * (load(m.scales + at) * x.worth[row + i]) + load(m.bias + at), W);
        }
    }
}

template <int NV>
void multiply_int8_panels(const PackedMatrix &m, const Operands &x, float *const *out,
                          ptrdiff_t begin, ptrdiff_t end) {
    constexpr int NP = NV == 1 ? 4 : NV == 2 ? 2 : W == 16 ? 2 : 1;
    ptrdiff_t panel = begin;
    while (panel < end) {
        const bool several = panel + NP <= end;
        ptrdiff_t row = 0;
        for (; row + 2 <= x.count; row += 2)
            if (several) tile_int8<2, NP, NV>(m, x, out, row, panel);
            else tile_int8<2, 1, NV>(m, x, out, row, panel);
        if (row < x.count) {
            if (several) tile_int8<1, NP, NV>(m, x, out, row, panel);
            else tile_int8<1, 1, NV>(m, x, out, row, panel);
        }
        panel += several ? NP : 1;
    }
}

void multiply_int8(const PackedMatrix &m, const Operands &x, float *const *out, ptrdiff_t begin,
                   ptrdiff_t end) {
    if (m.vectors == 1) multiply_int8_panels<1>(m, x, out, begin, end);
    else if (m.vectors == 2) multiply_int8_panels<2>(m, x, out, begin, end);
    else if (m.vectors == 3) multiply_int8_panels<3>(m, x, out, begin, end);
    else multiply_int8_panels<4>(m, x, out, begin, end);
}

}  // namespace
}  // namespace ELMAN_ISA
