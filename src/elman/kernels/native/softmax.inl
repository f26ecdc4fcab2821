// The linear layer with softmax and cross-entropy, compiled once for each instruction set, after
// vectors.inl and lanes_float.inl or lanes_bfloat16.inl. The including file also defines ELMAN_TILE_2,
// the rows of a tile of two vectors across.
//
// Everything works on transposed logits: vocabulary entries are the rows of a tile, tokens its
// columns, P tokens to a panel. Maxima and sums over the vocabulary then run down the vectors, W is
// read as it lies in memory, and each of the three products finds its operands in long runs:
//   logits   l[v, n]   = Σ_f W[v, f] · Xᵀ[f, n]      panels of Xᵀ, packed once for a block of rows
//   features dXᵀ[f, n] = Σ_v W[v, f] · D[v, n]       panels of D, the gradient of the logits
//   weight   dW[v, f]  = Σ_n D[v, n] · X[n, f]       panels of X, packed once for a block of rows
// A chunk of columns is small enough to stay in the cache between its product and what follows. The
// exponentials of a block are kept, relative to the greatest logit seen so far in their share, and
// the gradients of a chunk are made of them when the sums over the whole vocabulary are known.
// In bfloat16 a lane holds D = 2 neighbours of a product's depth, and W and dL/dl are converted by
// chunks; the exponentials are kept in bfloat16 as well, their sums are of float32.
#include "softmax_memory.inl"

namespace ELMAN_ISA {
namespace {

// sums[i][v] += Σ_k a(i, k) · panel[k, v] over `depth` lanes, a(i, k) at a + i · lda + k, or BY_DEPTH at a + k · lda + i
template <int ROWS, int NV, bool BY_DEPTH>
ELMAN_INLINE void accumulate(const float *a, ptrdiff_t lda, const float *panel, ptrdiff_t depth,
                             V (&sums)[ROWS][NV]) {
    for (ptrdiff_t k = 0; k < depth; k++) {
        V w[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) w[v] = load(panel + (k * NV + v) * W);
#pragma GCC unroll 16
        for (int i = 0; i < ROWS; i++) {
            V x = broadcast(BY_DEPTH ? a + k * lda + i : a + i * lda + k);
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++) sums[i][v] = multiply_add(sums[i][v], x, w[v]);
        }
    }
}

// e^x for x ≤ 0, 0 below the smallest normal number; NaN passes.
ELMAN_INLINE V exp_below(V x) {
    V power, q;
    exp_parts(x, power, q);
    return x < all(-87.0f) ? V{} : power + power * q;
}

ELMAN_INLINE V maximum(V a, V b) { return a > b ? a : b; }

template <int ROWS>
ELMAN_INLINE void logits_tile(Rows rows, const float *bias, const float *panel, ptrdiff_t depth,
                              float *to) {
    V sums[ROWS][2];
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++) sums[i][0] = sums[i][1] = all(bias[i]);
    accumulate<ROWS, 2, false>(rows.a, rows.lda, panel, depth, sums);
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++) {
        store(to + i * P, sums[i][0], W);
        store(to + i * P + W, sums[i][1], W);
    }
}

#define ELMAN_ROWS(CALL)                                                                      \
    switch (rows) {                                                                           \
        CALL(1) CALL(2) CALL(3) CALL(4) CALL(5) CALL(6)                                       \
        CALL(7) CALL(8) CALL(9) CALL(10) CALL(11) CALL(12)                                    \
    }

void logits_of(Rows left, int rows, const float *bias, const float *panel, ptrdiff_t depth,
               float *to) {
#define ELMAN_CASE(R) \
    case R:           \
        if constexpr (R <= MR) logits_tile<R>(left, bias, panel, depth, to);\
        break;
    ELMAN_ROWS(ELMAN_CASE)
#undef ELMAN_CASE
}

