// How the linear layer with softmax and cross-entropy divides its work and memory, and what it packs.
// Included by softmax.inl, which tells how all of it works.
#include "softmax.h"

namespace ELMAN_ISA {
namespace {

constexpr ptrdiff_t P = 2 * W;         // tokens in a panel
constexpr int MR = ELMAN_TILE_2;       // rows of a tile
constexpr ptrdiff_t kColumns = 8 * MR;  // of a chunk
constexpr float kLeast = -3.4028234e38f;

ELMAN_INLINE ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
ELMAN_INLINE ptrdiff_t whole(ptrdiff_t n, ptrdiff_t of) { return (n + of - 1) / of * of; }
ELMAN_INLINE ptrdiff_t apart(ptrdiff_t n) { return whole(n, 16); }  // whole cache lines
ELMAN_INLINE ptrdiff_t deep(ptrdiff_t n) { return ceil_div(n, D); }  // lanes of a depth of n

struct Memory {  // one for all shares
    float *transposed;  // [panels][deep(F)][P] lanes
    float *packed;      // [panels of F][deep(rows)][2 W] lanes, the last perhaps W wide
    float *picked;      // [rows] the target's logit
    float *top;         // [rows] the greatest logit
    float *factor;      // [rows] scale / Σ e^{l − top}, 0 beyond N
    float *uniform;     // [rows] scale · smoothing / V, 0 beyond N
    float *own;         // of the first share
    ptrdiff_t own_size;
};

struct Own {  // of a share
    ptrdiff_t first, last;  // columns
    float *powers;          // [panels][last − first][P / D] lanes, e^{l − maxima}
    float *maxima;          // [chunks][rows]
    float *top;             // [rows]
    double *sum;            // [rows] Σ e^{l − top}
    double *total;          // [rows] Σ (l − top), where it is asked for
    float *slopes;          // [panels][deep(columns)][P] lanes, D of a chunk
    float *features;        // [panels][F][P] dXᵀ
    // In bfloat16 alone:
    float *exact;   // [columns][P] D of a panel in float32
    float *across;  // [panels][columns][P / 2] lanes, D of a chunk with the depth along tokens
    float *weight;  // W of a chunk, [columns][whole(deep(F), W)] or [deep(columns)][F] lanes
};

ELMAN_INLINE ptrdiff_t most_columns(const Softmax &p) {  // of a share
    return whole(ceil_div(p.V, p.shares), MR) + MR;
}

ELMAN_INLINE ptrdiff_t own_size(const Softmax &p) {
    const ptrdiff_t columns = most_columns(p), chunks = ceil_div(columns, p.columns) + 1;
    ptrdiff_t size = p.rows * 5;
    if (p.grad_features)
        size += apart(p.rows * columns / D) + chunks * p.rows + apart(p.rows * p.F);
    if (D > 1) size += p.columns * P + apart(p.rows * p.columns / D) + p.columns * whole(p.F, P);
    return apart(size + apart(p.rows * p.columns)) + 64;
}

ELMAN_INLINE ptrdiff_t packed_rows_size(const Softmax &p) {
    return p.grad_features ? apart(deep(p.rows) * whole(p.F, W)) : 0;
}

ELMAN_INLINE ptrdiff_t shared_size(const Softmax &p) {
    return apart(p.rows * deep(p.F)) + packed_rows_size(p) + apart(4 * p.rows);
}

Memory memory_of(const Softmax &p) {
    Memory m;
    m.transposed = p.memory;
    m.packed = m.transposed + apart(p.rows * deep(p.F));
    m.picked = m.packed + packed_rows_size(p);
    m.top = m.picked + p.rows;
    m.factor = m.top + p.rows;
    m.uniform = m.factor + p.rows;
    m.own = p.memory + shared_size(p);
    m.own_size = own_size(p);
    return m;
}

Own own_of(const Softmax &p, int share) {
    const Memory m = memory_of(p);
    const ptrdiff_t tiles = ceil_div(p.V, MR), columns = most_columns(p);
    Own s;
    s.first = least(tiles * share / p.shares * MR, p.V);
    s.last = least(tiles * (share + 1) / p.shares * MR, p.V);
    s.slopes = m.own + share * m.own_size;
    s.sum = (double *)(s.slopes + apart(p.rows * p.columns));
    s.total = s.sum + p.rows;
    s.top = (float *)(s.total + p.rows);
    s.exact = s.top + p.rows;
    s.across = s.exact + (D > 1 ? p.columns * P : 0);
    s.weight = s.across + (D > 1 ? apart(p.rows * p.columns / D) : 0);
    s.features = s.weight + (D > 1 ? p.columns * whole(p.F, P) : 0);
    s.powers = s.features + apart(p.rows * p.F);
    s.maxima = s.powers + apart(p.rows * columns / D);
    return s;
}

ptrdiff_t divide(Softmax &p) {
    const ptrdiff_t panels = ceil_div(p.N, P);
    ptrdiff_t most = p.most_logits * D / p.V / P;
    most = least(most < 1 ? 1 : most, panels);
    const ptrdiff_t blocks = ceil_div(panels, most);
    p.rows = ceil_div(panels, blocks) * P;
    p.shares = (int)least(p.shares, ceil_div(p.V, MR));
    p.columns = kColumns;
    return shared_size(p) + p.shares * own_size(p);
}

ELMAN_INLINE ptrdiff_t rows_left(const Softmax &p, ptrdiff_t row) { return least(p.rows, p.N - row); }

// X of the block, in panels of tokens and in panels of features; zeros beyond N and F.
void pack(const Softmax &p, ptrdiff_t row, int share) {
    const Memory m = memory_of(p);
    const ptrdiff_t rows = rows_left(p, row), panels = ceil_div(rows, P), F = p.F;
    const ptrdiff_t begin = panels * share / p.shares * P, end = panels * (share + 1) / p.shares * P;
    for (ptrdiff_t n = begin; n < end; n++) {
        const float *from = p.features + (row + n) * F;
        float *to = m.transposed + n / P * deep(F) * P + n % P;
        for (ptrdiff_t f = 0; f < F; f += D)
            to[f / D * P] = n < rows ? lane(from[f], f + 1 < F ? from[f + 1] : 0.0f) : 0.0f;
    }
    if (!p.grad_features) return;
    for (ptrdiff_t n = begin; n < end; n += D)
        for (ptrdiff_t f = 0; f < F; f += W) {
            const float *from = p.features + (row + n) * F + f;
            const ptrdiff_t panel = f / P, across = F - panel * P > W ? 2 : 1;
            const V even = n < rows ? load(from, F - f) : V{};
            const V odd = n + 1 < rows ? load(from + F, F - f) : V{};
            store(m.packed + panel * deep(p.rows) * P + (n / D * across + f / W % 2) * W,
                  lanes(even, odd), W);
        }
}

struct Rows {  // the left side of a product
    const float *a;
    ptrdiff_t lda;
};

// W of a chunk with the depth along features.
Rows weight_by_row(const Softmax &p, const Own &s, ptrdiff_t low, ptrdiff_t columns) {
    const float *from = p.weight + low * p.F;
    if (D == 1) return {from, p.F};
    const ptrdiff_t lda = whole(deep(p.F), W);
    for (ptrdiff_t v = 0; v < columns; v++, from += p.F)
        for (ptrdiff_t f = 0; f < p.F; f += P) {
            const V second = p.F - f > W ? load(from + f + W, p.F - f - W) : V{};
            store(s.weight + v * lda + f / D, neighbours(load(from + f, p.F - f), second), W);
        }
    return {s.weight, lda};
}

// W of a chunk with the depth along the vocabulary.
Rows weight_by_depth(const Softmax &p, const Own &s, ptrdiff_t low, ptrdiff_t columns) {
    const float *from = p.weight + low * p.F;
    if (D == 1) return {from, p.F};
    for (ptrdiff_t v = 0; v < columns; v += D)
        for (ptrdiff_t f = 0; f < p.F; f += W) {
            const V odd = v + 1 < columns ? load(from + (v + 1) * p.F + f, p.F - f) : V{};
            store(s.weight + v / D * p.F + f, lanes(load(from + v * p.F + f, p.F - f), odd), p.F - f);
        }
    return {s.weight, p.F};
}

}  // namespace
}  // namespace ELMAN_ISA
