"""A model as its packed weights have it: the readable twin of bfloat16 and int8, and its scores."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode

from elman.decoding.packing import cells_of, is_first_tabulated, rows_of
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_generation import NativeGenerator, WeightPrecision
from elman.layers.embedding import EmbeddingGradient
from elman.layers.readout import Readout
from elman.layers.stack import StackState
from elman.models.language import ModelOutput
from elman.models.recurrent import RecurrentLanguageModel
from elman.seeding import generator as new_generator

STEPS = 127
"""Whole steps that int8 has each way; −128 is not used."""


def round_rows(weight_GF: Tensor, precision: WeightPrecision) -> Tensor:
    """Return the values that a matrix has in `precision`, as float32.

    int8:  s = max |w_row| / 127;  w → s · round(w / s), to even
    """
    if precision == "float32":
        return weight_GF
    if precision == "bfloat16":
        return weight_GF.bfloat16().float()
    highest_G1 = weight_GF.abs().amax(dim=-1, keepdim=True)
    inverse_G1 = torch.where(highest_G1 > 0, STEPS / highest_G1, 0.0)
    return torch.round(weight_GF * inverse_G1) * (highest_G1 / STEPS)


class RoundedReadout(Readout):
    """The readout on a rounded matrix of its own, which reads rounded features where int8 does."""

    def __init__(self, readout: Readout, precision: WeightPrecision) -> None:
        with torch.no_grad():
            weight = nn.Parameter(round_rows(readout.weight, precision).clone())
        projection = readout.projection
        super().__init__(
            weight.shape[1] if projection is None else projection.shape[1],
            weight.shape[0],
            tied=weight,
        )
        self._precision: WeightPrecision = precision
        with torch.no_grad():
            self.bias = nn.Parameter(readout.bias.clone())
            if projection is not None:
                self.projection = nn.Parameter(round_rows(projection, precision).clone())

    def project(self, states_BTH: Tensor) -> Tensor:
        """Return the features that meet `weight`; in int8 what goes in and comes out is rounded."""
        if self._precision != "int8":
            return super().project(states_BTH)
        features_BTF = round_rows(states_BTH, "int8")
        if self.projection is None:
            return features_BTF
        return round_rows(linear(features_BTF, self.projection), "int8")


class RoundedLanguageModel(RecurrentLanguageModel):
    """`model` in `precision`: what a `NativeGenerator` of it computes, up to the order of its sums.

    Matrices are rounded; so is, in int8, every vector that one of them is multiplied with. Exempt
    is the first matrix where its products are tabulated. With `packed`, the model's own packed
    weights, states come from there; without, from the readable loop. There is no noise and no
    gradient.
    """

    def __init__(
        self,
        model: RecurrentLanguageModel,
        precision: WeightPrecision,
        packed: NativeGenerator | None = None,
    ) -> None:
        if not isinstance(model.readout, Readout):
            raise SettingError(
                "weights of fewer bits need one softmax over all tokens",
                got=model.readout.describe(),
                allowed="--precision float32",
            )
        super().__init__(model.settings, model.vocabulary_size, new_generator(0, "initialisation"))
        self.load_state_dict(model.state_dict())
        self._packed, self._precision = packed, precision
        self._is_tabulated = is_first_tabulated(model)
        first = self.stack.cell(0).weight_ih
        with torch.no_grad():
            for name, weight in self.stack.named_parameters():
                is_matrix = name.rpartition(".")[2] in _MATRICES
                if is_matrix and not (weight is first and self._is_tabulated):
                    weight.copy_(round_rows(weight, precision))
        self.readout = RoundedReadout(model.readout, precision)

    def forward(
        self,
        ids_BT: Tensor,
        state: StackState | None = None,
        lengths_B: Tensor | None = None,
        *,
        plan: KernelPlan,
        generator: torch.Generator | None = None,
        recompute: int = 0,
        embedding_gradient: EmbeddingGradient = "dense",
    ) -> ModelOutput:
        """Read ids_BT after `state`, as `RecurrentLanguageModel` does; `generator` must be None."""
        assert generator is None, "a rounded model is not trained"
        with torch.no_grad():
            if self._packed is not None:
                return self._read(self._packed, ids_BT, state, lengths_B)
            loop = KernelPlan("reference")
            if self._precision != "int8":
                return super().forward(ids_BT, state, lengths_B, plan=loop)
            first = self.stack.cell(0).weight_ih if self._is_tabulated else None
            with _RoundedOperands(first):
                return super().forward(ids_BT, state, lengths_B, plan=loop)

    def _read(
        self,
        packed: NativeGenerator,
        ids_BT: Tensor,
        state: StackState | None,
        lengths_B: Tensor | None,
    ) -> ModelOutput:
        batch_size, num_steps = ids_BT.shape
        rows_BS = packed.zero_rows(batch_size) if state is None else rows_of(state)
        states_BTP = torch.zeros(batch_size, num_steps, packed.output_size)
        lengths = None if lengths_B is None else lengths_B.tolist()
        packed.read(rows_BS, ids_BT.numpy(), lengths, states_BTP=states_BTP.numpy())
        return ModelOutput(states_BTP, self.readout, cells_of(rows_BS, self))


class _RoundedOperands(TorchFunctionMode):
    """Within it, the vectors that `linear` multiplies are rounded, but for the `exempt` matrix."""

    def __init__(self, exempt: Tensor | None) -> None:
        super().__init__()
        self._exempt = exempt

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is linear and args[1] is not self._exempt:
            args = (round_rows(args[0], "int8"), *args[1:])
        return func(*args, **(kwargs or {}))


_MATRICES = ("weight_ih", "weight_hh", "weight_hr")
