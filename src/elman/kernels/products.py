"""The product that makes logits, through oneDNN where that beats torch's default library."""

import os

import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.kernels.dispatch import FORCE_VARIABLE


def affine(x_NF: Tensor, weight_VF: Tensor, bias_V: Tensor) -> Tensor:
    """Return x W^T + b [N, V], without recording gradients.

    torch multiplies float32 on a CPU by MKL, which on AMD processors leaves about half of the core
    unused when F is small and V large; oneDNN does not. The twin is `torch.nn.functional.linear`,
    to which `ELMAN_KERNELS=reference` returns; both round differently in the last places.
    """
    with torch.no_grad():
        if _onednn_applies(x_NF, weight_VF):
            product: Tensor = torch.ops.mkldnn._linear_pointwise(
                x_NF, weight_VF, bias_V, "none", [], ""
            )
            return product
        return linear(x_NF, weight_VF, bias_V)


def _onednn_applies(x_NF: Tensor, weight_VF: Tensor) -> bool:
    return (
        os.environ.get(FORCE_VARIABLE) != "reference"
        and x_NF.device.type == "cpu"
        and x_NF.dtype == weight_VF.dtype == torch.float32
        and x_NF.shape[0] > 0
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
