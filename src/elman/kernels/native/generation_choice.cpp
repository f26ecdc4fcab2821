// Filters in the order of elman/decoding/filters.py, and the draw of elman/decoding/sampling.py. No
// vector is ever sorted whole: bounds from blocks leave a few candidates.
#include "generation_choice.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kBins = 1024;  // 128 octaves: lighter ones share the last bin
constexpr float kSteepest = 1e30f;  // of 1 / temperature: 0 times it is still 0

bool comes_first(const Candidate &a, const Candidate &b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

double exponent(float logit, float highest, double temperature) {
    return logit == highest ? 0.0 : ((double)logit - highest) / temperature;
}

int64_t first_of(const float *logits, ptrdiff_t size, float highest, const ChoiceRoom &room) {
    ptrdiff_t block = 0;
    while (room.blocks[block] != highest) block++;
    for (ptrdiff_t j = block * kMaximumBlock; j < size; j++)
        if (logits[j] == highest) return j;
    return kNotFinite;
}

void take(ChoiceRoom &room, const float *logits, ptrdiff_t count) {
    room.candidates.resize(count);
    for (ptrdiff_t i = 0; i < count; i++)
        room.candidates[i] = {logits[room.places[i]], room.places[i], 0};
}

// Candidates stay in the order of their ids, in which the draw goes through them.
void drop_after(const Candidate &last, ChoiceRoom &room) {
    auto &all = room.candidates;
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](const Candidate &one) { return comes_first(last, one); }),
              all.end());
}

// The k-th highest of the blocks' highest bounds the k-th highest of all from below.
void take_top_k(const GenerationKernels &kernels, const float *logits, ptrdiff_t size, float highest,
                const Choosing &how, ChoiceRoom &room) {
    const ptrdiff_t k = how.top_k;
    float bound = -std::numeric_limits<float>::infinity();
    if (k <= (ptrdiff_t)room.blocks.size()) {
        room.block_order = room.blocks;
        std::nth_element(room.block_order.begin(), room.block_order.begin() + (k - 1),
                         room.block_order.end(), [](float a, float b) { return a > b; });
        bound = room.block_order[k - 1];
    }
    take(room, logits, kernels.gather(logits, size, bound, room.places.data()));
    if (k < (ptrdiff_t)room.candidates.size()) {
        room.ranked = room.candidates;
        std::nth_element(room.ranked.begin(), room.ranked.begin() + (k - 1), room.ranked.end(),
                         comes_first);
        drop_after(room.ranked[k - 1], room);
    }
    for (Candidate &one : room.candidates)
        one.weight = std::exp(exponent(one.logit, highest, how.temperature));
}

// Weights of one octave, in an eighth of it: bits of the exponent and the first three behind it.
size_t bin_of(double weight) {
    uint64_t bits;
    std::memcpy(&bits, &weight, sizeof bits);
    const uint64_t below_one = (uint64_t)1023 * 8 - (bits >> 49);  // 0 for a weight of 1
    return (size_t)std::min<uint64_t>(below_one, kBins - 1);
}

// Keeps the likeliest that hold the share p: whole bins of like weights, and of the last bin, which
// alone is sorted, as many as are needed.
void keep_top_p(double total, const Choosing &how, ChoiceRoom &room) {
    auto &all = room.candidates;
    std::fill(room.bins.begin(), room.bins.end(), 0.0);
    for (const Candidate &one : all) room.bins[bin_of(one.weight)] += one.weight;
    size_t last = 0;
    double mass = 0;
    while (last + 1 < room.bins.size() && mass + room.bins[last] < how.top_p * total)
        mass += room.bins[last++];
    room.ranked.clear();
    for (const Candidate &one : all)
        if (bin_of(one.weight) == last) room.ranked.push_back(one);
    std::sort(room.ranked.begin(), room.ranked.end(), comes_first);
    for (const Candidate &one : room.ranked) {
        mass += one.weight;
        if (mass >= how.top_p * total) return drop_after(one, room);
    }
}

// Those lighter than (1 - p) total / size weigh less than 1 - p together: they are not needed.
void take_for_top_p(const GenerationKernels &kernels, const float *logits, ptrdiff_t size,
                      float highest, const Choosing &how, ChoiceRoom &room) {
    const float inverse = (float)std::min(1.0 / how.temperature, (double)kSteepest);
    kernels.weigh({logits, size, highest, inverse, -std::numeric_limits<float>::infinity(),
                   room.weights.data(), room.sums.data()});
    double total = 0;
    for (double sum : room.sums) total += sum;
    // A little less, as these weights are float32.
    const float bound = (float)((1.0 - how.top_p) * total / (double)size * (1 - 1e-5));
    take(room, logits, kernels.gather(room.weights.data(), size, bound, room.places.data()));
    for (Candidate &one : room.candidates) one.weight = (double)room.weights[one.id];
    keep_top_p(total, how, room);
}

