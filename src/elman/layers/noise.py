"""Noise within a recurrence: what training forgets, mixes up or hides between two steps.

Recurrent dropout, zoneout and weight dropout, each for any cell. Nothing acts without a rate;
dropout and weight dropout act only with a generator, that is in training; zoneout without one takes
its expectation. Everything random is drawn before the first step and is a value from then on, so
that steps can be run again, in blocks, under the very same noise.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from elman.cells.cell import Cell, CellState
from elman.errors import SettingError
from elman.layers.dropout import DropMask, draw_mask, drop, drop_weights


@dataclass(frozen=True)
class NoiseRates:
    """How much of each; all from 0 to below 1.

    recurrent_dropout: of h, where the recurrent products see it. zoneout: of units that keep the
    output of the step before, zoneout_cell: the same for the other parts of the state (an LSTM's
    memory). weight_dropout: of `weight_hh`.
    """

    recurrent_dropout: float = 0.0
    zoneout: float = 0.0
    zoneout_cell: float = 0.0
    weight_dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            rate = getattr(self, name)
            if not 0.0 <= rate < 1.0:
                raise SettingError(f"{name} must be at least 0 and below 1", got=repr(rate))

    def with_dropped_weights(self, cell: Cell, generator: torch.Generator | None) -> Cell:
        """Return `cell` with a share of its recurrent weights left out for one run.

            W_hh ← W_hh ∘ m / (1 − p)

        One mask for all steps of the run. Source: S. Merity et al., arXiv:1708.02182, section 2.
        A cell without `weight_hh` is returned as it is.
        """
        if generator is None or self.weight_dropout == 0.0 or not cell.is_recurrent:
            return cell
        dropped = drop_weights(cell.weight_hh, self.weight_dropout, generator)
        return cell.with_weights({"weight_hh": dropped})

    def for_run(
        self, cell: Cell, x_BTE: Tensor, generator: torch.Generator | None
    ) -> "StepNoise | None":
        """Return the noise of one run of `cell` over as many rows and steps as x_BTE; None: none.

        The mask of recurrent dropout is one [B, P] for all steps (Y. Gal, Z. Ghahramani,
        arXiv:1512.05287, section 4); those of zoneout are [B, T, H], one for each part of the
        state.
        """
        batch_size, num_steps = x_BTE.shape[:2]
        rates = (self.zoneout, *(self.zoneout_cell for _ in cell.state_names[1:]))
        mask_BP = None
        if generator is not None and self.recurrent_dropout and cell.is_recurrent:
            ones_B1P = x_BTE.new_ones(batch_size, 1, cell.output_size)
            mask_BP = drop(ones_B1P, self.recurrent_dropout, generator).squeeze(1)
        if mask_BP is None and not any(rates):
            return None
        masks = [
            draw_mask((batch_size, num_steps, size), rate, generator, device=x_BTE.device)
            for rate, size in zip(rates, cell.state_sizes, strict=True)
        ]
        moved = tuple(None if mask is None else mask.keep_BTE for mask in masks)
        return StepNoise(rates, moved, mask_BP)


@dataclass(frozen=True)
class StepNoise:
    """The noise of one run between its steps.

    zones: for each part of the state the rate of zoneout; moved: which units take their new value,
    [B, T, H] booleans, None where the expectation acts; mask_BP: the recurrent dropout.
    """

    zones: tuple[float, ...]
    moved: tuple[Tensor | None, ...]
    mask_BP: Tensor | None

    @property
    def needs_loop(self) -> str:
        """Why no fused operator can run with this noise."""
        return "zoneout and recurrent dropout act between two steps"

    def of_rows(self, rows_B: Tensor) -> Self:
        """Return the noise of a batch of these rows."""
        mask_BP = None if self.mask_BP is None else self.mask_BP.index_select(0, rows_B)
        moved = tuple(None if part is None else part.index_select(0, rows_B) for part in self.moved)
        return replace(self, moved=moved, mask_BP=mask_BP)

    def of_steps(self, start: int, stop: int) -> Self:
        """Return the noise of the steps start … stop − 1."""
        moved = tuple(None if part is None else part[:, start:stop] for part in self.moved)
        return replace(self, moved=moved)

    def seen(self, h_BP: Tensor) -> Tensor:
        """Return what the recurrent products see of h; rows that have ended are the last ones."""
        return h_BP if self.mask_BP is None else h_BP * self.mask_BP[: len(h_BP)]

    def mixed(self, step: int, before: CellState, after: CellState) -> list[Tensor]:
        """Return the state after `step`, each unit that of the step before by chance.

            s_t ← m ∘ s_{t−1} + (1 − m) ∘ s_t,  m = 1 with the rate of zoneout

        Without a generator m is the rate itself. Source: D. Krueger et al., arXiv:1606.01305,
        eqs. 3 and 4.
        """
        parts = []
        for rate, moved_BTH, old, new in zip(self.zones, self.moved, before, after, strict=True):
            if not rate:
                parts.append(new)
            elif moved_BTH is None:
                parts.append(new + rate * (old - new))
            else:
                parts.append(torch.where(moved_BTH[: len(new), step], new, old))
        return parts


@dataclass(frozen=True)
class StackNoise:
    """What one run of a stack has drawn.

    inputs: for each layer the mask on what it reads. cells: for each layer and direction the cell,
    on the weights of this run. steps: for each of those the noise between its steps.
    """

    inputs: tuple[DropMask | None, ...]
    cells: tuple[Cell, ...]
    steps: tuple[StepNoise | None, ...]

    def of_steps(self, start: int, stop: int) -> Self:
        """Return the noise of the steps start … stop − 1, for forward readers."""
        return replace(
            self,
            inputs=tuple(
                None if mask is None else mask.of_steps(start, stop) for mask in self.inputs
            ),
            steps=tuple(
                None if noise is None else noise.of_steps(start, stop) for noise in self.steps
            ),
        )
