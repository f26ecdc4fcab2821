// Compares the kernels of NEON with the portable ones, without Python: see .ci/neon.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "generator_run.h"
#include "levels.h"

namespace {

using Floats = std::vector<float>;

// Numbers within ±scale, the same ones for the same seed.
Floats drawn(size_t size, uint32_t seed, float scale) {
    Floats x(size);
    uint32_t state = seed * 2654435761u + 12345u;
    for (float &value : x) {
        state = state * 1664525u + 1013904223u;
        value = scale * ((float)(state >> 8) / 8388608.0f - 1.0f);
    }
    return x;
}

// Memory of floats at a multiple of 64 bytes.
struct Memory {
    explicit Memory(ptrdiff_t size)
        : at((float *)std::aligned_alloc(64, ((size_t)size * 4 + 64 + 63) / 64 * 64)) {}
    ~Memory() { std::free(at); }
    float *at;
};

void add(Floats &all, const Floats &part) { all.insert(all.end(), part.begin(), part.end()); }

void sweep(const RecurrenceKernels &k, Recurrence &p, int backward, const std::vector<Row> &rows) {
    Memory packed(k.packed_size(p, backward));
    Memory scratch(k.scratch_size(p, backward, (ptrdiff_t)rows.size()));
    p.packed = packed.at;
    k.pack(p, backward, 0, 1);
    Team team = {};
    team.rows = rows.data(), team.num_rows = (ptrdiff_t)rows.size(), team.scratch = scratch.at;
    team.members = 1, team.wait = [](void *) {};
    backward ? k.backward(p, team) : k.forward(p, team);
}

Floats recurrence(const Kernels &kernels, int cell, ptrdiff_t B, ptrdiff_t T, ptrdiff_t H) {
    const ptrdiff_t blocks[][3] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {3, 5, 4}, {3, 5, 3}, {4, 6, 4}};
    const auto [G, S, K] = blocks[cell];
    std::vector<Row> rows;
    for (ptrdiff_t i = 0; i < B; i++) rows.push_back({i, T, i * T, i * T});
    const auto size = [](ptrdiff_t n) { return (size_t)n; };
    Floats weight = drawn(size(G * H * H), 1, 1 / (float)H), bias = drawn(size(G * H), 2, 1);
    Floats h = drawn(size(B * H), 3, 1), c = drawn(size(B * H), 4, 1);
    Floats xg = drawn(size(B * T * G * H), 5, 1);
    Floats states(size(B * T * H)), last_h(size(B * H)), last_c(size(B * H));
    Floats saved(size(B * T * S * H)), grads(size(B * T * K * H));
    Floats grad_h(size(B * H)), grad_c(size(B * H));
    Recurrence p = {};
    p.cell = cell, p.update = 1, p.T = T, p.H = H, p.stride = 1;
    p.weight_hh = weight.data(), p.bias_hh = bias.data(), p.first_h = h.data(), p.first_c = c.data();
    p.xg = xg.data(), p.states = states.data(), p.last_h = last_h.data(), p.last_c = last_c.data();
    p.saved = saved.data();
    sweep(kernels.recurrence, p, 0, rows);
    p.grad_states = xg.data(), p.grad_last_h = h.data(), p.grad_last_c = c.data();
    p.grads = grads.data(), p.grad_first_h = grad_h.data(), p.grad_first_c = grad_c.data();
    sweep(kernels.recurrence, p, 1, rows);
    Floats all;
    for (const Floats *part : {&states, &last_h, &last_c, &saved, &grads, &grad_h, &grad_c})
        add(all, *part);
    return all;
}

