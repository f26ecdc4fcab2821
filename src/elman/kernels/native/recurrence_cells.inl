// The equations of the cells, for W hidden units of one row at one step, and their derivatives.
namespace ELMAN_ISA {
namespace {

// Where a step of a row stands in the arrays; [N, …] and [B, T, …].
struct Place {
    const Row *row;
    ptrdiff_t step, packed, padded;
    bool is_last;
};

ELMAN_INLINE Place place_of(const Recurrence &p, const Team &team, ptrdiff_t row, ptrdiff_t step) {
    const Row *r = team.rows + row;
    return {r, step, r->packed + step * p.stride, r->padded + step * p.stride,
            step + 1 == r->length};
}

// What a team keeps between steps: rows of `lda` floats.
struct Buffers {
    float *from, *to;  // forward h, backward the gradients of the gates
    float *side;       // GRU before: r ∘ h; LSTM: c; backward ∂L/∂h_{t−1} past the product, LSTM ∂L/∂c
    float *update;     // GRU before: z
    ptrdiff_t lda, lds;
};

// h_t goes to the output, to the next step, and to what the gradient of weight_hh needs.
template <class L>
ELMAN_INLINE void put_state(const Recurrence &p, const Place &at, float *to, ptrdiff_t j, L lanes,
                            V h, ptrdiff_t blocks) {
    const ptrdiff_t H = p.H;
    store(p.states + at.padded * H + j, h, lanes);
    store(to, h);
    if (at.is_last) store(p.last_h + at.row->index * H + j, h, lanes);
    else if (p.saved)
        store(p.saved + ((at.packed + p.stride) * blocks + blocks - 1) * H + j, h, lanes);
}

template <int CELL>
struct Elman {
    static constexpr int kGates = 1, kBlocks = 1, kSaved = 1, kGrads = 1;

    template <class L>
    ELMAN_INLINE void forward(const Recurrence &p, const Place &at, const Buffers &b,
                                     ptrdiff_t row, ptrdiff_t j, L lanes, const float *sums) {
        V h = load(p.xg + at.packed * p.H + j, lanes) + load(sums);
        if (CELL == kTanh) h = tanh(h);
        if (CELL == kRelu) h = h < all(0.0f) ? all(0.0f) : h;
        put_state(p, at, b.to + row * b.lda + j, j, lanes, h, kSaved);
    }

    template <class L>
    ELMAN_INLINE void gradients(const Recurrence &p, const Place &at, const Buffers &,
                                       ptrdiff_t, ptrdiff_t j, L lanes, V dh, float *to) {
        V da = dh;
        if (CELL != kIdentity) {
            V h = load(p.states + at.padded * p.H + j, lanes);
            da = CELL == kTanh ? dh * (1.0f - h * h) : (h <= all(0.0f) ? all(0.0f) : dh);
        }
        store(p.grads + at.packed * p.H + j, da, lanes);
        store(to + j, da, lanes);
    }
};

// z mixes: h_t = z ∘ h_{t−1} + (1 − z) ∘ n_t. A cell whose gate replaces has 1 − σ(a) = σ(−a) for z.
struct GruAfter {
    static constexpr int kGates = 3, kBlocks = 3, kSaved = 5, kGrads = 4;

    template <class L>
    ELMAN_INLINE void forward(const Recurrence &p, const Place &at, const Buffers &b,
                                     ptrdiff_t row, ptrdiff_t j, L lanes, const float *sums) {
        const ptrdiff_t H = p.H;
        const float *xg = p.xg + at.packed * 3 * H + j;
        V r = sigmoid(load(xg, lanes) + load(sums));
        V z = sigmoid((load(xg + H, lanes) + load(sums + W)) * p.update);
        V product = load(sums + 2 * W);
        V n = tanh(load(xg + 2 * H, lanes) + r * product);
        V h = n + z * (load(b.from + row * b.lda + j) - n);
        put_state(p, at, b.to + row * b.lda + j, j, lanes, h, kSaved);
        if (!p.saved) return;
        float *saved = p.saved + at.packed * kSaved * H + j;
        store(saved, r, lanes);
        store(saved + H, z, lanes);
        store(saved + 2 * H, n, lanes);
        store(saved + 3 * H, product, lanes);
    }

