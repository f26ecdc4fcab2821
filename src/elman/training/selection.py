"""Which moment of a run is the best: validations compared, patience counted, overfitting named."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from elman.config.training_settings import TrainingSettings
from elman.training.trainer_state import number_to_json

LEAST_VALIDATIONS = 10
"""Validations of a run at least, where `evaluate_every` is 0 and it has as many updates."""

OVERFIT_RISE = 0.02
"""A validation loss this share above its best is clearly above it."""

OVERFIT_FALL = 0.01
"""A training loss this share below what it was at the best validation has clearly fallen."""


def validation_interval(
    settings: TrainingSettings, total_updates: int, updates_per_epoch: int
) -> int:
    """Return the updates between two validations: `evaluate_every`, else min(epoch, total // 10).

    At least 1. A validation comes besides after the last update, whatever its number.
    """
    if settings.evaluate_every:
        return settings.evaluate_every
    return max(1, min(updates_per_epoch, total_updates // LEAST_VALIDATIONS))


@dataclass(frozen=True)
class Mark:
    """One validation: after which update, nats over how many targets, the training loss then."""

    update: int
    loss_nats: float
    num_tokens: int
    training_nats: float | None

    @property
    def nats_per_token(self) -> float:
        """The figure compared."""
        return self.loss_nats / self.num_tokens

    def to_json(self) -> dict[str, object]:
        """Return facts that survive JSON exactly."""
        return asdict(self) | {"loss_nats": number_to_json(self.loss_nats)}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Self:
        """Return the mark that wrote `facts`."""
        return cls(**{**facts, "loss_nats": float(facts["loss_nats"])})


@dataclass
class Selection:
    """What the validations of a run have shown so far; part of its saved state.

    `checked_update` is the last update after which validation was done, or would have been.
    `losses` are the figures of all validations, in order.
    """

    best: Mark | None = None
    last: Mark | None = None
    num_without_better: int = 0
    checked_update: int = 0
    losses: list[float] = field(default_factory=list)

    def is_stuck(self, num_validations: int) -> bool:
        """Return whether the last validation is worse than the best of more than so many ago.

        The trigger of averaged SGD: S. Merity et al., arXiv:1708.02182, algorithm 1.
        """
        if len(self.losses) <= num_validations + 1:
            return False
        return self.losses[-1] > min(self.losses[: -1 - num_validations])

    def add(self, mark: Mark) -> bool:
        """Take a validation in; return whether it is the best so far, which NaN and ∞ never are."""
        below = float("inf") if self.best is None else self.best.nats_per_token
        better = mark.num_tokens > 0 and mark.nats_per_token < below
        self.last = mark
        self.losses.append(mark.nats_per_token if mark.num_tokens else float("inf"))
        self.num_without_better = 0 if better else self.num_without_better + 1
        if better:
            self.best = mark
        return better

    def overfitting(self) -> str | None:
        """Return one sentence with numbers where training improves and validation got worse."""
        best, last = self.best, self.last
        if best is None or last is None or last.update <= best.update or not last.num_tokens:
            return None
        if best.training_nats is None or last.training_nats is None:
            return None
        rose = last.nats_per_token > best.nats_per_token * (1.0 + OVERFIT_RISE)
        fell = last.training_nats < best.training_nats * (1.0 - OVERFIT_FALL)
        if not (rose and fell):
            return None
        return (
            f"The model overfits: from update {best.update:,} to {last.update:,} the training loss "
            f"fell from {best.training_nats:.4f} to {last.training_nats:.4f} nats per prediction "
            f"while the validation loss rose from {best.nats_per_token:.4f} to "
            f"{last.nats_per_token:.4f}."
        )

    def to_json(self) -> dict[str, object]:
        """Return facts that survive JSON exactly."""
        return {
            "best": None if self.best is None else self.best.to_json(),
            "last": None if self.last is None else self.last.to_json(),
            "num_without_better": self.num_without_better,
            "checked_update": self.checked_update,
            "losses": [number_to_json(loss) for loss in self.losses],
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Self:
        """Return the selection that wrote `facts`."""
        best, last = facts["best"], facts["last"]
        return cls(
            None if best is None else Mark.from_json(best),
            None if last is None else Mark.from_json(last),
            facts["num_without_better"],
            facts["checked_update"],
            [float(loss) for loss in facts.get("losses", [])],
        )
