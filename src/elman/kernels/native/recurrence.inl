// The recurrences over time, compiled once for each instruction set, after vectors.inl. The including
// file also defines ELMAN_TILE_1, _2, _3: the rows of a tile of one, two and three vectors across, so
// that the sums stay in registers.
#include "recurrence.h"

namespace ELMAN_ISA {
namespace {

// sums[i][v] = Σ_k a[i, k] · panel[k, v]
template <int MR, int NV>
ELMAN_INLINE void multiply(const float *a, ptrdiff_t lda, const float *panel, ptrdiff_t depth,
                           V (&sums)[MR][NV]) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) sums[i][v] = V{};
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
}

// A panel is W hidden units with three gates each (GRU forward), else 2 W columns, of which the
// last panel may be W alone. Packed: [panel][depth][vector][W], zeros beyond H.
ELMAN_INLINE int num_gates(const Recurrence &p) { return p.cell == kGru ? 3 : 1; }

ptrdiff_t packed_size(const Recurrence &p, int backward) {
    ptrdiff_t columns = ceil_div(p.H, W) * W;
    return backward ? columns * num_gates(p) * p.H : columns * num_gates(p) * p.H;
}

ELMAN_INLINE ptrdiff_t padded(ptrdiff_t n) {  // whole vectors, and no multiple of a page
    return ceil_div(n, W) * W + 16;
}

ptrdiff_t scratch_size(const Recurrence &p, int backward, ptrdiff_t rows) {
    if (!backward) return 2 * rows * padded(p.H);
    return rows * (2 * padded(num_gates(p) * p.H) + padded(p.H));
}

void pack(const Recurrence &p, int backward, int share, int shares) {
    const ptrdiff_t H = p.H, vectors = ceil_div(H, W);
    const float *weight = p.weight_hh;
    for (ptrdiff_t j = vectors * share / shares; j < vectors * (share + 1) / shares; j++) {
        const ptrdiff_t n = H - j * W < W ? H - j * W : W;
        if (!backward && p.cell == kGru) {
            float *to = p.packed + j * 3 * W * H;
            for (int g = 0; g < 3; g++)
                for (ptrdiff_t lane = 0; lane < W; lane++) {
                    const float *row = weight + (g * H + j * W + lane) * H;
                    for (ptrdiff_t k = 0; k < H; k++)
                        to[(k * 3 + g) * W + lane] = lane < n ? row[k] : 0.0f;
                }
            continue;
        }
        const ptrdiff_t depth = backward ? num_gates(p) * H : H, panel = j / 2;
        const int across = panel * 2 + 1 < vectors ? 2 : 1;
        float *to = p.packed + panel * 2 * W * depth + (j % 2) * W;
        if (backward) {
            for (ptrdiff_t k = 0; k < depth; k++)
                store(to + k * across * W, load(weight + k * H + j * W, n), W);
        } else {
            for (ptrdiff_t lane = 0; lane < W; lane++)
                for (ptrdiff_t k = 0; k < depth; k++)
                    to[k * across * W + lane] = lane < n ? weight[(j * W + lane) * H + k] : 0.0f;
        }
    }
}

struct Tile {
    const Recurrence *p;
    ptrdiff_t t, row, begin;  // step, first row of the tile, first row of the thread
    ptrdiff_t column;         // first hidden unit
    const float *from;        // [rows, lda]: the left side of the product
    ptrdiff_t lda;
    float *to;
    float *carry;  // backward: [rows, padded(H)], what reaches h_{t−1} past the product
    const float *panel;
    ptrdiff_t depth;
};

ELMAN_INLINE ptrdiff_t left(const Tile &s, ptrdiff_t column) { return s.p->H - column; }

