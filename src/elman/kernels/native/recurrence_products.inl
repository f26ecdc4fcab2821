// The products of a step with the recurrent weights: packed panels, tiles of sums in registers. The
// file that includes this one defines ELMAN_TILE_1, _2, _3, _4: the rows of a tile of one to four
// vectors across, so that its sums stay in registers.
#include "recurrence.h"

namespace ELMAN_ISA {
namespace {

// The vectors of sums that a panel gives for W hidden units are one for each gate, so that all gates
// of a unit meet (`gates` ≥ 2), or one. In the second case a panel holds two vectors of units, of which
// the last panel may lack one. Packed: [panel][depth][vector][W], zeros beyond H; forward, a first
// row holds the biases.
struct Product {
    ptrdiff_t block;   // first block of H rows of weight_hh
    ptrdiff_t depth;   // length of the sums
    int gates, bias;
    float *packed;
};

constexpr int kMostSums = 24;  // vectors in a tile

ELMAN_INLINE ptrdiff_t num_vectors(const Recurrence &p) { return ceil_div(p.H, W); }
ELMAN_INLINE ptrdiff_t packed_columns(const Recurrence &p, const Product &w) {
    return num_vectors(p) * W * w.gates;
}
ELMAN_INLINE ptrdiff_t padded(ptrdiff_t n) {  // whole vectors, and no multiple of a page
    return ceil_div(n, W) * W + 16;
}

// The products of one step, in the order in which it makes them; returns how many.
int products_of(const Recurrence &p, int backward, Product (&w)[2]) {
    const ptrdiff_t H = p.H;
    int count = 1;
    w[0] = w[1] = {};
    if (!backward) {
        w[0] = {0, H, 1, 1, p.packed};
        if (p.cell == kGruAfter) w[0].gates = 3;
        if (p.cell == kGruBefore) w[0].gates = 2, w[1] = {2, H, 1, 1, nullptr}, count = 2;
        if (p.cell == kLstm) w[0].gates = 4;
    } else {
        w[0] = {0, H, 1, 0, p.packed};
        if (p.cell == kGruAfter) w[0].depth = 3 * H;
        if (p.cell == kGruBefore) w[0].block = 2, w[1] = {0, 2 * H, 1, 0, nullptr}, count = 2;
        if (p.cell == kLstm) w[0].depth = 4 * H;
    }
    if (count == 2 && p.packed)
        w[1].packed = p.packed + packed_columns(p, w[0]) * (w[0].depth + w[0].bias);
    return count;
}

ptrdiff_t packed_size(const Recurrence &p, int backward) {
    Product w[2];
    ptrdiff_t size = 0;
    for (int i = products_of(p, backward, w) - 1; i >= 0; i--)
        size += packed_columns(p, w[i]) * (w[i].depth + w[i].bias);
    return size;
}

// Rows of the weights become columns of the panel; by blocks, so that what is written stays in cache.
void pack_rows(const float *weight, ptrdiff_t H, ptrdiff_t n, float *to, ptrdiff_t step) {
    for (ptrdiff_t block = 0; block < H; block += 16) {
        const ptrdiff_t end = block + 16 < H ? block + 16 : H;
        for (ptrdiff_t lane = 0; lane < W; lane++)
            for (ptrdiff_t k = block; k < end; k++)
                to[k * step + lane] = lane < n ? weight[lane * H + k] : 0.0f;
    }
}

void pack(const Recurrence &p, int backward, int share, int shares) {
    Product w[2];
    const ptrdiff_t H = p.H, vectors = num_vectors(p);
    for (int i = products_of(p, backward, w) - 1; i >= 0; i--) {
        const float *weight = p.weight_hh + w[i].block * H * H;
        const ptrdiff_t depth = w[i].depth + w[i].bias;
        for (ptrdiff_t j = vectors * share / shares; j < vectors * (share + 1) / shares; j++) {
            const ptrdiff_t n = H - j * W < W ? H - j * W : W;
            const ptrdiff_t panel = w[i].gates > 1 ? j : j / 2;
            const int across = w[i].gates > 1 ? w[i].gates : panel * 2 + 1 < vectors ? 2 : 1;
            const ptrdiff_t before = w[i].gates > 1 ? j * w[i].gates : panel * 2;
            float *to = w[i].packed + before * W * depth;
            if (w[i].gates == 1) to += j % 2 * W;
            for (int g = 0; g < w[i].gates; g++, to += W) {
                if (backward) {
                    for (ptrdiff_t k = 0; k < depth; k++)
                        store(to + k * across * W, load(weight + k * H + j * W, n));
                    continue;
                }
                const float *bias = p.bias_hh + (w[i].block + g) * H + j * W;
                store(to, load(bias, n));
                pack_rows(weight + (g * H + j * W) * H, H, n, to + across * W, across * W);
            }
        }
    }
}

// sums[i][v] = bias[v] + Σ_k a[i, k] · panel[k, v], for each element in the order of k, whatever the
// tile: a row has the same bits in any batch and on any number of threads. No part of a sweep, whose
// own values would drive sums out of the registers.
template <int MR, int NV>
__attribute__((noinline)) void multiply(const float *a, ptrdiff_t lda, const float *panel, ptrdiff_t depth, int bias,
              float *to) {
    V sums[MR][NV];
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) sums[i][v] = bias ? load(panel + v * W) : V{};
    panel += bias * NV * W;
    for (ptrdiff_t k = 0; k < depth; k++) {
        V w[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) w[v] = load(panel + (k * NV + v) * W);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
            V x = all(a[i * lda + k]);
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++) sums[i][v] += x * w[v];
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) store(to + (i * NV + v) * W, sums[i][v]);
}

