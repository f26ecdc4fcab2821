"""Which library makes a large product: torch's default one or oneDNN, measured once for each size.

torch multiplies float32 on a CPU by MKL, which on AMD processors may leave half of a core unused;
oneDNN is better for some sizes and worse for others. Both round differently in the last places, so
that a choice is remembered, recorded with the run, and used again when it goes on.
"""

import time
from collections.abc import Mapping
from typing import Literal, Self, get_args

import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.errors import RunError
from elman.kernels.native_arrays import require_array

ProductKind = Literal["projection", "input gradient", "weight gradient"]
Library = Literal["torch", "onednn"]

SMALL_PRODUCT = 1 << 22
"""Multiplications below which torch's default is used unmeasured: both take some microseconds."""

REPEATS = 3
RECORD_PREFIX = "product, "


class ProductPlan:
    """The library for each kind of product and class of sizes, chosen at first use and kept.

        projection       x W^T + b   [rows, inner] · [columns, inner]
        input gradient   G W         [rows, inner] · [inner, columns]
        weight gradient  G^T X       [inner, rows] · [inner, columns]

    Sizes belong to one class when each has the same next power of two. `measures` False never
    measures: whatever is not in `chosen` is made by torch's default library. Float32 on a CPU alone
    has a choice.
    """

    def __init__(
        self, chosen: Mapping[str, Library] | None = None, *, measures: bool = True
    ) -> None:
        self._chosen: dict[str, Library] = dict(chosen or {})
        self._measures = measures

    def project(self, x_NF: Tensor, weight_GF: Tensor, bias_G: Tensor | None = None) -> Tensor:
        """Return x W^T + b [N, G], without recording gradients."""
        return self._make("projection", x_NF, weight_GF, bias_G)

    def input_gradient(self, grad_NG: Tensor, weight_GF: Tensor) -> Tensor:
        """Return G W [N, F], without recording gradients."""
        return self._make("input gradient", grad_NG, weight_GF, None)

    def weight_gradient(self, grad_NG: Tensor, x_NF: Tensor) -> Tensor:
        """Return G^T X [G, F], without recording gradients."""
        return self._make("weight gradient", grad_NG, x_NF, None)

    def choose(self, kind: ProductKind, rows: int, inner: int, columns: int) -> Library:
        """Return the library for a float32 product on a CPU; measure it where the class is new."""
        if rows * inner * columns < SMALL_PRODUCT:
            return "torch"
        name = f"{kind} {_class(rows)} x {_class(inner)} x {_class(columns)}"
        found = self._chosen.get(name)
        if found is None and self._measures and has_onednn():
            found = self._chosen[name] = _measured(kind, rows, inner, columns)
        return found or "torch"

    def record(self) -> dict[str, str]:
        """Return the library of every class measured so far."""
        return {f"{RECORD_PREFIX}{name}": library for name, library in self._chosen.items()}

    @classmethod
    def from_record(cls, record: Mapping[str, str], *, measures: bool = True) -> Self:
        """Return the plan that makes the same choices; other entries of `record` are passed over.

        Raises `RunError` where a library is unknown.
        """
        chosen: dict[str, Library] = {}
        for key, library in record.items():
            if not key.startswith(RECORD_PREFIX):
                continue
            if library not in get_args(Library):
                raise RunError(
                    "the record of kernels must name a known library for each product",
                    got=f"{key}: {library}",
                    allowed=", ".join(get_args(Library)),
                )
            chosen[key.removeprefix(RECORD_PREFIX)] = library  # type: ignore[assignment]
        return cls(chosen, measures=measures)

    def _make(self, kind: ProductKind, left: Tensor, right: Tensor, bias: Tensor | None) -> Tensor:
        library: Library = "torch"
        if left.device.type == "cpu" and left.dtype == right.dtype == torch.float32:
            rows, inner = left.shape if kind != "weight gradient" else left.t().shape
            columns = right.shape[0] if kind == "projection" else right.shape[1]
            library = self.choose(kind, rows, inner, columns)
        return make_product(kind, library, left, right, bias)


def make_product(
    kind: ProductKind, library: Library, left: Tensor, right: Tensor, bias: Tensor | None = None
) -> Tensor:
    """Return the product of `kind` by `library`, operands as in `ProductPlan`; no gradients."""
    with torch.no_grad():
        if kind == "weight gradient":
            left = left.t()
        if library == "torch":
            if kind == "projection":
                return linear(left, right, bias)
            return left @ right
        if kind != "projection":
            right = right.t()
        left, right = left.resolve_neg(), right.resolve_neg()
        if bias is not None:  # which oneDNN reads at its address, whatever its shape and strides
            require_array("bias_G", bias, (right.shape[0],))
            bias = bias.resolve_neg().contiguous()
        product: Tensor = torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")
        return product


def _class(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()


def has_onednn(dtype: torch.dtype = torch.float32) -> bool:
    """Return whether this torch has oneDNN's product, and this processor that of `dtype`."""
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not available or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32


def _measured(kind: ProductKind, rows: int, inner: int, columns: int) -> Library:
    """Return the faster library, by the least of a few times, both taking turns."""
    left_shape = (inner, rows) if kind == "weight gradient" else (rows, inner)
    right_shape = (columns, inner) if kind == "projection" else (inner, columns)
    # Of the type that has a choice, whatever the default of the process is.
    left = torch.ones(left_shape, dtype=torch.float32, device="cpu")
    right = torch.ones(right_shape, dtype=torch.float32, device="cpu")
    least: dict[Library, float] = {}
    for _ in range(1 + REPEATS):  # the first time of each is that of its preparations, never least
        for library in get_args(Library):
            start = time.perf_counter()
            make_product(kind, library, left, right)
            seconds = time.perf_counter() - start
            least[library] = min(seconds, least.get(library, seconds))
    return min(get_args(Library), key=lambda library: least[library])
