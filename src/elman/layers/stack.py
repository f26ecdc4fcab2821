"""Recurrent layers one above the other, in one or both directions."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elman.cells.cell import Cell, CellState
from elman.errors import ShapeError
from elman.kernels.dispatch import KernelPlan
from elman.layers.dropout import DropoutKind, drop
from elman.layers.recurrence import Direction, recur

StackState = tuple[CellState, ...]
"""A cell state for each layer and direction: layer-major, direction-minor, as in torch."""

_DIRECTIONS: tuple[Direction, Direction] = ("forward", "backward")


class RecurrentStack(nn.Module):
    """Layers of cells: the outputs of one layer, dropped, are the inputs of the next.

        x⁰ = x_BTE;  y = drop(xˡ⁻¹);  xˡ = [recur(cell_{l,forward}, y), recur(cell_{l,backward}, y)]

    with nothing dropped before the first layer or after the last, as in torch. `cells` come
    layer-major, direction-minor. Parameters are `cells.K.weight_ih` and so on, where
    K = layer · directions + direction: torch's `weight_ih_lL` and `weight_ih_lL_reverse`, renamed.

    Raises `ShapeError` when a cell does not read what the layer below writes.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        *,
        num_directions: int = 1,
        dropout: float = 0.0,
        dropout_kind: DropoutKind = "ordinary",
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
        self.dropout, self.dropout_kind = dropout, dropout_kind
        self.input_size = cells[0].input_size
        self.output_size = sum(cell.hidden_size for cell in cells[-num_directions:])
        self._require_fit()

    def forward(
        self,
        x_BTE: Tensor,
        state: StackState | None,
        lengths_B: Tensor | None,
        *,
        plan: KernelPlan,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, StackState]:
        """Return the last layer's states_BTH, forward half first, and the state of all layers."""
        if state is not None and len(state) != len(self.cells):
            raise ShapeError(
                "the state of a stack must have one part for each layer and direction",
                got=f"{len(state)} parts",
                allowed=str(len(self.cells)),
            )
        states_BTH, after = x_BTE, []
        for layer in range(self.num_layers):
            if layer > 0:
                states_BTH = drop(states_BTH, self.dropout, generator, kind=self.dropout_kind)
            outputs = []
            for way, direction in enumerate(_DIRECTIONS[: self.num_directions]):
                place = layer * self.num_directions + way
                before = None if state is None else state[place]
                output_BTH, final = recur(
                    self.cell(place), states_BTH, before, lengths_B, plan=plan, direction=direction
                )
                outputs.append(output_BTH)
                after.append(final)
            states_BTH = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)
        return states_BTH, tuple(after)

    def cell(self, place: int) -> Cell:
        """Return the cell at `place` = layer · directions + direction."""
        cell = self.cells[place]
        assert isinstance(cell, Cell)
        return cell

    def zero_state(self, batch_size: int) -> StackState:
        """Return zeros for every cell."""
        return tuple(self.cell(place).zero_state(batch_size) for place in range(len(self.cells)))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the parameters of every cell, in order."""
        for place in range(len(self.cells)):
            self.cell(place).initialise(generator)

    def _require_fit(self) -> None:
        width = self.input_size
        for layer in range(self.num_layers):
            first = layer * self.num_directions
            row = [self.cell(first + way) for way in range(self.num_directions)]
            for cell in row:
                if cell.input_size != width:
                    raise ShapeError(
                        f"a cell of layer {layer} must read what the layer below writes",
                        got=f"input_size {cell.input_size}",
                        allowed=str(width),
                    )
            width = sum(cell.hidden_size for cell in row)
