// One step of each cell over vectors of units, and the passes over a vector of logits, compiled once
// for each instruction set after vectors.inl and generation_products.inl.
#include "generation_int8.inl"

#include "generation_products.inl"

namespace ELMAN_ISA {
namespace {

ELMAN_INLINE V exponential(V x) {
    V power, q;
    exp_parts(x, power, q);
    return power + power * q;
}

ELMAN_INLINE V higher(V a, V b) { return a > b ? a : b; }

ELMAN_INLINE V positive(V a) { return a >= 0.0f ? a + 0.5f : sigmoid(a); }

// Gate g of the units from u of a product whose panels hold `gates` gates.
ELMAN_INLINE V gate(const float *product, ptrdiff_t u, int gates, int g) {
    return load(product + u * gates + g * W);
}

ELMAN_INLINE void keep(float *to, V value) { store(to, value, W); }

ELMAN_INLINE void lstm_units(const UnitStep &s, ptrdiff_t u) {
    const int gates = s.couples ? 3 : 4;
    V a[4];
    for (int g = 0; g < gates; g++) a[g] = gate(s.input, u, gates, g) + gate(s.state, u, gates, g);
    const V c = load(s.c + u);
    const float *peephole = s.peepholes ? s.peepholes + u : nullptr;
    V in = {}, forget = a[s.couples ? 0 : 1];
    if (!s.couples) {
        in = a[0];
        if (peephole) in += load(peephole) * c, peephole += s.units;
        in = sigmoid(in);
    }
    if (peephole) forget += load(peephole) * c, peephole += s.units;
    forget = sigmoid(forget);
    if (s.couples) in = 1.0f - forget;
    const V next = forget * c + in * tanh(a[gates - 2]);
    V out = a[gates - 1];
    if (peephole) out += load(peephole) * next;
    keep(s.c_next + u, next);
    keep(s.h_next + u, sigmoid(out) * tanh(next));
}

ELMAN_INLINE V mixed(const UnitStep &s, ptrdiff_t u, V z, V n) {
    const V h = load(s.h + u);
    return s.keeps ? n + z * (h - n) : h + z * (n - h);
}

ELMAN_INLINE void gru_after_units(const UnitStep &s, ptrdiff_t u) {
    const V r = sigmoid(gate(s.input, u, 3, 0) + gate(s.state, u, 3, 0));
    const V z = sigmoid(gate(s.input, u, 3, 1) + gate(s.state, u, 3, 1));
    keep(s.h_next + u, mixed(s, u, z, tanh(gate(s.input, u, 3, 2) + r * gate(s.state, u, 3, 2))));
}

// Gates whose sums do not overflow: shares e^b' and e^a' of one whole, the highest exponent 0.
ELMAN_INLINE V first_share(V f, V i) {
    const V a = -f, b = -i, most = higher(higher(a, b), V{});
    const V one = exponential(-most), by_f = one + exponential(a - most);
    const V by_i = one + exponential(b - most);
    return by_i / (by_i + by_f);
}

void first_part(const UnitStep &s, ptrdiff_t begin, ptrdiff_t end) {
    for (ptrdiff_t u = begin; u < end; u += W) {
        if (s.equation <= kStepIdentity) {
            V a = load(s.input + u) + load(s.state + u);
            if (s.equation == kStepTanh) a = tanh(a);
            if (s.equation == kStepRelu) a = a < 0.0f ? V{} : a;  // NaN passes
            keep(s.h_next + u, a);
        } else if (s.equation == kStepLstm) {
            lstm_units(s, u);
        } else if (s.equation == kStepGruAfter) {
            gru_after_units(s, u);
        } else if (s.equation == kStepGruBefore) {
            const V r = sigmoid(gate(s.input, u, 3, 0) + gate(s.state, u, 2, 0));
            keep(s.update + u, sigmoid(gate(s.input, u, 3, 1) + gate(s.state, u, 2, 1)));
            keep(s.reset + u, r * load(s.h + u));
        } else if (s.equation == kStepMgu) {
            const V f = sigmoid(gate(s.input, u, 2, 0) + load(s.state + u));
            keep(s.update + u, f);
            keep(s.reset + u, f * load(s.h + u));
        } else if (s.equation == kStepMinGru) {
            const V z = sigmoid(gate(s.input, u, 2, 0));
            keep(s.h_next + u, mixed(s, u, z, positive(gate(s.input, u, 2, 1))));
        } else {
            const V f = gate(s.input, u, 3, 0), i = gate(s.input, u, 3, 1);
            const V n = positive(gate(s.input, u, 3, 2));
            keep(s.h_next + u, first_share(f, i) * load(s.h + u) + first_share(i, f) * n);
        }
    }
}

void second_part(const UnitStep &s, ptrdiff_t begin, ptrdiff_t end) {
    const int gates = s.equation == kStepMgu ? 2 : 3;
    for (ptrdiff_t u = begin; u < end; u += W) {
        const V n = tanh(gate(s.input, u, gates, gates - 1) + load(s.again + u));
        keep(s.h_next + u, mixed(s, u, load(s.update + u), n));
    }
}

float highest(const float *z, ptrdiff_t size, float *blocks) {
    float most = -__builtin_inff();
    VI wrong = {};
    for (ptrdiff_t first = 0; first < size; first += kMaximumBlock) {
        V found = all(-__builtin_inff());
        const ptrdiff_t stop = first + kMaximumBlock < size ? first + kMaximumBlock : size;
        for (ptrdiff_t j = first; j < stop; j += W) {
            V value = load(z + j);
            if (j + W > stop)
                for (int i = 0; i < W; i++) value[i] = j + i < stop ? value[i] : -__builtin_inff();
            wrong |= (VI)(value != value);
            found = higher(found, value);
        }
        float block = found[0];
        for (int i = 1; i < W; i++) block = found[i] > block ? found[i] : block;
        blocks[first / kMaximumBlock] = block;
        most = block > most ? block : most;
    }
    for (int i = 0; i < W; i++)
        if (wrong[i]) return __builtin_nanf("");
    return most;
}

void weigh(const Weighing &p) {
    for (ptrdiff_t first = 0; first < p.size; first += kSumBlock) {
        const ptrdiff_t stop = first + kSumBlock < p.size ? first + kSumBlock : p.size;
        V sum = {};
        for (ptrdiff_t j = first; j < stop; j += W) {
            const V z = load(p.logits + j);
            const V x = (z - p.highest) * p.inverse_temperature;
            V weight = exponential(x);
            weight = x < -87.0f ? V{} : weight;
            weight = z < p.floor ? V{} : weight;
            if (j + W > stop)
                for (int i = 0; i < W; i++) weight[i] = j + i < stop ? weight[i] : 0.0f;
            store(p.weights + j, weight, W);
            sum += weight;
        }
        double whole = 0;
        for (int i = 0; i < W; i++) whole += (double)sum[i];
        p.sums[first / kSumBlock] = whole;
    }
}

ptrdiff_t gather(const float *z, ptrdiff_t size, float bound, int32_t *places) {
    ptrdiff_t count = 0;
    for (ptrdiff_t j = 0; j < size; j += W) {
        const VI above = (VI)(load(z + j) >= bound);
        int32_t any = 0;
        for (int i = 0; i < W; i++) any |= above[i];
        if (!any) continue;
        for (int i = 0; i < W && j + i < size; i++)
            if (above[i]) places[count++] = (int32_t)(j + i);
    }
    return count;
}

float sweep(const float *numbers, ptrdiff_t size) {
    V sums[8] = {};
    for (ptrdiff_t j = 0; j + 8 * W <= size; j += 8 * W)
#pragma GCC unroll 8
        for (int v = 0; v < 8; v++) {
            sums[v] += load(numbers + j + v * W);
            if (v * W % 16 == 0) __builtin_prefetch(numbers + j + v * W + ELMAN_AHEAD / 4);
        }
    for (int v = 1; v < 8; v++) sums[0] += sums[v];
    float sum = 0;
    for (int i = 0; i < W; i++) sum += sums[0][i];
    return sum;
}

const GenerationKernels generation_kernels = {
    W,           shape_matrix, pack_matrix, multiply, quantise, first_part,
    second_part, highest,      weigh,       gather,   sweep};

}  // namespace
}  // namespace ELMAN_ISA
