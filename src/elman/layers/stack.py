"""Recurrent layers one above the other, in one or both directions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from elman.cells.cell import Cell, CellState
from elman.cells.initialising import Initialisation
from elman.errors import SettingError, ShapeError
from elman.kernels.dispatch import KernelPlan
from elman.layers.dropout import DropMask, DropoutKind, draw_mask
from elman.layers.noise import NoiseRates, StackNoise, StepNoise
from elman.layers.recomputing import run_in_blocks
from elman.layers.recurrence import Direction, recur

StackState = tuple[CellState, ...]
"""A cell state for each layer and direction: layer-major, direction-minor, as in torch."""

_DIRECTIONS: tuple[Direction, Direction] = ("forward", "backward")


@dataclass(frozen=True)
class StackOptions:
    """How layers meet, and what noise acts within them.

    dropout, kind: between two layers. residual: a layer's output is added to its input where both
    are of one width. layer_norm: each layer's output is normalised, with a gain and a shift of its
    own (`torch.nn.LayerNorm`), before it is added.
    """

    dropout: float = 0.0
    dropout_kind: DropoutKind = "ordinary"
    residual: bool = False
    layer_norm: bool = False
    noise: NoiseRates = field(default_factory=NoiseRates)


class RecurrentStack(nn.Module):
    """Layers of cells: the outputs of one layer, dropped, are the inputs of the next.

        x⁰ = x_BTE;  y = drop(xˡ⁻¹);  xˡ = [recur(cell_{l,forward}, y), recur(cell_{l,backward}, y)]
        layer_norm: xˡ ← N(xˡ) ∘ gain + shift;  residual: xˡ ← xˡ + y

    with nothing dropped before the first layer or after the last, as in torch. `cells` come
    layer-major, direction-minor. Parameters are `cells.K.weight_ih` and so on, where
    K = layer · directions + direction: torch's `weight_ih_lL` and `weight_ih_lL_reverse`, renamed.
    Normalisation is per step, so that no padding and no neighbour enters it.

    Raises `ShapeError` when a cell does not read what the layer below writes.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        *,
        num_directions: int = 1,
        options: StackOptions | None = None,
    ) -> None:
        super().__init__()
        if num_directions not in (1, 2) or not cells or len(cells) % num_directions:
            raise ShapeError(
                "a stack must have the same directions, one or two, in each of at least one layer",
                got=f"{len(cells)} cells in {num_directions} directions",
            )
        self.cells = nn.ModuleList(cells)
        self.num_directions = num_directions
        self.num_layers = len(cells) // num_directions
        self.options = StackOptions() if options is None else options
        self.input_size = cells[0].input_size
        self.output_size = sum(cell.output_size for cell in cells[-num_directions:])
        self._require_fit()
        norms = self._layer_widths()[1:] if self.options.layer_norm else []
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in norms)

    def forward(
        self,
        x_BTE: Tensor,
        state: StackState | None,
        lengths_B: Tensor | None,
        *,
        plan: KernelPlan,
        generator: torch.Generator | None = None,
        recompute: int = 0,
    ) -> tuple[Tensor, StackState]:
        """Return the last layer's states_BTH, forward half first, and the state of all layers.

        With `recompute` K > 0, and while gradients are recorded, all layers run block by block of K
        steps, and each block is run again in the backward pass (`elman.layers.recomputing`): the
        states between two blocks are kept, not what lies within. Raises `SettingError` for K > 0 in
        two directions, where no block can begin before the other end was read.
        """
        if recompute and self.num_directions > 1:
            raise SettingError(
                "only a stack of one direction can be run again block by block",
                got=f"recompute = {recompute} in {self.num_directions} directions",
                allowed="training.recompute = 0",
            )
        self._require_parts(state)
        noise = self.draw_noise(x_BTE, generator)

        def run(
            x_BTE: Tensor, state: StackState | None, lengths_B: Tensor | None, noise: StackNoise
        ) -> tuple[Tensor, StackState]:
            layers, after = self._run(x_BTE, state, lengths_B, noise, plan)
            return layers[-1], after

        if recompute and torch.is_grad_enabled() and x_BTE.shape[1] > recompute:
            return run_in_blocks(run, x_BTE, state, lengths_B, noise, recompute)
        return run(x_BTE, state, lengths_B, noise)

    def all_layers(
        self,
        x_BTE: Tensor,
        state: StackState | None,
        lengths_B: Tensor | None,
        *,
        plan: KernelPlan,
        generator: torch.Generator | None = None,
    ) -> tuple[list[Tensor], StackState]:
        """Return states_BTH of every layer, the first one first, and the state of all layers.

        In a layer of two directions the forward half comes first: states_BTH[..., :P] are the
        forward reader's, the rest the backward reader's.
        """
        self._require_parts(state)
        return self._run(x_BTE, state, lengths_B, self.draw_noise(x_BTE, generator), plan)

    def run_under(
        self,
        x_BTE: Tensor,
        state: StackState | None,
        noise: StackNoise,
        *,
        plan: KernelPlan,
    ) -> tuple[Tensor, StackState]:
        """Return the last layer's states_BTH and the state of all layers, under noise as drawn.

        For steps of which each waits for what is made of the one before: draw the noise of all of
        them once, and cut it with `StackNoise.of_steps`.
        """
        layers, after = self._run(x_BTE, state, None, noise, plan)
        return layers[-1], after

    def draw_noise(self, x_BTE: Tensor, generator: torch.Generator | None) -> StackNoise:
        """Return all that a run over x_BTE needs to draw: layer by layer, from below."""
        options, widths = self.options, self._layer_widths()
        inputs, cells, steps = list[DropMask | None](), list[Cell](), list[StepNoise | None]()
        for layer in range(self.num_layers):
            shape = (x_BTE.shape[0], x_BTE.shape[1], widths[layer])
            rate, kind = options.dropout if layer else 0.0, options.dropout_kind
            inputs.append(draw_mask(shape, rate, generator, kind=kind, device=x_BTE.device))
            first = layer * self.num_directions
            for place in range(first, first + self.num_directions):
                cell = options.noise.with_dropped_weights(self.cell(place), generator)
                cells.append(cell)
                steps.append(options.noise.for_run(cell, x_BTE, generator))
        return StackNoise(tuple(inputs), tuple(cells), tuple(steps))

    def _run(
        self,
        x_BTE: Tensor,
        state: StackState | None,
        lengths_B: Tensor | None,
        noise: StackNoise,
        plan: KernelPlan,
    ) -> tuple[list[Tensor], StackState]:
        """Return states_BTH of every layer and the state of all layers, under noise as drawn."""
        read_BTE, after = x_BTE, list[CellState]()
        layers: list[Tensor] = []
        for layer, mask in enumerate(noise.inputs):
            if layer > 0:
                read_BTE = layers[-1] if mask is None else mask.on(layers[-1])
            outputs = []
            for way, direction in enumerate(_DIRECTIONS[: self.num_directions]):
                place = layer * self.num_directions + way
                output_BTP, final = recur(
                    noise.cells[place],
                    read_BTE,
                    None if state is None else state[place],
                    lengths_B,
                    plan=plan,
                    direction=direction,
                    noise=noise.steps[place],
                )
                outputs.append(output_BTP)
                after.append(final)
            written_BTH = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)
            layers.append(self.joined(layer, read_BTE, written_BTH, lengths_B))
        return layers, tuple(after)

    def joined(
        self, layer: int, read_BTE: Tensor, written_BTH: Tensor, lengths_B: Tensor | None
    ) -> Tensor:
        """Return what a layer hands on of what it read and wrote: 0 at padding, as in `recur`."""
        whole_BTH = written_BTH
        if self.options.layer_norm:
            whole_BTH = self.norms[layer](whole_BTH)
        if self.options.residual and read_BTE.shape == whole_BTH.shape:
            whole_BTH = whole_BTH + read_BTE
        if whole_BTH is written_BTH or lengths_B is None:
            return whole_BTH
        steps_T = torch.arange(whole_BTH.shape[1], device=whole_BTH.device)
        inside_BT1 = (steps_T < lengths_B.unsqueeze(1)).unsqueeze(2)
        return torch.where(inside_BT1, whole_BTH, torch.zeros_like(whole_BTH))

    def cell(self, place: int) -> Cell:
        """Return the cell at `place` = layer · directions + direction."""
        cell = self.cells[place]
        assert isinstance(cell, Cell)
        return cell

    def zero_state(self, batch_size: int) -> StackState:
        """Return zeros for every cell."""
        return tuple(self.cell(place).zero_state(batch_size) for place in range(len(self.cells)))

    def initialise(self, generator: torch.Generator, scheme: Initialisation = "uniform") -> None:
        """Draw the parameters of every cell by `scheme`, in order."""
        for place in range(len(self.cells)):
            self.cell(place).initialise(generator, scheme)

    def _layer_widths(self) -> list[int]:
        """Return the width of the input and of what each layer writes."""
        widths = [self.input_size]
        for first in range(0, len(self.cells), self.num_directions):
            row = [self.cell(first + way) for way in range(self.num_directions)]
            widths.append(sum(cell.output_size for cell in row))
        return widths

    def _require_parts(self, state: StackState | None) -> None:
        if state is not None and len(state) != len(self.cells):
            raise ShapeError(
                "the state of a stack must have one part for each layer and direction",
                got=f"{len(state)} parts",
                allowed=str(len(self.cells)),
            )

    def _require_fit(self) -> None:
        widths = self._layer_widths()
        for place in range(len(self.cells)):
            layer = place // self.num_directions
            if self.cell(place).input_size != widths[layer]:
                raise ShapeError(
                    f"a cell of layer {layer} must read what the layer below writes",
                    got=f"input_size {self.cell(place).input_size}",
                    allowed=str(widths[layer]),
                )


def flat_state(state: StackState) -> tuple[Tensor, ...]:
    """Return each part of the state of all cells as torch has it: [L · D, B, H], h first.

    Raises `ShapeError` where the cells are of different widths, which torch's form cannot hold.
    """
    parts = []
    for part in zip(*state, strict=True):
        if len({tuple(tensor.shape) for tensor in part}) > 1:
            raise ShapeError(
                "a flat state needs layers of one width",
                got=", ".join(str(tensor.shape[1]) for tensor in part),
            )
        parts.append(torch.stack(part))
    return tuple(parts)