// Turns `columns` rows of P logits into e^{l − top}, where top and sum go on from the chunks before, and
// so does total, Σ (l − top), where it is not null. `seen` logits came before. Nothing is summed that is
// not relative to top: the sum of large logits would be known to their rounding alone.
ELMAN_INLINE void exponentials(float *logits, ptrdiff_t columns, float *top, double *sum,
                               double *total, ptrdiff_t seen) {
    const V before[2] = {load(top), load(top + W)};
    V after[2] = {before[0], before[1]}, found[2] = {V{}, V{}};
    for (ptrdiff_t v = 0; v < columns; v++) {
        after[0] = maximum(load(logits + v * P), after[0]);
        after[1] = maximum(load(logits + v * P + W), after[1]);
    }
    if (total)
        for (int half = 0; half < 2; half++) {
            const V scale = all(1.0f / 256);  // no sum of a chunk overflows
            static_assert(2 * kColumns < 256);
            V below = {};
            for (ptrdiff_t v = 0; v < columns; v++)
                below += load(logits + v * P + half * W) * scale - after[half] * scale;
            for (int i = 0; i < W; i++) {
                double &t = total[half * W + i];
                if (seen) t += (double)seen * ((double)before[half][i] - (double)after[half][i]);
                t += 256.0 * (double)below[i];
            }
        }
    for (ptrdiff_t v = 0; v < columns; v++)
        for (int half = 0; half < 2; half++) {
            V e = exp_below(load(logits + v * P + half * W) - after[half]);
            found[half] += e;
            store(logits + v * P + half * W, e, W);
        }
    for (int half = 0; half < 2; half++) {
        const V shrink = exp_below(before[half] - after[half]);
        for (int i = 0; i < W; i++) {
            double &s = sum[half * W + i];
            s = (s == 0.0 ? 0.0 : s * (double)shrink[i]) + (double)found[half][i];
        }
        store(top + half * W, after[half], W);
    }
}

void logits(const Softmax &p, ptrdiff_t row, int share) {
    const Memory m = memory_of(p);
    const Own s = own_of(p, share);
    const ptrdiff_t rows = rows_left(p, row), panels = ceil_div(rows, P);
    for (ptrdiff_t n = 0; n < panels * P; n++) s.top[n] = kLeast, s.sum[n] = s.total[n] = 0.0;
    float *maxima = s.maxima;
    for (ptrdiff_t low = s.first; low < s.last; low += p.columns, maxima += p.rows) {
        const ptrdiff_t columns = least(p.columns, s.last - low);
        const Rows weight = weight_by_row(p, s, low, columns);
        for (ptrdiff_t b = 0; b < panels; b++) {
            float *kept = s.powers + (b * (s.last - s.first) + low - s.first) * P / D;
            float *to = p.grad_features && D == 1 ? kept : s.slopes;
            const float *panel = m.transposed + b * deep(p.F) * P;
            for (ptrdiff_t v = 0; v < columns; v += MR)
                logits_of({weight.a + v * weight.lda, weight.lda}, (int)least(MR, columns - v),
                          p.bias + low + v, panel, deep(p.F), to + v * P);
            for (ptrdiff_t n = b * P; n < least((b + 1) * P, rows); n++) {
                const ptrdiff_t target = p.targets[row + n] - low;
                if (target >= 0 && target < columns) m.picked[n] = to[target * P + n - b * P];
            }
            exponentials(to, columns, s.top + b * P, s.sum + b * P,
                         p.uniform ? s.total + b * P : nullptr, low - s.first);
            if (!p.grad_features) continue;
            if (D > 1)
                for (ptrdiff_t v = 0; v < columns; v++)
                    store(kept + v * W, neighbours(load(to + v * P), load(to + v * P + W)), W);
            memcpy(maxima + b * P, s.top + b * P, P * sizeof(float));
        }
    }
}

