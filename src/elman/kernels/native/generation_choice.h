// One token from one vector of logits: the highest, or one draw among those that the filters leave.
#pragma once
#include <vector>

#include "generation.h"

struct Choosing {
    double temperature, top_p, min_p;  // as SamplingSettings has them
    int64_t top_k;
    uint64_t key;  // of the random numbers
};

struct Candidate {
    float logit;
    int32_t id;
    double weight;  // e^((z - highest) / temperature)
};

// Memory of one thread, for vocabularies of one size.
struct ChoiceRoom {
    explicit ChoiceRoom(ptrdiff_t vocabulary_size);
    std::vector<float> weights, blocks, block_order;
    std::vector<double> sums, bins;
    std::vector<int32_t> places;
    std::vector<Candidate> candidates, ranked;
};

enum ChoiceFailure { kNotFinite = -1, kAllForbidden = -2 };

// The uniform number in [0, 1) of `position`: Philox4x32-10 of the counter `position` under `key`,
// its first two words as 53 bits (J. K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3).
double uniform_at(uint64_t key, uint64_t position);

// Returns an id, or a ChoiceFailure; `position` moves by one where a number was drawn. The logits of
// forbidden ids become -inf.
int64_t choose_token(const GenerationKernels &kernels, float *logits, ptrdiff_t size,
                     const std::vector<int64_t> &forbidden, const Choosing &how,
                     uint64_t &position, ChoiceRoom &room);

// Returns -ln p of `target` under the logits; NaN where they are not finite.
double surprisal_nats(const GenerationKernels &kernels, const float *logits, ptrdiff_t size,
                      int64_t target, ChoiceRoom &room);
