// What a recurrence over time takes and what each instruction set offers for it. No inline function
// may live in headers: one compiled for AVX-512 could be linked into the baseline path.
#pragma once
#include <stddef.h>

enum Cell { kTanh = 0, kRelu, kIdentity, kGruAfter, kGruBefore, kLstm };

// A row of the batch. Its step s (0: the first one read) stands at `packed + s · stride` in arrays
// [N, …] of all valid steps, and at `padded + s · stride` in arrays [B, T, …].
struct Row {
    ptrdiff_t index, length, packed, padded;
};

// One sweep over all steps. Arrays are C-contiguous float32. G, S and K are the numbers of H-wide
// blocks that a step has in xg, saved and grads:
//   Elman       G 1, S 1: h_{t−1};                      K 1
//   GRU after   G 3, S 5: r, z, n, W_hn h + b_hn, h_{t−1};  K 4: r, z, n, W_hn h + b_hn
//   GRU before  G 3, S 5: r, z, n, r ∘ h, h_{t−1};      K 3
//   LSTM        G 4, S 6: i, f, g, o, c, h_{t−1};       K 4
struct Recurrence {
    int cell;
    float update;  // GRU: 1 keeps, −1 replaces: then z is 1 − the gate of the cell
    ptrdiff_t T, H, stride;  // stride: 1, or −1 for a reader that goes backward in time
    const float *weight_hh;  // [G H, H]
    const float *bias_hh;    // [G H]
    const float *first_h, *first_c;  // [B, H]
    float *packed;  // packed_size floats, shared by all threads

    // Forward.
    const float *xg;         // [N, G H]: W_ih x + b_ih
    float *states;           // [B, T, H]; backward, Elman alone, an input
    float *last_h, *last_c;  // [B, H]
    float *saved;            // [N, S H], or null: nothing is saved; backward an input

    // Backward.
    const float *grad_states;                // [B, T, H] or null
    const float *grad_last_h, *grad_last_c;  // [B, H] or null
    float *grads;                            // [N, K H]
    float *grad_first_h, *grad_first_c;      // [B, H]
};

// Threads that share rows, longest first, and split the hidden units among them.
struct Team {
    const Row *rows;
    ptrdiff_t num_rows;
    float *scratch;  // scratch_size floats, shared by the members
    int member, members;
    void (*wait)(void *barrier);  // returns when all members have called it
    void *barrier;
};

// All threads first call `pack` on their share, then, after a barrier, `forward` or `backward`.
struct RecurrenceKernels {
    ptrdiff_t (*packed_size)(const Recurrence &, int backward);
    ptrdiff_t (*scratch_size)(const Recurrence &, int backward, ptrdiff_t rows);
    void (*pack)(const Recurrence &, int backward, int share, int shares);
    void (*forward)(const Recurrence &, const Team &);
    void (*backward)(const Recurrence &, const Team &);
};
