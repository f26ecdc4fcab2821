// What generation takes, token by token, and what each instruction set offers for it. No inline
// function may live in headers: one compiled for AVX-512 could be linked into the baseline path.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum WeightFormat { kFloat32 = 0, kBfloat16 = 1, kInt8 = 2 };

// The order of gates within the rows of a matrix is that of the cells in Python.
enum Equation {
    kStepTanh = 0,
    kStepRelu = 1,
    kStepIdentity = 2,
    kStepGruAfter = 3,
    kStepGruBefore = 4,
    kStepLstm = 5,
    kStepMgu = 6,
    kStepMinGru = 7,
    kStepMinLstm = 8,
};

// Floats that any level's vectors divide: whole vectors of states and logits are written.
enum { kWidest = 16, kSumBlock = 256, kMaximumBlock = 64 };

// A matrix [rows, depth] in panels of `vectors` vectors of rows, each panel as a whole in memory:
// float32 [depth][vector][lane], bfloat16 [depth / 2][vector][lane][2], int8 [depth / 4][vector]
// [lane][4], zeros beyond. Where `gates` > 1, vector v of panel p holds gate v of one vector of
// units; else a panel holds consecutive rows. What a product writes has the order of the panels.
struct PackedMatrix {
    int format, vectors, gates;
    ptrdiff_t rows, depth, panels, panel_bytes;
    unsigned char *data;
    float *bias;    // [panels · vectors · W]
    float *scales;  // int8: what one step of each row is worth
    int32_t *sums;  // int8: 128 Σ of each row, as what is multiplied is unsigned
};

// The vectors that a matrix is multiplied with: float32, or int8 + 128 and the worth of a step.
struct Operands {
    const float *const *rows;
    const uint8_t *const *steps;
    const float *worth;
    ptrdiff_t count;
};

// One layer's equation for a range of units, a multiple of the vector's width, and one row. `input`
// and `state` are the products of the panels (W_ih x + b_ih and W_hh h + b_hh), `again` the second
// recurrent product of a gate that acts before it.
struct UnitStep {
    int equation, keeps, couples;   // keeps: a GRU's update; couples: an LSTM without input gate
    ptrdiff_t units;                // whole vectors
    const float *input, *state, *again;
    const float *h, *c;             // before
    float *h_next, *c_next;         // after; h_next without the projection
    float *reset, *update;          // between the two parts of a gate that acts before the product
    const float *peepholes;         // [gates, units], null: none
};

// A vector of logits as the choice of a token needs it.
struct Weighing {
    const float *logits;
    ptrdiff_t size;
    float highest, inverse_temperature, floor;  // floor: logits below it have the weight 0
    float *weights;                             // e^((z − highest) · inverse_temperature)
    double *sums;                               // of each kSumBlock weights
};

struct GenerationKernels {
    int width;
    void (*shape)(PackedMatrix &);  // sets vectors, panels and panel_bytes from the rest
    void (*pack)(const PackedMatrix &, const float *weight, const float *bias);
    void (*multiply)(const PackedMatrix &, const Operands &, float *const *out, ptrdiff_t begin,
                     ptrdiff_t end);
    void (*quantise)(const float *x, ptrdiff_t size, uint8_t *steps, float *worth);
    void (*first_part)(const UnitStep &, ptrdiff_t begin, ptrdiff_t end);
    void (*second_part)(const UnitStep &, ptrdiff_t begin, ptrdiff_t end);
    // Returns the highest, NaN where there is one; the highest of each kMaximumBlock go to `blocks`.
    float (*highest)(const float *z, ptrdiff_t size, float *blocks);
    void (*weigh)(const Weighing &);
    // Writes the places where z >= bound in ascending order; returns how many.
    ptrdiff_t (*gather)(const float *z, ptrdiff_t size, float bound, int32_t *places);
    // Reads every number, as fast as a product could: what memory gives is measured by it.
    float (*sweep)(const float *numbers, ptrdiff_t size);
};

typedef void (*MultiplyInt8)(const PackedMatrix &, const Operands &, float *const *out,
                             ptrdiff_t begin, ptrdiff_t end);