// Joins the shares' maxima and sums: the loss of each row, and what makes gradients of powers.
void finish(const Softmax &p, ptrdiff_t row, int share) {
    const Memory m = memory_of(p);
    const ptrdiff_t rows = rows_left(p, row), padded = whole(rows, P);
    for (ptrdiff_t n = padded * share / p.shares; n < padded * (share + 1) / p.shares; n++) {
        float top = kLeast;
        double sum = 0.0, total = 0.0;
        for (int other = 0; other < p.shares; other++) {
            const Own s = own_of(p, other);
            if (s.top[n] > top) top = s.top[n];
        }
        for (int other = 0; other < p.shares; other++) {
            const Own s = own_of(p, other);
            if (s.sum[n] != 0.0) sum += s.sum[n] * __builtin_exp((double)s.top[n] - (double)top);
            if (p.uniform)
                total += s.total[n] + (double)(s.last - s.first) * ((double)s.top[n] - (double)top);
        }
        if (sum == 0.0) sum = __builtin_nan("");  // every logit is −inf
        m.top[n] = top;
        m.factor[n] = n < rows ? (float)((double)p.scale / sum) : 0.0f;
        m.uniform[n] = n < rows ? p.scale * p.smoothing / (float)p.V : 0.0f;
        if (n >= rows) continue;
        const double log_sum = __builtin_log(sum);  // of e^{l − top}
        p.nats[row + n] = log_sum + ((double)top - (double)m.picked[n]);
        if (p.uniform) p.uniform[row + n] = log_sum - total / (double)p.V;
    }
}

// D of a panel from float32 to lanes, for both products.
void round_slopes(const Softmax &p, const Own &s, ptrdiff_t b, ptrdiff_t columns) {
    float *down = s.slopes + b * deep(p.columns) * P, *across = s.across + b * p.columns * P / D;
    for (ptrdiff_t v = 0; v < columns; v += D) {
        V rows[2][2] = {};
        for (ptrdiff_t i = 0; i < least(D, columns - v); i++) {
            for (int half = 0; half < 2; half++)
                rows[i][half] = load(s.exact + (v + i) * P + half * W);
            store(across + (v + i) * P / D, neighbours(rows[i][0], rows[i][1]), W);
        }
        for (int half = 0; half < 2; half++)
            store(down + v / D * P + half * W, lanes(rows[0][half], rows[1][half]), W);
    }
}

// D of a chunk, and the gradient of its biases.
void slopes_of(const Softmax &p, const Memory &m, const Own &s, ptrdiff_t row, ptrdiff_t low,
               ptrdiff_t columns, const float *maxima) {
    const ptrdiff_t rows = rows_left(p, row), panels = ceil_div(rows, P);
    V bias[kColumns] = {};
    for (ptrdiff_t b = 0; b < panels; b++) {
        const float *from = s.powers + (b * (s.last - s.first) + low - s.first) * P / D;
        float *to = D > 1 ? s.exact : s.slopes + b * p.columns * P;
        V factor[2], uniform[2];
        for (int half = 0; half < 2; half++) {
            const ptrdiff_t n = b * P + half * W;
            factor[half] = load(m.factor + n) * exp_below(load(maxima + n) - load(m.top + n));
            uniform[half] = load(m.uniform + n);
        }
        for (ptrdiff_t v = 0; v < columns; v++) {
            V first = load(from + v * P / D), second = D == 1 ? load(from + v * P + W) : V{};
            if (D > 1) apart_again(first, first, second);
            first = first * factor[0] - uniform[0];
            second = second * factor[1] - uniform[1];
            store(to + v * P, first, W);
            store(to + v * P + W, second, W);
            bias[v] += first + second;
        }
        for (ptrdiff_t n = b * P; n < least((b + 1) * P, rows); n++) {
            const ptrdiff_t target = p.targets[row + n] - low;
            if (target < 0 || target >= columns) continue;
            const float right = p.scale * (1.0f - p.smoothing);
            to[target * P + n - b * P] -= right;
            bias[target][n % W] -= right;
        }
        if (D > 1) round_slopes(p, s, b, columns);
    }
    for (ptrdiff_t v = 0; v < columns; v++) {
        float total = 0.0f;
        for (int i = 0; i < W; i++) total += bias[v][i];
        p.grad_bias[low + v] = row ? p.grad_bias[low + v] + total : total;
    }
}

template <int ROWS>
ELMAN_INLINE void features_tile(Rows rows, const float *panel, ptrdiff_t depth, bool adds,
                                float *to) {
    V sums[ROWS][2] = {};
    if (adds)
#pragma GCC unroll 16
        for (int i = 0; i < ROWS; i++)
            sums[i][0] = load(to + i * P), sums[i][1] = load(to + i * P + W);
    accumulate<ROWS, 2, true>(rows.a, rows.lda, panel, depth, sums);
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++) {
        store(to + i * P, sums[i][0], W);
        store(to + i * P + W, sums[i][1], W);
    }
}