template <int CELL, int MR, int NV>
void forward_tile(const Tile &s) {
    const Recurrence &p = *s.p;
    const ptrdiff_t H = p.H;
    V sums[MR][NV];
    multiply<MR, NV>(s.from, s.lda, s.panel, s.depth, sums);
    if (CELL == kGru) {
        const ptrdiff_t n = left(s, s.column);
        const V bias = load(p.bias_n + s.column, n);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
            const ptrdiff_t at = (s.row + i) * p.T + s.t;
            const float *xg = p.xg + at * 3 * H + s.column;
            V r = sigmoid(load(xg, n) + sums[i][0]);
            V z = sigmoid(load(xg + H, n) + sums[i][1 % NV]);
            V product = sums[i][2 % NV] + bias;
            V c = tanh(load(xg + 2 * H, n) + r * product);
            V h = c + z * (load(s.from + i * s.lda + s.column) - c);
            store(p.states + at * H + s.column, h, n);
            store(s.to + i * s.lda + s.column, h, W);
            if (p.gates) {
                float *gates = p.gates + at * 4 * H + s.column;
                store(gates, r, n);
                store(gates + H, z, n);
                store(gates + 2 * H, c, n);
                store(gates + 3 * H, product, n);
            }
        }
    } else {
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++) {
                const ptrdiff_t at = (s.row + i) * p.T + s.t, j = s.column + v * W;
                V a = load(p.xg + at * H + j, left(s, j)) + sums[i][v];
                V h = CELL == kTanh ? tanh(a) : (a < all(0.0f) ? all(0.0f) : a);
                store(p.states + at * H + j, h, left(s, j));
                store(s.to + i * s.lda + j, h, W);
            }
    }
}

// Gradients of the gates of step t from dh = ∂L/∂h_t, for W units of one row.
template <int CELL>
ELMAN_INLINE void gate_gradients(const Recurrence &p, ptrdiff_t row, ptrdiff_t t, ptrdiff_t j, V dh,
                                 float *to, float *carry) {
    const ptrdiff_t H = p.H, at = row * p.T + t, n = H - j;
    if (CELL == kGru) {
        const float *gates = p.gates + at * 4 * H + j;
        const float *before = t ? p.states + (at - 1) * H + j : p.first + row * H + j;
        V r = load(gates, n), z = load(gates + H, n), c = load(gates + 2 * H, n);
        V product = load(gates + 3 * H, n);
        V dz = dh * (load(before, n) - c) * (z * (1.0f - z));
        V dc = dh * (1.0f - z) * (1.0f - c * c);
        V dproduct = dc * r, dr = dc * product * (r * (1.0f - r));
        float *grads = p.grads + at * 4 * H + j;
        store(grads, dc, n);
        store(grads + H, dr, n);
        store(grads + 2 * H, dz, n);
        store(grads + 3 * H, dproduct, n);
        store(to + j, dr, n);
        store(to + H + j, dz, n);
        store(to + 2 * H + j, dproduct, n);
        store(carry + j, dh * z, W);
    } else {
        V h = load(p.states + at * H + j, n);
        V da = CELL == kTanh ? dh * (1.0f - h * h) : (h <= all(0.0f) ? all(0.0f) : dh);
        store(p.grads + at * H + j, da, n);
        store(to + j, da, n);
    }
}

template <int CELL>
ELMAN_INLINE V incoming(const Recurrence &p, ptrdiff_t row, ptrdiff_t t, ptrdiff_t j) {
    return p.grad_states ? load(p.grad_states + (row * p.T + t) * p.H + j, p.H - j) : V{};
}

// From the gate gradients of step t, in s.from, to those of step t − 1, or to grad_first.
template <int CELL, int MR, int NV>
void backward_tile(const Tile &s) {
    const Recurrence &p = *s.p;
    V sums[MR][NV];
    multiply<MR, NV>(s.from, s.lda, s.panel, s.depth, sums);
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) {
            const ptrdiff_t j = s.column + v * W, row = s.row + i;
            float *carry = s.carry + (row - s.begin) * padded(p.H);
            V dh = sums[i][v];
            if (CELL == kGru) dh += load(carry + j);
            if (s.t == 0) {
                store(p.grad_first + row * p.H + j, dh, left(s, j));
                continue;
            }
            dh += incoming<CELL>(p, row, s.t - 1, j);
            gate_gradients<CELL>(p, row, s.t - 1, j, dh, s.to + i * s.lda, carry);
        }
}

template <int CELL, int NV, bool BACKWARD>
void run_tile(const Tile &s, int rows) {
#define ELMAN_CASE(MR)                                                     \
    case MR:                                                               \
        if constexpr (MR <= (NV == 1 ? ELMAN_TILE_1 : NV == 2 ? ELMAN_TILE_2 : ELMAN_TILE_3)) { \
            if constexpr (BACKWARD) backward_tile<CELL, MR, NV>(s);        \
            else forward_tile<CELL, MR, NV>(s);                            \
        }                                                                  \
        break;
    switch (rows) {
        ELMAN_CASE(1) ELMAN_CASE(2) ELMAN_CASE(3) ELMAN_CASE(4) ELMAN_CASE(5) ELMAN_CASE(6)
        ELMAN_CASE(7) ELMAN_CASE(8) ELMAN_CASE(9) ELMAN_CASE(10) ELMAN_CASE(11) ELMAN_CASE(12)
    }
#undef ELMAN_CASE
}

