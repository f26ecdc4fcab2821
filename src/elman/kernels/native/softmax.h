// A linear layer with softmax and cross-entropy, forward and backward: what it takes and what each
// instruction set offers for it. No inline function may live in headers: one compiled for AVX-512
// could be linked into the baseline path.
#pragma once
#include <stddef.h>
#include <stdint.h>

// With the logits l = X W^T + b and ε the smoothing,
//   nats_n = log Σ_v e^{l_nv} − l_{n,target},   uniform_n = log Σ_v e^{l_nv} − Σ_v l_nv / V,
// and gradients are of scale · Σ_n ((1 − ε) nats_n + ε uniform_n). Arrays are C-contiguous; the three
// gradients are all given or all null.
struct Softmax {
    ptrdiff_t N, F, V;
    const float *features;   // X [N, F]
    const float *weight;     // W [V, F]
    const float *bias;       // b [V]
    const int64_t *targets;  // [N], all in 0 … V − 1
    float smoothing, scale;
    double *nats;          // [N]
    double *uniform;       // [N] or null, where ε = 0
    float *grad_features;  // [N, F]
    float *grad_weight;    // [V, F], written, not added to
    float *grad_bias;      // [V]

    // The division of the work: blocks of `rows` rows, each share of the columns of its own, which
    // it passes through in chunks of at most `columns`.
    ptrdiff_t most_logits;  // of a block of rows, unless a panel of rows has more; in bfloat16 double
    ptrdiff_t rows, columns;
    int shares;
    float *memory;
};

// For each block of rows: every share calls `pack`, `logits`, `finish`, `gradients` and `join`, with
// a barrier after each of them. `gradients` and `join` only where gradients are asked for.
struct SoftmaxKernels {
    ptrdiff_t (*divide)(Softmax &);  // sets rows, columns and shares; returns the floats of memory
    void (*pack)(const Softmax &, ptrdiff_t row, int share);
    void (*logits)(const Softmax &, ptrdiff_t row, int share);
    void (*finish)(const Softmax &, ptrdiff_t row, int share);
    void (*gradients)(const Softmax &, ptrdiff_t row, int share);
    void (*join)(const Softmax &, ptrdiff_t row, int share);
};
