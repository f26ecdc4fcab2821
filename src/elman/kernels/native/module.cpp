// The Python module `_native`: checks shapes, chooses the instruction set, splits rows over threads.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <omp.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include <nanobind/stl/optional.h>

#include "problem.h"

namespace nb = nanobind;

using Array1 = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Array2 = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Array3 = nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

namespace {

struct Free {
    void operator()(float *p) const { std::free(p); }
};
using Buffer = std::unique_ptr<float, Free>;

Buffer allocate(ptrdiff_t size) {
    const size_t bytes = ((size_t)size * sizeof(float) + 63) / 64 * 64;
    void *p = std::aligned_alloc(64, bytes ? bytes : 64);
    if (!p) throw std::bad_alloc();
    return Buffer((float *)p);
}

bool is_offered(const Kernels &kernels) {
#ifdef ELMAN_HAVE_X86
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (&kernels == &kernels_avx2) return has_avx2;
    if (&kernels == &kernels_avx512)
        return has_avx2 && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl");
#endif
    return &kernels == &kernels_baseline;
}

// From the fastest to the one that every processor has.
const Kernels *const kLevels[] = {
#ifdef ELMAN_HAVE_X86
    &kernels_avx512, &kernels_avx2,
#endif
    &kernels_baseline};

const Kernels &kernels_of(const std::string &level) {
    for (const Kernels *kernels : kLevels)
        if (is_offered(*kernels) && (level == "auto" || level == kernels->name)) return *kernels;
    throw std::invalid_argument("level " + level + " is unknown or not offered by this processor");
}

nb::list levels() {
    nb::list names;
    for (const Kernels *kernels : kLevels)
        if (is_offered(*kernels)) names.append(kernels->name);
    return names;
}

void require(bool holds, const char *what) {
    if (!holds) throw std::invalid_argument(what);
}

template <class A>
void require_shape(const A &a, std::initializer_list<ptrdiff_t> shape, const char *what) {
    size_t axis = 0;
    for (ptrdiff_t size : shape) require((ptrdiff_t)a.shape(axis++) == size, what);
}

int cell_of(const std::string &name) {
    if (name == "gru") return kGru;
    if (name == "tanh") return kTanh;
    require(name == "relu", "cell must be tanh, relu or gru");
    return kRelu;
}

void run(Problem &p, const Kernels &kernels, int backward, int num_threads) {
    require(num_threads >= 1, "num_threads must be at least 1");
    require(p.B >= 1 && p.T >= 1 && p.H >= 1, "B, T and H must be at least 1");
    const int threads = (int)(p.B < num_threads ? p.B : num_threads);
    const ptrdiff_t most = (p.B + threads - 1) / threads;
    const ptrdiff_t scratch = (kernels.scratch_size(p, backward, most) + 63) / 64 * 64 + 64;
    Buffer packed = allocate(kernels.packed_size(p, backward));
    Buffer rows = allocate(scratch * threads);
    p.packed = packed.get();
    // The runtime may give fewer threads than asked for: shares are of those that came.
#pragma omp parallel num_threads(num_threads)
    {
        const int share = omp_get_thread_num(), shares = omp_get_num_threads();
        kernels.pack(p, backward, share, shares);
#pragma omp barrier
        for (int part = share; part < threads; part += shares) {
            const ptrdiff_t begin = p.B * part / threads, end = p.B * (part + 1) / threads;
            (backward ? kernels.backward : kernels.forward)(p, begin, end,
                                                            rows.get() + part * scratch);
        }
    }
}

void forward(const std::string &cell, Array3 xg, Array2 first, Array2 weight_hh, Array1 bias_n,
             Array3 states, std::optional<Array3> gates, int num_threads,
             const std::string &level) {
    Problem p = {};
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
    Problem p = {};
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

// Without noconvert a strided or float64 output would be copied and the result lost.
NB_MODULE(_native, m) {
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
    m.def("levels", &levels);  // the fastest first: "auto"
}