void features_of(Rows left, int rows, const float *panel, ptrdiff_t depth, bool adds, float *to) {
#define ELMAN_CASE(R) \
    case R:           \
        if constexpr (R <= MR) features_tile<R>(left, panel, depth, adds, to);\
        break;
    ELMAN_ROWS(ELMAN_CASE)
#undef ELMAN_CASE
}

// Rows of dW, 2 W columns or W: `panels` panels of D meet as many pieces of a panel of X.
template <int ROWS, int NV>
ELMAN_INLINE void weight_tile(const float *a, ptrdiff_t step, ptrdiff_t panels, const float *x,
                              bool adds, float *to, ptrdiff_t F, ptrdiff_t left) {
    V sums[ROWS][NV] = {};
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++)  // far away, and wanted when the sums are done
        __builtin_prefetch(to + i * F, 1), __builtin_prefetch(to + i * F + W, 1);
    for (ptrdiff_t b = 0; b < panels; b++)
        accumulate<ROWS, NV, false>(a + b * step, P / D, x + b * P / D * NV * W, P / D, sums);
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) {
            float *at = to + i * F + v * W;
            store(at, adds ? sums[i][v] + load(at, left - v * W) : sums[i][v], left - v * W);
        }
}

void weight_of(const float *a, ptrdiff_t step, ptrdiff_t panels, int rows, const float *x, bool adds,
               float *to, ptrdiff_t F, ptrdiff_t left) {
#define ELMAN_CASE(R)                                                                        \
    case R:                                                                                  \
        if constexpr (R <= MR) {                                                             \
            if (left > W) weight_tile<R, 2>(a, step, panels, x, adds, to, F, left);          \
            else weight_tile<R, 1>(a, step, panels, x, adds, to, F, left);                   \
        }                                                                                    \
        break;
    ELMAN_ROWS(ELMAN_CASE)
#undef ELMAN_CASE
}

void gradients(const Softmax &p, ptrdiff_t row, int share) {
    const Memory m = memory_of(p);
    const Own s = own_of(p, share);
    const ptrdiff_t rows = rows_left(p, row), panels = ceil_div(rows, P), F = p.F;
    const float *maxima = s.maxima;
    for (ptrdiff_t low = s.first; low < s.last; low += p.columns, maxima += p.rows) {
        const ptrdiff_t columns = least(p.columns, s.last - low);
        slopes_of(p, m, s, row, low, columns, maxima);
        const Rows weight = weight_by_depth(p, s, low, columns);
        for (ptrdiff_t b = 0; b < panels; b++)
            for (ptrdiff_t f = 0; f < F; f += MR)
                features_of({weight.a + f, weight.lda}, (int)least(MR, F - f),
                            s.slopes + b * deep(p.columns) * P, deep(columns), low > s.first,
                            s.features + (b * F + f) * P);
        const float *slopes = D > 1 ? s.across : s.slopes;
        for (ptrdiff_t f = 0; f < F; f += P)
            for (ptrdiff_t v = 0; v < columns; v += MR)
                weight_of(slopes + v * P / D, p.columns * P / D, panels, (int)least(MR, columns - v),
                          m.packed + f * deep(p.rows), row > 0, p.grad_weight + (low + v) * F + f, F,
                          F - f);
    }
}

// The features' gradient: the sum over shares.
void join(const Softmax &p, ptrdiff_t row, int share) {
    const ptrdiff_t rows = rows_left(p, row), F = p.F;
    for (ptrdiff_t n = rows * share / p.shares; n < rows * (share + 1) / p.shares; n++) {
        float *to = p.grad_features + (row + n) * F;
        for (int other = 0; other < p.shares; other++) {
            const float *from = own_of(p, other).features + n / P * F * P + n % P;
            for (ptrdiff_t f = 0; f < F; f++) to[f] = other ? to[f] + from[f * P] : from[f * P];
        }
    }
}

const SoftmaxKernels softmax_kernels = {divide, pack, logits, finish, gradients, join};

}  // namespace
}  // namespace ELMAN_ISA