int64_t draw_candidate(const Choosing &how, double uniform, ChoiceRoom &room) {
    auto &all = room.candidates;
    double total = 0, below = 0;
    for (Candidate &one : all) {
        if (one.weight < how.min_p) one.weight = 0;
        total += one.weight;
    }
    int64_t last = kNotFinite;
    for (const Candidate &one : all) {
        below += one.weight;
        if (one.weight > 0) last = one.id;
        if (below > uniform * total) return one.id;
    }
    return last;
}

int64_t draw_of_all(const GenerationKernels &kernels, const float *logits, ptrdiff_t size,
                    float highest, const Choosing &how, double uniform, ChoiceRoom &room) {
    const float inverse = (float)std::min(1.0 / how.temperature, (double)kSteepest);
    const double floor =
        how.min_p > 0 ? highest + std::log(how.min_p) * how.temperature : -kInfinity;
    kernels.weigh({logits, size, highest, inverse, (float)floor, room.weights.data(),
                   room.sums.data()});
    double total = 0;
    for (double sum : room.sums) total += sum;
    double below = 0;
    int64_t last = kNotFinite;
    for (size_t block = 0; block < room.sums.size(); block++) {
        const bool is_here = below + room.sums[block] > uniform * total;
        if (!is_here && block + 1 < room.sums.size()) {
            below += room.sums[block];
            continue;
        }
        const ptrdiff_t begin = (ptrdiff_t)block * kSumBlock;
        for (ptrdiff_t j = begin; j < std::min(begin + kSumBlock, size); j++) {
            below += (double)room.weights[j];
            if (room.weights[j] > 0) last = j;
            if (room.weights[j] > 0 && below > uniform * total) return j;
        }
        if (last >= 0) return last;  // rounding alone kept the sum below
    }
    ptrdiff_t j = size - 1;
    while (j > 0 && room.weights[j] == 0) j--;
    return j;
}

}  // namespace

ChoiceRoom::ChoiceRoom(ptrdiff_t size)
    : weights(size + kWidest), blocks((size + kMaximumBlock - 1) / kMaximumBlock),
      sums((size + kSumBlock - 1) / kSumBlock), bins(kBins), places(size) {
    candidates.reserve(size), ranked.reserve(size), block_order.reserve(blocks.size());
}

double uniform_at(uint64_t key, uint64_t position) {
    uint32_t c[4] = {(uint32_t)position, (uint32_t)(position >> 32), 0, 0};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k0;
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k1;
        c[3] = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (double)(((uint64_t)c[1] << 32 | c[0]) >> 11) * 0x1p-53;
}

int64_t choose_token(const GenerationKernels &kernels, float *logits, ptrdiff_t size,
                     const std::vector<int64_t> &forbidden, const Choosing &how,
                     uint64_t &position, ChoiceRoom &room) {
    float highest = kernels.highest(logits, size, room.blocks.data());
    if (!std::isfinite(highest)) return kNotFinite;
    if (!forbidden.empty()) {
        for (int64_t id : forbidden) logits[id] = -std::numeric_limits<float>::infinity();
        highest = kernels.highest(logits, size, room.blocks.data());
        if (!std::isfinite(highest)) return kAllForbidden;
    }
    if (how.temperature == 0) return first_of(logits, size, highest, room);
    const double uniform = uniform_at(how.key, position++);
    const bool by_k = how.top_k > 0 && how.top_k < size, by_p = how.top_p < 1;
    if (!by_k && !by_p)
        return draw_of_all(kernels, logits, size, highest, how, uniform, room);
    if (by_k) {
        take_top_k(kernels, logits, size, highest, how, room);
        double total = 0;
        for (const Candidate &one : room.candidates) total += one.weight;
        if (by_p) keep_top_p(total, how, room);
    } else {
        take_for_top_p(kernels, logits, size, highest, how, room);
    }
    return draw_candidate(how, uniform, room);
}

double surprisal_nats(const GenerationKernels &kernels, const float *logits, ptrdiff_t size,
                      int64_t target, ChoiceRoom &room) {
    const float highest = kernels.highest(logits, size, room.blocks.data());
    if (!std::isfinite(highest)) return std::numeric_limits<double>::quiet_NaN();
    kernels.weigh({logits, size, highest, 1.0f, -std::numeric_limits<float>::infinity(),
                   room.weights.data(), room.sums.data()});
    double total = 0;
    for (double sum : room.sums) total += sum;
    return std::log(total) + ((double)highest - (double)logits[target]);
}
