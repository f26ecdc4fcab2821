"""Noise within a recurrence: what training forgets, mixes up or hides between two steps.

Recurrent dropout, zoneout and weight dropout, each for any cell. Nothing acts without a rate;
dropout and weight dropout act only with a generator, that is in training; zoneout without one takes
its expectation.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from elman.cells.cell import Cell, CellState
from elman.errors import SettingError
from elman.layers.dropout import drop


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
        dropped = drop(cell.weight_hh.unsqueeze(0), self.weight_dropout, generator).squeeze(0)
        return cell.with_weights({"weight_hh": dropped})

    def for_run(
        self, cell: Cell, x_BTE: Tensor, generator: torch.Generator | None
    ) -> "StepNoise | None":
        """Return the noise of one run of `cell` over x_BTE; None where there is none.

        The mask of recurrent dropout is drawn here, one [B, P] for all steps (Y. Gal,
        Z. Ghahramani, arXiv:1512.05287, section 4).
        """
        zones = (self.zoneout, *(self.zoneout_cell for _ in cell.state_names[1:]))
        mask_BP = None
        if generator is not None and self.recurrent_dropout and cell.is_recurrent:
            ones_B1P = x_BTE.new_ones(x_BTE.shape[0], 1, cell.output_size)
            mask_BP = drop(ones_B1P, self.recurrent_dropout, generator).squeeze(1)
        if mask_BP is None and not any(zones):
            return None
        return StepNoise(zones, mask_BP, generator)


@dataclass(frozen=True)
class StepNoise:
    """The noise of one run: rates of zoneout, a mask of the recurrent dropout, a generator."""

    zones: tuple[float, ...]
    mask_BP: Tensor | None
    generator: torch.Generator | None

    @property
    def needs_loop(self) -> str:
        """Why no fused operator can run with this noise."""
        return "zoneout and recurrent dropout act between two steps"

    def of_rows(self, rows_B: Tensor) -> "StepNoise":
        """Return the noise of a batch of these rows."""
        mask_BP = None if self.mask_BP is None else self.mask_BP.index_select(0, rows_B)
        return replace(self, mask_BP=mask_BP)

    def seen(self, h_BP: Tensor) -> Tensor:
        """Return what the recurrent products see of h; rows that have ended are the last ones."""
        return h_BP if self.mask_BP is None else h_BP * self.mask_BP[: len(h_BP)]

    def mixed(self, before: CellState, after: CellState) -> list[Tensor]:
        """Return the state after a step, each unit that of the step before by chance.

            s_t ← m ∘ s_{t−1} + (1 − m) ∘ s_t,  m = 1 with the rate of zoneout

        Without a generator m is the rate itself. Source: D. Krueger et al., arXiv:1606.01305,
        eqs. 3 and 4.
        """
        parts = []
        for rate, old, new in zip(self.zones, before, after, strict=True):
            if not rate:
                parts.append(new)
            elif self.generator is None:
                parts.append(new + rate * (old - new))
            else:
                draw = torch.rand(new.shape, generator=self.generator, device=new.device)
                parts.append(torch.where(draw < rate, old, new))
        return parts
