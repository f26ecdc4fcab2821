"""What training tells as it goes: an event for every update, validation and saved state."""

import math
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class UpdateEvent:
    """One update: its batch, the rate it used and the norm of its gradient before clipping.

    `update` and `epoch` count from 1. `skipped` means that the gradient was not finite and that no
    weight changed. `loss_nats` is the sum over the batch's `num_tokens` targets as they are, before
    `training.label_smoothing`. `smoothed_nats` is the recent loss in nats per token, an average
    over updates, None until a finite loss was seen.
    """

    update: int
    epoch: int
    loss_nats: float
    num_tokens: int
    smoothed_nats: float | None
    rate: float
    gradient_norm: float
    skipped: bool
    nonfinite_steps: int
    elapsed_seconds: float

    @property
    def nats_per_token(self) -> float:
        """The loss of a token, before this update."""
        return self.loss_nats / self.num_tokens

    @property
    def tokens_per_second(self) -> float:
        """Targets of this update by the time it took."""
        return self.num_tokens / max(self.elapsed_seconds, 1e-9)

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold, with "event" first; null for what is not finite."""
        facts = {"event": "update", **asdict(self), "nats_per_token": self.nats_per_token}
        return _finite(facts | {"tokens_per_second": self.tokens_per_second})


@dataclass(frozen=True)
class ValidationEvent:
    """The loss on held-out data after `update` updates: nats over `num_tokens` targets.

    `best` says whether it is the lowest so far, `num_without_better` how many in a row were not.
    `training_nats` is the recent training loss in nats per token at that moment.
    """

    update: int
    epoch: int
    loss_nats: float
    num_tokens: int
    best: bool
    num_without_better: int
    training_nats: float | None
    elapsed_seconds: float

    @property
    def nats_per_token(self) -> float:
        """The figure that validations are compared by; infinite where there is no target."""
        return self.loss_nats / self.num_tokens if self.num_tokens else math.inf

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold, with "event" first; null for what is not finite."""
        facts = {"event": "validation", **asdict(self), "nats_per_token": self.nats_per_token}
        return _finite(facts)


@dataclass(frozen=True)
class SavedEvent:
    """The state after `update` updates was saved; `best`: so were the weights, as the best."""

    update: int
    best: bool

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold, with "event" first."""
        return {"event": "saved", **asdict(self)}


TrainingEvent = UpdateEvent | ValidationEvent | SavedEvent


def _finite(facts: dict[str, object]) -> dict[str, object]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in facts.items()
    }
