// Which instruction sets this processor offers, and the memory and checks that all bindings share.
#include <cstdlib>
#include <new>
#include <stdexcept>

#include "binding.h"

void Free::operator()(float *p) const { std::free(p); }

Buffer allocate(ptrdiff_t size) {
    const size_t bytes = ((size_t)size * sizeof(float) + 63) / 64 * 64;
    void *p = std::aligned_alloc(64, bytes ? bytes : 64);
    if (!p) throw std::bad_alloc();
    return Buffer((float *)p);
}

void require(bool holds, const char *what) {
    if (!holds) throw std::invalid_argument(what);
}

namespace {

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

}  // namespace

const Kernels &kernels_of(const std::string &level) {
    for (const Kernels *kernels : kLevels)
        if (is_offered(*kernels) && (level == "auto" || level == kernels->name)) return *kernels;
    throw std::invalid_argument("level " + level + " is unknown or not offered by this processor");
}

void bind_levels(nb::module_ &m) {
    m.def("levels", [] {  // the fastest first: "auto"
        nb::list names;
        for (const Kernels *kernels : kLevels)
            if (is_offered(*kernels)) names.append(kernels->name);
        return names;
    });
}