constexpr int kTileRows[] = {0, ELMAN_TILE_1, ELMAN_TILE_2, ELMAN_TILE_3, ELMAN_TILE_4};

template <int NV>
ELMAN_INLINE void multiply_rows(int rows, const float *a, ptrdiff_t lda, const float *panel,
                                ptrdiff_t depth, int bias, float *to) {
#define ELMAN_CASE(MR)                                                                    \
    case MR:                                                                              \
        if constexpr (MR <= kTileRows[NV]) multiply<MR, NV>(a, lda, panel, depth, bias, to); \
        break;
    switch (rows) {
        ELMAN_CASE(1) ELMAN_CASE(2) ELMAN_CASE(3) ELMAN_CASE(4) ELMAN_CASE(5) ELMAN_CASE(6)
        ELMAN_CASE(7) ELMAN_CASE(8) ELMAN_CASE(9) ELMAN_CASE(10) ELMAN_CASE(11) ELMAN_CASE(12)
    }
#undef ELMAN_CASE
}

// The panels of a member: [begin, end).
ELMAN_INLINE void share_of(const Recurrence &p, int gates, const Team &team, ptrdiff_t &begin,
                           ptrdiff_t &end) {
    const ptrdiff_t panels = gates > 1 ? num_vectors(p) : ceil_div(num_vectors(p), 2);
    begin = panels * team.member / team.members;
    end = panels * (team.member + 1) / team.members;
}

// Multiplies `rows` rows of `from` by the member's panels. finish(row, unit, lanes, sums) takes the sums
// of W units of one row, a vector for each gate. Panels are outside, so that one is read from afar
// once.
template <int GATES, class Finish>
ELMAN_INLINE void multiply_all(const Recurrence &p, const Product &w, const Team &team,
                               const float *from, ptrdiff_t lda, ptrdiff_t rows, Finish finish) {
    alignas(64) float sums[kMostSums * W];
    ptrdiff_t begin, end;
    share_of(p, GATES, team, begin, end);
    const ptrdiff_t vectors = num_vectors(p), depth = w.depth, wide = GATES > 1 ? GATES : 2;
    const float *panel = w.packed + begin * wide * W * (depth + w.bias);
    for (ptrdiff_t j = begin; j < end; j++) {
        const int across = GATES > 1 ? GATES : 2 * j + 1 < vectors ? 2 : 1;
        const ptrdiff_t unit = GATES > 1 ? j * W : j * 2 * W, tiles = ceil_div(rows, kTileRows[across]);
        for (ptrdiff_t tile = 0; tile < tiles; tile++) {
            const ptrdiff_t low = rows * tile / tiles;
            const int height = (int)(rows * (tile + 1) / tiles - low);
            const float *a = from + low * lda;
            if constexpr (GATES > 1) multiply_rows<GATES>(height, a, lda, panel, depth, w.bias, sums);
            else if (across == 2) multiply_rows<2>(height, a, lda, panel, depth, w.bias, sums);
            else multiply_rows<1>(height, a, lda, panel, depth, w.bias, sums);
            for (int v = 0; v < (GATES > 1 ? 1 : across); v++) {
                const ptrdiff_t column = unit + v * W, n = p.H - column;
                if (n >= W)
                    for (int i = 0; i < height; i++)
                        finish(low + i, column, Full{}, sums + (i * across + v) * W);
                else
                    for (int i = 0; i < height; i++)
                        finish(low + i, column, Some{n}, sums + (i * across + v) * W);
            }
        }
        panel += across * W * (depth + w.bias);
    }
}

ELMAN_INLINE void wait(const Team &team) {
    if (team.members > 1) team.wait(team.barrier);
}

}  // namespace
}  // namespace ELMAN_ISA
