"""A model packed for native generation, or why it is not; its states as rows and as cells."""

import numpy as np
import torch
from torch import nn

from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_generation import (
    LayerWeights,
    ModelWeights,
    NativeGenerator,
    States,
    WeightPrecision,
    tabulates,
    why_no_native_generation,
)
from elman.layers.readout import Readout
from elman.layers.stack import StackState
from elman.models.language import LanguageModel
from elman.models.recurrent import RecurrentLanguageModel


def pack_for_generation(
    model: LanguageModel, plan: KernelPlan, precision: WeightPrecision = "float32"
) -> tuple[NativeGenerator | None, str]:
    """Return `model` as it is now, packed, and how it runs; None and why where the loop must do.

    A plan that asks for a kernel other than the best one is heeded: it gets the readable loop.
    """
    if plan.choice in ("reference", "torch"):
        return None, f"reference: the choice of kernels is {plan.choice}"
    if not isinstance(model, RecurrentLanguageModel):
        return None, "reference: only a recurrent model has weights to pack"
    if model.stack.num_directions != 1:
        return None, "reference: a backward reader needs the whole text"
    if not isinstance(model.readout, Readout):
        return None, f"reference: its output is {model.readout.describe()}"
    weights = _weights_of(model)
    reason = why_no_native_generation(weights)
    if reason:
        return None, f"reference: {reason}"
    packed = NativeGenerator(weights, precision)
    return packed, f"native: {packed.level}, {precision} weights"


def is_first_tabulated(model: RecurrentLanguageModel) -> bool:
    """Return whether the first product of each token is looked up, and so never rounded."""
    return tabulates(_weights_of(model))


def rows_of(state: StackState) -> States:
    """Return the state of B rows as [B, S]: each cell's parts one after the other, copied."""
    parts = [part.numpy(force=True) for cell_state in state for part in cell_state]
    return np.concatenate(parts, axis=1, dtype=np.float32)


def cells_of(rows_BS: States, model: LanguageModel) -> StackState:
    """Return the state that `rows_of` made rows_BS of, copied."""
    cells, start = [], 0
    for zeros in model.zero_state(1):
        parts = []
        for zero in zeros:
            end = start + zero.shape[1]
            parts.append(torch.from_numpy(rows_BS[:, start:end].copy()))
            start = end
        cells.append(type(zeros)(*parts))
    return tuple(cells)


def _weights_of(model: RecurrentLanguageModel) -> ModelWeights:
    stack, readout = model.stack, model.readout
    layers = []
    for place in range(len(stack.cells)):
        cell = stack.cell(place)
        norm = None
        if stack.options.layer_norm:
            normalises = stack.norms[place]
            assert isinstance(normalises, nn.LayerNorm)
            norm = (normalises.weight, normalises.bias)
        layers.append(
            LayerWeights(cell.key, cell.kernel_weights, norm, adds_input=stack.options.residual)
        )
    embedding = None if model.embedding is None else model.embedding.weight
    assert isinstance(readout, Readout)
    return ModelWeights(embedding, tuple(layers), readout.projection, readout.weight, readout.bias)