    template <class L>
    ELMAN_INLINE void gradients(const Recurrence &p, const Place &at, const Buffers &b,
                                       ptrdiff_t row, ptrdiff_t j, L lanes, V dh, float *to) {
        const ptrdiff_t H = p.H;
        const float *saved = p.saved + at.packed * kSaved * H + j;
        V r = load(saved, lanes), z = load(saved + H, lanes), n = load(saved + 2 * H, lanes);
        V product = load(saved + 3 * H, lanes), before = load(saved + 4 * H, lanes);
        V dz = dh * (before - n) * (z * (1.0f - z)) * p.update;
        V dn = dh * (1.0f - z) * (1.0f - n * n);
        V dproduct = dn * r, dr = dn * product * (r * (1.0f - r));
        float *grads = p.grads + at.packed * kGrads * H + j;
        store(grads, dr, lanes);
        store(grads + H, dz, lanes);
        store(grads + 2 * H, dn, lanes);
        store(grads + 3 * H, dproduct, lanes);
        store(to + j, dr, lanes);
        store(to + H + j, dz, lanes);
        store(to + 2 * H + j, dproduct, lanes);
        store(b.side + row * b.lds + j, dh * z);
    }
};

// Two products a step: what the reset gate lets through must be whole before n is made.
struct GruBefore {
    static constexpr int kGates = 2, kBlocks = 3, kSaved = 5, kGrads = 3;

    template <class L>
    ELMAN_INLINE void open(const Recurrence &p, const Place &at, const Buffers &b,
                                  ptrdiff_t row, ptrdiff_t j, L lanes, const float *sums) {
        const ptrdiff_t H = p.H;
        const float *xg = p.xg + at.packed * 3 * H + j;
        V r = sigmoid(load(xg, lanes) + load(sums));
        V z = sigmoid((load(xg + H, lanes) + load(sums + W)) * p.update);
        V passed = r * load(b.from + row * b.lda + j);
        store(b.side + row * b.lds + j, passed);
        store(b.update + row * b.lds + j, z);
        if (!p.saved) return;
        float *saved = p.saved + at.packed * kSaved * H + j;
        store(saved, r, lanes);
        store(saved + H, z, lanes);
        store(saved + 3 * H, passed, lanes);
    }

    template <class L>
    ELMAN_INLINE void forward(const Recurrence &p, const Place &at, const Buffers &b,
                                     ptrdiff_t row, ptrdiff_t j, L lanes, const float *sums) {
        const ptrdiff_t H = p.H;
        V n = tanh(load(p.xg + (at.packed * 3 + 2) * H + j, lanes) + load(sums));
        V h = n + load(b.update + row * b.lds + j) * (load(b.from + row * b.lda + j) - n);
        put_state(p, at, b.to + row * b.lda + j, j, lanes, h, kSaved);
        if (p.saved) store(p.saved + (at.packed * kSaved + 2) * H + j, n, lanes);
    }

    template <class L>
    ELMAN_INLINE void gradients(const Recurrence &p, const Place &at, const Buffers &b,
                                       ptrdiff_t row, ptrdiff_t j, L lanes, V dh, float *to) {
        const ptrdiff_t H = p.H;
        const float *saved = p.saved + at.packed * kSaved * H + j;
        V z = load(saved + H, lanes), n = load(saved + 2 * H, lanes);
        V dz = dh * (load(saved + 4 * H, lanes) - n) * (z * (1.0f - z)) * p.update;
        V dn = dh * (1.0f - z) * (1.0f - n * n);
        float *grads = p.grads + at.packed * kGrads * H + j;
        store(grads + H, dz, lanes);
        store(grads + 2 * H, dn, lanes);
        store(to + H + j, dz, lanes);
        store(to + 2 * H + j, dn, lanes);
        store(b.side + row * b.lds + j, dh * z);
    }

