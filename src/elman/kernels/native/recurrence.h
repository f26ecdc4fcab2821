// What a recurrence over time takes and what each instruction set offers for it. No inline function
// may live in headers: one compiled for AVX-512 could be linked into the baseline path.
#pragma once
#include <stddef.h>

enum Cell { kTanh = 0, kRelu = 1, kGru = 2 };

// One sweep over all T steps. Arrays are C-contiguous float32; G is 1, for the GRU 3 (r, z, n).
struct Recurrence {
    int cell;
    ptrdiff_t B, T, H;
    const float *weight_hh;  // [G H, H]
    const float *first;      // [B, H]
    float *packed;           // packed_size floats, shared by all threads

    // Forward. xg holds W_ih x + b_ih + b_hh, but for the GRU's candidate without b_hn.
    const float *xg;      // [B, T, G H]
    const float *bias_n;  // [H], GRU alone
    float *states;        // [B, T, H]; an input of the backward sweep
    float *gates;         // [B, T, 4 H] r, z, n, W_hn h + b_hn, GRU alone; null: nothing is saved

    // Backward.
    const float *grad_states;  // [B, T, H] or null
    const float *grad_last;    // [B, H] or null
    float *grads;              // [B, T, H], GRU [B, T, 4 H]: n, r, z, W_hn h + b_hn
    float *grad_first;         // [B, H]
};

// Threads first call `pack` on their share, then, after a barrier, `forward` or `backward` on their rows.
struct RecurrenceKernels {
    ptrdiff_t (*packed_size)(const Recurrence &, int backward);
    ptrdiff_t (*scratch_size)(const Recurrence &, int backward, ptrdiff_t rows);
    void (*pack)(const Recurrence &, int backward, int share, int shares);
    void (*forward)(const Recurrence &, ptrdiff_t begin, ptrdiff_t end, float *scratch);
    void (*backward)(const Recurrence &, ptrdiff_t begin, ptrdiff_t end, float *scratch);
};
