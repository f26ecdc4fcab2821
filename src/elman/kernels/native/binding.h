// What every binding needs: array types, checks, memory, and the choice of the instruction set.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include "levels.h"

namespace nb = nanobind;

// Arguments of these types are bound with noconvert: without it a strided or float64 output would be
// copied and the result lost.
using Array1 = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Array2 = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Array3 = nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

struct Free {
    void operator()(float *p) const;
};
using Buffer = std::unique_ptr<float, Free>;

// `size` floats at a multiple of 64 bytes; throws std::bad_alloc.
Buffer allocate(ptrdiff_t size);

// Throws std::invalid_argument, Python's ValueError, with `what` unless `holds`.
void require(bool holds, const char *what);

template <class A>
void require_shape(const A &a, std::initializer_list<ptrdiff_t> shape, const char *what) {
    size_t axis = 0;
    for (ptrdiff_t size : shape) require((ptrdiff_t)a.shape(axis++) == size, what);
}

// The kernels of the level of that name; "auto": the fastest that this processor offers.
const Kernels &kernels_of(const std::string &level);

void bind_levels(nb::module_ &m);
void bind_recurrence(nb::module_ &m);
