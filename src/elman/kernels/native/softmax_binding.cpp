// The linear layer with softmax and cross-entropy from Python: checks, memory, threads.
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "binding.h"
#include "teams.h"

#ifdef ELMAN_HAVE_X86
extern const SoftmaxKernels softmax_avx512bf16;
#endif

namespace {

using Ids = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

bool has_bfloat16() {
#ifdef ELMAN_HAVE_X86
    return __builtin_cpu_supports("avx512bf16") && kernels_of("auto").name == std::string("avx512");
#else
    return false;
#endif
}

const SoftmaxKernels &softmax_of(const std::string &precision, const std::string &level) {
    require(precision == "float32" || precision == "bfloat16",
            "precision must be float32 or bfloat16");
    if (precision == "float32") return kernels_of(level).softmax;
    require(has_bfloat16(), "this processor has no products in bfloat16");
#ifdef ELMAN_HAVE_X86
    return softmax_avx512bf16;
#else
    return kernels_of(level).softmax;
#endif
}

// Large memory in large pages where the system gives them: it is faulted in anew at every call.
Buffer allocate_large(ptrdiff_t size) {
    const size_t page = 2 << 20, bytes = ((size_t)size * sizeof(float) + page - 1) / page * page;
    if (bytes <= page) return allocate(size);
    void *p = std::aligned_alloc(page, bytes);
    if (!p) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return Buffer((float *)p);
}

void run(Softmax &p, const SoftmaxKernels &kernels) {
    Buffer memory = allocate_large(kernels.divide(p));  // which may lower p.shares
    p.memory = memory.get();
    const int num_threads = usable_threads(p.shares);
    // The runtime may give fewer threads than asked for: the division into shares stays.
#pragma omp parallel num_threads(num_threads)
    {
        const auto each = [&](void (*phase)(const Softmax &, ptrdiff_t, int), ptrdiff_t row) {
            for (int share = omp_get_thread_num(); share < p.shares; share += omp_get_num_threads())
                phase(p, row, share);
#pragma omp barrier
        };
        for (ptrdiff_t row = 0; row < p.N; row += p.rows) {
            each(kernels.pack, row);
            each(kernels.logits, row);
            each(kernels.finish, row);
            if (!p.grad_features) continue;
            each(kernels.gradients, row);
            each(kernels.join, row);
        }
    }
}

void softmax_loss(Array2 features, Array2 weight, Array1 bias, Ids targets, Doubles nats,
                  std::optional<Doubles> uniform, std::optional<Array2> grad_features,
                  std::optional<Array2> grad_weight, std::optional<Array1> grad_bias, double scale,
                  double smoothing, ptrdiff_t most_logits, const std::string &precision, int num_threads,
                  const std::string &level) {
    Softmax p = {};
    p.N = features.shape(0), p.F = features.shape(1), p.V = weight.shape(0);
    require_shape(weight, {p.V, p.F}, "weight must be [V, F]");
    require_shape(bias, {p.V}, "bias must be [V]");
    require_shape(targets, {p.N}, "targets must be [N]");
    require_shape(nats, {p.N}, "nats must be [N]");
    if (uniform) require_shape(*uniform, {p.N}, "uniform must be [N]");
    require(num_threads >= 1 && most_logits >= 1, "num_threads and most_logits must be at least 1");
    for (ptrdiff_t n = 0; n < p.N; n++)
        require(targets.data()[n] >= 0 && targets.data()[n] < p.V, "targets must lie in 0 … V − 1");
    const bool wants = grad_features.has_value();
    require(grad_weight.has_value() == wants && grad_bias.has_value() == wants,
            "gradients must be given all or not at all");
    if (wants) {
        require_shape(*grad_features, {p.N, p.F}, "grad_features must be [N, F]");
        require_shape(*grad_weight, {p.V, p.F}, "grad_weight must be [V, F]");
        require_shape(*grad_bias, {p.V}, "grad_bias must be [V]");
        p.grad_features = grad_features->data(), p.grad_weight = grad_weight->data();
        p.grad_bias = grad_bias->data();
    }
    p.features = features.data(), p.weight = weight.data(), p.bias = bias.data();
    p.targets = targets.data(), p.nats = nats.data();
    p.uniform = uniform ? uniform->data() : nullptr;
    p.scale = (float)scale, p.smoothing = (float)smoothing;
    p.most_logits = most_logits, p.shares = num_threads;
    const SoftmaxKernels &kernels = softmax_of(precision, level);
    if (p.N > 0 && p.F > 0) {
        run(p, kernels);
        return;
    }
    require(p.N == 0, "features must have at least one column");
    if (!wants) return;
    std::fill_n(p.grad_weight, p.V * p.F, 0.0f);
    std::fill_n(p.grad_bias, p.V, 0.0f);
}

}  // namespace

void bind_softmax(nb::module_ &m) {
    m.def("has_bfloat16", &has_bfloat16);
    m.def("softmax_loss", &softmax_loss, nb::arg("features").noconvert(),
          nb::arg("weight").noconvert(), nb::arg("bias").noconvert(), nb::arg("targets").noconvert(),
          nb::arg("nats").noconvert(), nb::arg("uniform").noconvert().none(),
          nb::arg("grad_features").noconvert().none(), nb::arg("grad_weight").noconvert().none(),
          nb::arg("grad_bias").noconvert().none(),
          nb::arg("scale"), nb::arg("smoothing"), nb::arg("most_logits"), nb::arg("precision"),
          nb::arg("num_threads"), nb::arg("level") = "auto",
          nb::call_guard<nb::gil_scoped_release>());
}
