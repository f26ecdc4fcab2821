// Sweeps over time, compiled once for each instruction set, after vectors.inl. Every member of a team
// runs a whole sweep over its own units and waits for the others where it needs theirs.
#include "recurrence_products.inl"

#include "recurrence_cells.inl"

namespace ELMAN_ISA {
namespace {

ptrdiff_t scratch_size(const Recurrence &p, int backward, ptrdiff_t rows) {
    const ptrdiff_t blocks = p.cell == kLstm                                 ? 4
                             : p.cell == kGruAfter || p.cell == kGruBefore ? 3
                                                                             : 1;
    return rows * (2 * padded((backward ? blocks : 1) * p.H) + 2 * padded(p.H));
}

ELMAN_INLINE Buffers buffers_of(const Recurrence &p, const Team &team, ptrdiff_t width) {
    const ptrdiff_t lda = padded(width), lds = padded(p.H), rows = team.num_rows;
    float *from = team.scratch, *to = from + rows * lda, *side = to + rows * lda;
    return {from, to, side, side + rows * lds, lda, lds};
}

ELMAN_INLINE void swap(Buffers &b) {
    float *other = b.from;
    b.from = b.to;
    b.to = other;
}

// Rows [begin, end) of a member, where rows are shared instead of units.
ELMAN_INLINE void rows_of(const Team &team, ptrdiff_t &begin, ptrdiff_t &end) {
    begin = team.num_rows * team.member / team.members;
    end = team.num_rows * (team.member + 1) / team.members;
}

template <int CELL, class C>
void sweep_forward(const Recurrence &p, const Team &team) {
    const ptrdiff_t H = p.H, size = sizeof(float) * H;
    Product w[2];
    products_of(p, 0, w);
    Buffers b = buffers_of(p, team, H);
    ptrdiff_t begin, end, alive = team.num_rows;
    rows_of(team, begin, end);
    for (ptrdiff_t i = begin; i < end; i++) {
        const Row &row = team.rows[i];
        memset(b.from + i * b.lda, 0, sizeof(float) * b.lda);  // lanes beyond H stay finite
        memcpy(b.from + i * b.lda, p.first_h + row.index * H, size);
        if (CELL == kLstm) {
            memset(b.side + i * b.lds, 0, sizeof(float) * b.lds);
            memcpy(b.side + i * b.lds, p.first_c + row.index * H, size);
        }
        if (row.length && p.saved)
            memcpy(p.saved + (row.packed * C::kSaved + C::kSaved - 1) * H,
                   p.first_h + row.index * H, size);
        if (row.length) continue;
        memcpy(p.last_h + row.index * H, p.first_h + row.index * H, size);
        if (CELL == kLstm) memcpy(p.last_c + row.index * H, p.first_c + row.index * H, size);
    }
    wait(team);
    const ptrdiff_t num_steps = alive ? team.rows[0].length : 0;
    for (ptrdiff_t step = 0; step < num_steps; step++) {
        while (team.rows[alive - 1].length <= step) alive--;
        if constexpr (CELL == kGruBefore) {
            multiply_all<2>(p, w[0], team, b.from, b.lda, alive,
                            [&](ptrdiff_t row, ptrdiff_t j, auto lanes, const float *sums) {
                                C::open(p, place_of(p, team, row, step), b, row, j, lanes, sums);
                            });
            wait(team);
        }
        const float *from = CELL == kGruBefore ? b.side : b.from;
        multiply_all<CELL == kGruBefore ? 1 : C::kGates>(
            p, w[CELL == kGruBefore], team, from, CELL == kGruBefore ? b.lds : b.lda, alive,
            [&](ptrdiff_t row, ptrdiff_t j, auto lanes, const float *sums) {
                C::forward(p, place_of(p, team, row, step), b, row, j, lanes, sums);
            });
        wait(team);
        swap(b);
    }
}

template <class L>
ELMAN_INLINE V given(const float *grads, ptrdiff_t at, L lanes) {
    return grads ? load(grads + at, lanes) : V{};
}

// The gradients at the last step of row i, or, where it has none, those of its first state.
template <int CELL, class C, class L>
ELMAN_INLINE void begin_row(const Recurrence &p, const Team &team, const Buffers &b, ptrdiff_t i,
                            ptrdiff_t j, L lanes, float *to) {
    const Row &row = team.rows[i];
    const ptrdiff_t state = row.index * p.H + j;
    V dh = given(p.grad_last_h, state, lanes);
    V dc = CELL == kLstm ? given(p.grad_last_c, state, lanes) : V{};
    if (!row.length) {
        store(p.grad_first_h + state, dh, lanes);
        if (CELL == kLstm) store(p.grad_first_c + state, dc, lanes);
        return;
    }
    const Place at = place_of(p, team, i, row.length - 1);
    if (CELL == kLstm) store(b.side + i * b.lds + j, dc);
    dh += given(p.grad_states, at.padded * p.H + j, lanes);
    C::gradients(p, at, b, i, j, lanes, dh, to + i * b.lda);
}

// Begins the rows from `alive` on whose last step is `step`, in the member's units; returns how many
// rows are alive then.
template <int CELL, class C>
ptrdiff_t begin_rows(const Recurrence &p, const Team &team, const Buffers &b, ptrdiff_t alive,
                     ptrdiff_t step, float *to) {
    ptrdiff_t begin, end;
    share_of(p, 1, team, begin, end);
    const ptrdiff_t last = end * 2 * W < p.H ? end * 2 * W : p.H;
    for (; alive < team.num_rows && team.rows[alive].length == step + 1; alive++)
        for (ptrdiff_t j = begin * 2 * W; j < last; j += W) {
            if (p.H - j >= W) begin_row<CELL, C>(p, team, b, alive, j, Full{}, to);
            else begin_row<CELL, C>(p, team, b, alive, j, Some{p.H - j}, to);
        }
    return alive;
}

// From the gate gradients of `step` to those of the step before, or to those of the first state.
template <int CELL, class C>
ELMAN_INLINE void step_back(const Recurrence &p, const Team &team, const Product &w,
                            const Buffers &b, ptrdiff_t alive, ptrdiff_t step) {
    const ptrdiff_t H = p.H;
    multiply_all<1>(
        p, w, team, b.from, b.lda, alive,
        [&](ptrdiff_t row, ptrdiff_t j, auto lanes, const float *sums) {
            V dh = load(sums);
            if (CELL == kGruAfter || CELL == kGruBefore) dh += load(b.side + row * b.lds + j);
            if (step == 0) {
                const ptrdiff_t state = team.rows[row].index * H + j;
                store(p.grad_first_h + state, dh, lanes);
                if (CELL == kLstm)
                    store(p.grad_first_c + state, load(b.side + row * b.lds + j), lanes);
                return;
            }
            const Place at = place_of(p, team, row, step - 1);
            dh += given(p.grad_states, at.padded * H + j, lanes);
            C::gradients(p, at, b, row, j, lanes, dh, b.to + row * b.lda);
        });
}

template <int CELL, class C>
void sweep_backward(const Recurrence &p, const Team &team) {
    if (!team.num_rows) return;
    Product w[2];
    products_of(p, 1, w);
    Buffers b = buffers_of(p, team, C::kBlocks * p.H);
    ptrdiff_t alive = begin_rows<CELL, C>(p, team, b, 0, team.rows[0].length - 1, b.from);
    wait(team);
    for (ptrdiff_t step = team.rows[0].length - 1; step >= 0; step--) {
        if constexpr (CELL == kGruBefore) {
            multiply_all<1>(p, w[0], team, b.from + 2 * p.H, b.lda, alive,
                            [&](ptrdiff_t row, ptrdiff_t j, auto lanes, const float *sums) {
                                C::gradients_of_reset(p, place_of(p, team, row, step), b, row, j,
                                                      lanes, sums);
                            });
            wait(team);
        }
        step_back<CELL, C>(p, team, w[CELL == kGruBefore], b, alive, step);
        alive = begin_rows<CELL, C>(p, team, b, alive, step - 1, b.to);
        wait(team);
        swap(b);
    }
}

void forward(const Recurrence &p, const Team &team) {
    switch (p.cell) {
        case kTanh: return sweep_forward<kTanh, Elman<kTanh>>(p, team);
        case kRelu: return sweep_forward<kRelu, Elman<kRelu>>(p, team);
        case kIdentity: return sweep_forward<kIdentity, Elman<kIdentity>>(p, team);
        case kGruAfter: return sweep_forward<kGruAfter, GruAfter>(p, team);
        case kGruBefore: return sweep_forward<kGruBefore, GruBefore>(p, team);
        default: return sweep_forward<kLstm, Lstm>(p, team);
    }
}

void backward(const Recurrence &p, const Team &team) {
    switch (p.cell) {
        case kTanh: return sweep_backward<kTanh, Elman<kTanh>>(p, team);
        case kRelu: return sweep_backward<kRelu, Elman<kRelu>>(p, team);
        case kIdentity: return sweep_backward<kIdentity, Elman<kIdentity>>(p, team);
        case kGruAfter: return sweep_backward<kGruAfter, GruAfter>(p, team);
        case kGruBefore: return sweep_backward<kGruBefore, GruBefore>(p, team);
        default: return sweep_backward<kLstm, Lstm>(p, team);
    }
}

const RecurrenceKernels recurrence_kernels = {packed_size, scratch_size, pack, forward, backward};

}  // namespace
}  // namespace ELMAN_ISA