Floats loss(const Kernels &kernels, ptrdiff_t N, ptrdiff_t F, ptrdiff_t V) {
    Floats x = drawn((size_t)(N * F), 1, 1), w = drawn((size_t)(V * F), 2, 1);
    Floats b = drawn((size_t)V, 3, 1), gx(x.size()), gw(w.size()), gb(b.size());
    std::vector<int64_t> targets;
    for (ptrdiff_t n = 0; n < N; n++) targets.push_back(n % V);
    std::vector<double> nats((size_t)N);
    Softmax p = {};
    p.N = N, p.F = F, p.V = V, p.features = x.data(), p.weight = w.data(), p.bias = b.data();
    p.targets = targets.data(), p.scale = 1 / (float)N, p.nats = nats.data();
    p.grad_features = gx.data(), p.grad_weight = gw.data(), p.grad_bias = gb.data();
    p.most_logits = 1 << 20, p.shares = 2;
    const SoftmaxKernels &k = kernels.softmax;
    Memory memory(k.divide(p));
    p.memory = memory.at;
    for (ptrdiff_t row = 0; row < N; row += p.rows)
        for (auto phase : {k.pack, k.logits, k.finish, k.gradients, k.join})
            for (int share = 0; share < p.shares; share++) phase(p, row, share);
    Floats all(nats.begin(), nats.end());
    for (const Floats *part : {&gx, &gw, &gb}) add(all, *part);
    return all;
}

Floats reading(const Kernels &kernels, int format, ptrdiff_t H, ptrdiff_t V) {
    const Floats weight_ih = drawn((size_t)(4 * H * H), 1, 0.3f), bias = drawn((size_t)V * 4, 2, 1);
    const Floats weight_hh = drawn((size_t)(4 * H * H), 3, 0.3f), embedding = drawn((size_t)(V * H), 4, 1);
    const Floats readout = drawn((size_t)(V * H), 5, 1), bias_4h = drawn((size_t)(4 * H), 6, 1);
    Generator generator(kernels.generation, kernels.generation.multiply, format);
    GivenLayer layer = {};
    layer.equation = kStepLstm, layer.units = H, layer.output = H;
    layer.by_input = {weight_ih.data(), bias_4h.data(), 4 * H, H};
    layer.by_state = {weight_hh.data(), bias_4h.data(), 4 * H, H};
    generator.add_layer(layer);
    generator.set_ends(embedding.data(), V, false, {}, {readout.data(), bias.data(), V, H});
    Floats state((size_t)(2 * generator.state_size()));
    const int64_t ids[] = {1, 2, 3, 0, 1, 2, 4, 3, 2, 1, 0, 1};
    double nats[12] = {};
    std::vector<ReadingRow> rows;
    for (ptrdiff_t r = 0; r < 2; r++)
        rows.push_back({state.data() + r * generator.state_size(), ids + 6 * r, ids + 6 * r, 6,
                        nullptr, nats + 6 * r});
    GeneratorRun run(generator, 2, 1);
    generator.read(rows, 1, run);
    Floats all = state;
    for (double n : nats) all.push_back((float)n);
    return all;
}

bool agree(const char *what, const Floats &found, const Floats &want, float bound) {
    float apart = 0, largest = 1;
    for (size_t i = 0; i < want.size(); i++) {
        const float difference = std::fabs(found[i] - want[i]);
        apart = std::isnan(difference) ? INFINITY : std::max(apart, difference);
        largest = std::max(largest, std::fabs(want[i]));
    }
    const bool holds = apart <= bound * largest;
    std::printf("%s: %zu numbers, %g apart, allowed %g%s\n", what, want.size(), (double)apart,
                (double)(bound * largest), holds ? "" : ": WRONG");
    return holds;
}

}  // namespace

int main() {
    const Kernels &fast = kernels_neon, &slow = kernels_baseline;
    bool holds = true;
    for (int cell = kTanh; cell <= kLstm; cell++)
        for (ptrdiff_t H : {1, 5, 33, 50})
            holds &= agree("recurrence", recurrence(fast, cell, 13, 4, H),
                           recurrence(slow, cell, 13, 4, H), 1e-5f);
    for (ptrdiff_t N : {1, 37})
        holds &= agree("loss", loss(fast, N, 19, 131), loss(slow, N, 19, 131), 1e-5f);
    for (int format : {kFloat32, kBfloat16, kInt8})  // int8: a number may fall over the edge of a step
        holds &= agree("generation", reading(fast, format, 37, 70), reading(slow, format, 37, 70),
                       format == kInt8 ? 3e-2f : 1e-5f);
    return holds ? 0 : 1;
}