    // `sums` are ∂L/∂(r ∘ h_{t−1}); the gradient of r's sum joins those of the other gates.
    template <class L>
    ELMAN_INLINE void gradients_of_reset(const Recurrence &p, const Place &at,
                                                const Buffers &b, ptrdiff_t row, ptrdiff_t j,
                                                L lanes, const float *sums) {
        const ptrdiff_t H = p.H;
        const float *saved = p.saved + at.packed * kSaved * H + j;
        V r = load(saved, lanes), before = load(saved + 4 * H, lanes), dpassed = load(sums);
        V dr = dpassed * before * (r * (1.0f - r));
        float *side = b.side + row * b.lds + j;
        store(p.grads + at.packed * kGrads * H + j, dr, lanes);
        store(b.from + row * b.lda + j, dr, lanes);
        store(side, load(side) + dpassed * r);
    }
};

struct Lstm {
    static constexpr int kGates = 4, kBlocks = 4, kSaved = 6, kGrads = 4;

    template <class L>
    ELMAN_INLINE void forward(const Recurrence &p, const Place &at, const Buffers &b,
                                     ptrdiff_t row, ptrdiff_t j, L lanes, const float *sums) {
        const ptrdiff_t H = p.H;
        const float *xg = p.xg + at.packed * 4 * H + j;
        float *memory = b.side + row * b.lds + j;
        V i = sigmoid(load(xg, lanes) + load(sums));
        V f = sigmoid(load(xg + H, lanes) + load(sums + W));
        V g = tanh(load(xg + 2 * H, lanes) + load(sums + 2 * W));
        V o = sigmoid(load(xg + 3 * H, lanes) + load(sums + 3 * W));
        V c = f * load(memory) + i * g;
        store(memory, c);
        put_state(p, at, b.to + row * b.lda + j, j, lanes, o * tanh(c), kSaved);
        if (at.is_last) store(p.last_c + at.row->index * H + j, c, lanes);
        if (!p.saved) return;
        float *saved = p.saved + at.packed * kSaved * H + j;
        store(saved, i, lanes);
        store(saved + H, f, lanes);
        store(saved + 2 * H, g, lanes);
        store(saved + 3 * H, o, lanes);
        store(saved + 4 * H, c, lanes);
    }

    template <class L>
    ELMAN_INLINE void gradients(const Recurrence &p, const Place &at, const Buffers &b,
                                       ptrdiff_t row, ptrdiff_t j, L lanes, V dh, float *to) {
        const ptrdiff_t H = p.H;
        const float *saved = p.saved + at.packed * kSaved * H + j;
        const float *earlier = at.step
                                   ? p.saved + ((at.packed - p.stride) * kSaved + 4) * H + j
                                   : p.first_c + at.row->index * H + j;
        float *memory = b.side + row * b.lds + j;
        V i = load(saved, lanes), f = load(saved + H, lanes), g = load(saved + 2 * H, lanes);
        V o = load(saved + 3 * H, lanes), shown = tanh(load(saved + 4 * H, lanes));
        V dc = load(memory) + dh * o * (1.0f - shown * shown);
        V di = dc * g * (i * (1.0f - i)), df = dc * load(earlier, lanes) * (f * (1.0f - f));
        V dg = dc * i * (1.0f - g * g), d_o = dh * shown * (o * (1.0f - o));
        float *grads = p.grads + at.packed * kGrads * H + j;
        store(grads, di, lanes);
        store(grads + H, df, lanes);
        store(grads + 2 * H, dg, lanes);
        store(grads + 3 * H, d_o, lanes);
        store(to + j, di, lanes);
        store(to + H + j, df, lanes);
        store(to + 2 * H + j, dg, lanes);
        store(to + 3 * H + j, d_o, lanes);
        store(memory, dc * f);
    }
};

}  // namespace
}  // namespace ELMAN_ISA
