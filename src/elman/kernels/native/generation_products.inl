// Weights in panels, and their products with a few vectors at a time, compiled once for each
// instruction set after vectors.inl and generation_int8.inl. Every sum runs over k in order in one
// lane of its own, so that a row has the same bits whatever stands beside it.
#include "generation.h"

#ifndef ELMAN_AHEAD
#define ELMAN_AHEAD 4096
#endif

namespace ELMAN_ISA {
namespace {

ELMAN_INLINE int columns_together(int format) {
    return format == kFloat32 ? 1 : format == kBfloat16 ? 2 : 4;
}

void shape_matrix(PackedMatrix &m) {
    const ptrdiff_t units = m.gates > 1 ? m.rows / m.gates : m.rows;
    m.vectors = m.gates > 1 ? m.gates : m.rows < 256 ? 1 : 4;
    m.panels = ceil_div(units, m.gates > 1 ? W : m.vectors * W);
    m.panel_bytes = ceil_div(m.depth, columns_together(m.format)) * m.vectors * (ptrdiff_t)(W * 4);
}

// The row of the matrix that lane i of vector v of panel p holds, or -1.
ELMAN_INLINE ptrdiff_t source_row(const PackedMatrix &m, ptrdiff_t p, int v, int i) {
    if (m.gates > 1) {
        const ptrdiff_t units = m.rows / m.gates, unit = p * W + i;
        return unit < units ? v * units + unit : -1;
    }
    const ptrdiff_t row = (p * m.vectors + v) * W + i;
    return row < m.rows ? row : -1;
}

ELMAN_INLINE uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

// To the nearest, among equals the even one, as torch rounds. A NaN stays one.
ELMAN_INLINE uint32_t bfloat16_of(float x) {
    const uint32_t bits = bits_of(x);
    if (x != x) return bits >> 16 | 0x40;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

ELMAN_INLINE int32_t nearest(float x) {  // |x| < 2^22, to even
    return (int32_t)(bits_of(x + 12582912.0f) - bits_of(12582912.0f));
}

void pack_row(const PackedMatrix &m, const float *row, ptrdiff_t at, unsigned char *to) {
    const int together = columns_together(m.format);
    float highest = 0;
    for (ptrdiff_t k = 0; k < m.depth; k++) {
        const float size = row[k] < 0 ? -row[k] : row[k];
        if (size > highest) highest = size;
    }
    const float scale = highest / 127, inverse = highest > 0 ? 127 / highest : 0;
    int32_t sum = 0;
    for (ptrdiff_t k = 0; k < m.depth; k++) {
        unsigned char *place = to + k / together * m.vectors * (ptrdiff_t)(W * 4);
        if (m.format == kFloat32) {
            memcpy(place, row + k, 4);
        } else if (m.format == kBfloat16) {
            const uint16_t half = (uint16_t)bfloat16_of(row[k]);
            memcpy(place + 2 * (k % 2), &half, 2);
        } else {
            const int32_t step = nearest(row[k] * inverse);
            place[k % 4] = (unsigned char)(int8_t)step;
            sum += step;
        }
    }
    if (m.format == kInt8) m.scales[at] = scale, m.sums[at] = 128 * sum;
}

// The arrays of m are zero before.
void pack_matrix(const PackedMatrix &m, const float *weight, const float *bias) {
    for (ptrdiff_t p = 0; p < m.panels; p++)
        for (int v = 0; v < m.vectors; v++)
            for (int i = 0; i < W; i++) {
                const ptrdiff_t row = source_row(m, p, v, i), at = (p * m.vectors + v) * W + i;
                if (row < 0) continue;
                if (bias) m.bias[at] = bias[row];
                pack_row(m, weight + row * m.depth, at, m.data + p * m.panel_bytes + (v * W + i) * 4);
            }
}

// x → int8 + 128, 127 steps of *worth each way; a NaN makes *worth one. Whole vectors are written,
// 128 beyond the size.
void quantise(const float *x, ptrdiff_t size, uint8_t *steps, float *worth) {
    typedef uint8_t Bytes __attribute__((vector_size(W)));
    V highest = {}, wrong = {};
    for (ptrdiff_t k = 0; k < size; k += W) {
        const V value = load(x + k, size - k), magnitude = value < 0.0f ? -value : value;
        highest = magnitude > highest ? magnitude : highest;
        wrong += value - value;  // NaN of a NaN and of an infinity
    }
    float most = 0, nothing = 0;
    for (int i = 0; i < W; i++) most = highest[i] > most ? highest[i] : most, nothing += wrong[i];
    const float inverse = most > 0 ? 127 / most : 0;
    const V magic = all(12582912.0f);  // 1.5 · 2^23: adding it rounds to the nearest integer
    for (ptrdiff_t k = 0; k < size; k += W) {
        const VI step = (VI)(load(x + k, size - k) * inverse + magic) - (VI)magic + 128;
        const Bytes narrow = __builtin_convertvector(step, Bytes);
        memcpy(steps + k, &narrow, W);
    }
    *worth = most / 127 + nothing;
}

// sums[i][v] = Σ_k x[i][k] · w[k][v]; the lines `ahead` are fetched while these are worked on.
template <int MR, int NP, int NV>
ELMAN_INLINE void sum_float32(const float *w, ptrdiff_t panel, const float *const *x, ptrdiff_t depth,
                              V (&sums)[MR][NP * NV]) {
    constexpr ptrdiff_t ahead = ELMAN_AHEAD / 4;
    for (ptrdiff_t k = 0; k < depth; k++) {
        V weights[NP * NV];
#pragma GCC unroll 8
        for (int v = 0; v < NP * NV; v++) {
            const float *from = w + v / NV * panel + (k * NV + v % NV) * W;
            weights[v] = load(from);
            if (v * W % 16 == 0) __builtin_prefetch(from + ahead);
        }
#pragma GCC unroll 4
        for (int i = 0; i < MR; i++) {
            V value = all(x[i][k]);
#pragma GCC unroll 8
            for (int v = 0; v < NP * NV; v++) sums[i][v] += value * weights[v];
        }
    }
}

// The same of pairs of bfloat16: a float32 is one with sixteen bits of zeros behind.
template <int MR, int NP, int NV>
ELMAN_INLINE void sum_bfloat16(const float *w, ptrdiff_t panel, const float *const *x,
                               ptrdiff_t depth, V (&sums)[MR][NP * NV]) {
    constexpr ptrdiff_t ahead = ELMAN_AHEAD / 4;
    typedef uint32_t VU __attribute__((vector_size(W * 4)));
    for (ptrdiff_t k = 0; k + 1 < depth; k += 2) {
#pragma GCC unroll 8
        for (int v = 0; v < NP * NV; v++) {
            const float *from = w + v / NV * panel + (k / 2 * NV + v % NV) * W;
            const VU pair = (VU)load(from);
            if (v * W % 16 == 0) __builtin_prefetch(from + ahead);
            const V first = (V)(pair << 16), second = (V)(pair & 0xffff0000u);
#pragma GCC unroll 4
            for (int i = 0; i < MR; i++) {
                sums[i][v] += all(x[i][k]) * first;
                sums[i][v] += all(x[i][k + 1]) * second;
            }
        }
    }
    if (depth % 2 == 0) return;
    for (int v = 0; v < NP * NV; v++) {
        const VU pair = (VU)load(w + v / NV * panel + (depth / 2 * NV + v % NV) * W);
        for (int i = 0; i < MR; i++) sums[i][v] += all(x[i][depth - 1]) * (V)(pair << 16);
    }
}

template <int FORMAT, int MR, int NP, int NV>
void tile_floats(const PackedMatrix &m, const Operands &x, float *const *out, ptrdiff_t row,
                 ptrdiff_t panel) {
    V sums[MR][NP * NV];
#pragma GCC unroll 4
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
        for (int v = 0; v < NP * NV; v++) sums[i][v] = V{};
    const float *w = (const float *)(m.data + panel * m.panel_bytes);
    if (FORMAT == kFloat32) sum_float32<MR, NP, NV>(w, m.panel_bytes / 4, x.rows + row, m.depth, sums);
    else sum_bfloat16<MR, NP, NV>(w, m.panel_bytes / 4, x.rows + row, m.depth, sums);
#pragma GCC unroll 4
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
        for (int v = 0; v < NP * NV; v++) {
            const ptrdiff_t at = (panel * NV + v) * W;
            store(out[row + i] + at, sums[i][v] + load(m.bias + at), W);
        }
}

// As many rows at once as there are registers for; one row goes over several panels instead.
template <int FORMAT, int NV>
void multiply_panels(const PackedMatrix &m, const Operands &x, float *const *out, ptrdiff_t begin,
                     ptrdiff_t end) {
    constexpr int NP = NV == 1 ? 4 : 2, MR = W == 16 ? 4 : 2;
    for (ptrdiff_t panel = begin; panel < end && x.count > 1; panel++) {
        ptrdiff_t row = 0;
        for (; row + MR <= x.count; row += MR) tile_floats<FORMAT, MR, 1, NV>(m, x, out, row, panel);
        for (; row < x.count; row++) tile_floats<FORMAT, 1, 1, NV>(m, x, out, row, panel);
    }
    for (ptrdiff_t panel = begin; panel < end && x.count == 1;) {
        const bool several = panel + NP <= end;
        if (several) tile_floats<FORMAT, 1, NP, NV>(m, x, out, 0, panel);
        else tile_floats<FORMAT, 1, 1, NV>(m, x, out, 0, panel);
        panel += several ? NP : 1;
    }
}

template <int FORMAT>
void multiply_floats(const PackedMatrix &m, const Operands &x, float *const *out, ptrdiff_t begin,
                     ptrdiff_t end) {
    if (m.vectors == 1) multiply_panels<FORMAT, 1>(m, x, out, begin, end);
    else if (m.vectors == 2) multiply_panels<FORMAT, 2>(m, x, out, begin, end);
    else if (m.vectors == 3) multiply_panels<FORMAT, 3>(m, x, out, begin, end);
    else multiply_panels<FORMAT, 4>(m, x, out, begin, end);
}

void multiply(const PackedMatrix &m, const Operands &x, float *const *out, ptrdiff_t begin,
              ptrdiff_t end) {
    if (m.format == kFloat32) multiply_floats<kFloat32>(m, x, out, begin, end);
    else if (m.format == kBfloat16) multiply_floats<kBfloat16>(m, x, out, begin, end);
    else multiply_int8(m, x, out, begin, end);
}

}  // namespace
}  // namespace ELMAN_ISA