// One step of the thread's rows: panels outside, so that a panel is read from afar once.
template <int CELL, bool BACKWARD>
void run_step(const Recurrence &p, ptrdiff_t t, ptrdiff_t begin, ptrdiff_t end, const float *from,
              float *to, float *carry) {
    const bool by_gates = CELL == kGru && !BACKWARD;
    const ptrdiff_t depth = BACKWARD && CELL == kGru ? 3 * p.H : p.H;
    const ptrdiff_t lda = padded(depth), vectors = ceil_div(p.H, W);
    const ptrdiff_t most = by_gates ? ELMAN_TILE_3 : ELMAN_TILE_2;
    const ptrdiff_t rows = end - begin, tiles = ceil_div(rows, most);
    const float *panel = p.packed;
    for (ptrdiff_t j = 0; j < vectors;) {
        const int across = by_gates ? 3 : vectors - j >= 2 ? 2 : 1;
        for (ptrdiff_t tile = 0; tile < tiles; tile++) {
            const ptrdiff_t low = rows * tile / tiles, high = rows * (tile + 1) / tiles;
            const Tile s = {&p,    t,   begin + low, begin,           j * W,
                            from + low * lda, lda, to + low * lda, carry, panel, depth};
            const int height = (int)(high - low);
            if constexpr (CELL == kGru && !BACKWARD) run_tile<CELL, 3, BACKWARD>(s, height);
            else if (across == 2) run_tile<CELL, 2, BACKWARD>(s, height);
            else run_tile<CELL, 1, BACKWARD>(s, height);
        }
        panel += across * W * depth;
        j += by_gates ? 1 : across;
    }
}

template <int CELL>
void sweep_forward(const Recurrence &p, ptrdiff_t begin, ptrdiff_t end, float *scratch) {
    const ptrdiff_t lda = padded(p.H), rows = end - begin;
    float *from = scratch, *to = scratch + rows * lda;
    memset(scratch, 0, sizeof(float) * 2 * rows * lda);
    for (ptrdiff_t row = 0; row < rows; row++)
        memcpy(from + row * lda, p.first + (begin + row) * p.H, sizeof(float) * p.H);
    for (ptrdiff_t t = 0; t < p.T; t++) {
        run_step<CELL, false>(p, t, begin, end, from, to, nullptr);
        float *other = from;
        from = to;
        to = other;
    }
}

template <int CELL>
void sweep_backward(const Recurrence &p, ptrdiff_t begin, ptrdiff_t end, float *scratch) {
    const ptrdiff_t lda = padded((CELL == kGru ? 3 : 1) * p.H), rows = end - begin;
    float *from = scratch, *to = from + rows * lda, *carry = to + rows * lda;
    for (ptrdiff_t row = begin; row < end; row++)
        for (ptrdiff_t j = 0; j < p.H; j += W) {
            V dh = incoming<CELL>(p, row, p.T - 1, j);
            if (p.grad_last) dh += load(p.grad_last + row * p.H + j, p.H - j);
            gate_gradients<CELL>(p, row, p.T - 1, j, dh, from + (row - begin) * lda,
                                 carry + (row - begin) * padded(p.H));
        }
    for (ptrdiff_t t = p.T - 1; t >= 0; t--) {
        run_step<CELL, true>(p, t, begin, end, from, to, carry);
        float *other = from;
        from = to;
        to = other;
    }
}

void forward(const Recurrence &p, ptrdiff_t begin, ptrdiff_t end, float *scratch) {
    if (p.cell == kGru) sweep_forward<kGru>(p, begin, end, scratch);
    else if (p.cell == kTanh) sweep_forward<kTanh>(p, begin, end, scratch);
    else sweep_forward<kRelu>(p, begin, end, scratch);
}

void backward(const Recurrence &p, ptrdiff_t begin, ptrdiff_t end, float *scratch) {
    if (p.cell == kGru) sweep_backward<kGru>(p, begin, end, scratch);
    else if (p.cell == kTanh) sweep_backward<kTanh>(p, begin, end, scratch);
    else sweep_backward<kRelu>(p, begin, end, scratch);
}

const RecurrenceKernels recurrence_kernels = {packed_size, scratch_size, pack, forward, backward};

}  // namespace
}  // namespace ELMAN_ISA
