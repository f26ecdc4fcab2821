// Recurrences from Python: checks shapes, splits rows over threads.
#include <omp.h>

#include "binding.h"

namespace {

int cell_of(const std::string &name) {
    if (name == "gru") return kGru;
    if (name == "tanh") return kTanh;
    require(name == "relu", "cell must be tanh, relu or gru");
    return kRelu;
}

void run(Recurrence &p, const Kernels &kernels, int backward, int num_threads) {
    require(num_threads >= 1, "num_threads must be at least 1");
    require(p.B >= 1 && p.T >= 1 && p.H >= 1, "B, T and H must be at least 1");
    const int threads = (int)(p.B < num_threads ? p.B : num_threads);
    const ptrdiff_t most = (p.B + threads - 1) / threads;
    const ptrdiff_t scratch = (kernels.recurrence.scratch_size(p, backward, most) + 63) / 64 * 64 + 64;
    Buffer packed = allocate(kernels.recurrence.packed_size(p, backward));
    Buffer rows = allocate(scratch * threads);
    p.packed = packed.get();
    // The runtime may give fewer threads than asked for: shares are of those that came.
#pragma omp parallel num_threads(num_threads)
    {
        const int share = omp_get_thread_num(), shares = omp_get_num_threads();
        kernels.recurrence.pack(p, backward, share, shares);
#pragma omp barrier
        for (int part = share; part < threads; part += shares) {
            const ptrdiff_t begin = p.B * part / threads, end = p.B * (part + 1) / threads;
            (backward ? kernels.recurrence.backward : kernels.recurrence.forward)(p, begin, end,
                                                            rows.get() + part * scratch);
        }
    }
}

void forward(const std::string &cell, Array3 xg, Array2 first, Array2 weight_hh, Array1 bias_n,
             Array3 states, std::optional<Array3> gates, int num_threads,
             const std::string &level) {
    Recurrence p = {};
    p.cell = cell_of(cell);
    p.B = states.shape(0), p.T = states.shape(1), p.H = states.shape(2);
    const ptrdiff_t G = p.cell == kGru ? 3 : 1;
    require_shape(xg, {p.B, p.T, G * p.H}, "xg must be [B, T, G H]");
    require_shape(first, {p.B, p.H}, "first must be [B, H]");
    require_shape(weight_hh, {G * p.H, p.H}, "weight_hh must be [G H, H]");
    if (p.cell == kGru) require_shape(bias_n, {p.H}, "bias_n must be [H]");
    if (gates) require_shape(*gates, {p.B, p.T, 4 * p.H}, "gates must be [B, T, 4 H]");
    p.xg = xg.data(), p.first = first.data(), p.weight_hh = weight_hh.data();
    p.bias_n = bias_n.data(), p.states = states.data();
    p.gates = gates && p.cell == kGru ? gates->data() : nullptr;
    run(p, kernels_of(level), 0, num_threads);
}

void backward(const std::string &cell, std::optional<Array3> grad_states,
              std::optional<Array2> grad_last, Array2 first, Array2 weight_hh, Array3 states,
              std::optional<Array3> gates, Array3 grads, Array2 grad_first, int num_threads,
              const std::string &level) {
    Recurrence p = {};
    p.cell = cell_of(cell);
    p.B = states.shape(0), p.T = states.shape(1), p.H = states.shape(2);
    const ptrdiff_t G = p.cell == kGru ? 3 : 1, saved = p.cell == kGru ? 4 : 1;
    if (grad_states) require_shape(*grad_states, {p.B, p.T, p.H}, "grad_states must be [B, T, H]");
    if (grad_last) require_shape(*grad_last, {p.B, p.H}, "grad_last must be [B, H]");
    require_shape(first, {p.B, p.H}, "first must be [B, H]");
    require_shape(weight_hh, {G * p.H, p.H}, "weight_hh must be [G H, H]");
    require(gates.has_value() || p.cell != kGru, "the GRU needs gates");
    if (gates && p.cell == kGru)
        require_shape(*gates, {p.B, p.T, 4 * p.H}, "gates must be [B, T, 4 H]");
    require_shape(grads, {p.B, p.T, saved * p.H}, "grads must be [B, T, H], of the GRU [B, T, 4 H]");
    require_shape(grad_first, {p.B, p.H}, "grad_first must be [B, H]");
    p.grad_states = grad_states ? grad_states->data() : nullptr;
    p.grad_last = grad_last ? grad_last->data() : nullptr;
    p.first = first.data(), p.weight_hh = weight_hh.data(), p.states = states.data();
    p.gates = gates ? gates->data() : nullptr;
    p.grads = grads.data(), p.grad_first = grad_first.data();
    run(p, kernels_of(level), 1, num_threads);
}

}  // namespace

void bind_recurrence(nb::module_ &m) {
    m.def("forward", &forward, nb::arg("cell"), nb::arg("xg").noconvert(),
          nb::arg("first").noconvert(), nb::arg("weight_hh").noconvert(),
          nb::arg("bias_n").noconvert(), nb::arg("states").noconvert(),
          nb::arg("gates").noconvert().none(), nb::arg("num_threads"), nb::arg("level") = "auto",
          nb::call_guard<nb::gil_scoped_release>());
    m.def("backward", &backward, nb::arg("cell"), nb::arg("grad_states").noconvert().none(),
          nb::arg("grad_last").noconvert().none(), nb::arg("first").noconvert(),
          nb::arg("weight_hh").noconvert(), nb::arg("states").noconvert(),
          nb::arg("gates").noconvert().none(), nb::arg("grads").noconvert(),
          nb::arg("grad_first").noconvert(), nb::arg("num_threads"), nb::arg("level") = "auto",
          nb::call_guard<nb::gil_scoped_release>());
}
