"""What can be wrong with a run: each kind by name, and one that was found, with its evidence."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "unfinished": "training has not ended",
        "broken-weights": "weights are no numbers",
        "rate-too-high": "the learning rate is too high",
        "nothing-learnt": "little more was learnt than how often each token, or label, is",
        "overfitting": "the training text is learnt by heart",
        "too-little-held-out": "the held-out text is too short for its figures",
        "unknown-tokens": "held-out text is full of unknown tokens",
        "another-text-held-out": "the held-out text is of another kind than the training text",
        "held-out-in-training": "held-out text is in the training text",
        "repeated-training-text": "the training text repeats itself",
        "padding-in-text": "lines of the text are filled up with one symbol",
        "blank-vectors": "tokens have vectors that cannot be told apart",
        "overconfident": "the probabilities are too sharp",
        "biased-output": "a token is predicted far more or less often than it comes",
        "input-ignored": "what is read hardly changes what is predicted",
        "vanishing-reach": "the state is forgotten within a token or two",
        "exploding-reach": "small changes of the state grow without end",
        "saturated-gates": "gates or units stand at their ends",
        "closed-forget-gates": "the gates that carry the memory are closed",
        "dead-units": "units never move",
        "padding-leaks": "padding changes what is predicted",
        "neighbours-leak": "rows of a batch change one another",
        "broken-state": "the carried state that was saved is not one of this model",
        "state-across-lines": "the state is carried between lines that stand alone",
        "window-too-short": "credit is cut before the model's reach ends",
    }
)
"""The kinds, in the order in which they are told: first what spoils the evidence of others."""

_UNLEARNT = ("input-ignored", "biased-output", "overconfident", "vanishing-reach")
GATE_FAULTS = ("saturated-gates", "closed-forget-gates", "dead-units")
"""Those that a recurrent model of any task can have."""

FOLLOWING: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "unfinished": ("nothing-learnt",),
        "rate-too-high": (*GATE_FAULTS, "exploding-reach", *_UNLEARNT),
        "nothing-learnt": (*_UNLEARNT, "state-across-lines"),
        "unknown-tokens": ("overconfident", "biased-output"),
        "another-text-held-out": ("overconfident", "biased-output"),
        "held-out-in-training": ("state-across-lines",),
        "repeated-training-text": ("state-across-lines",),
    }
)
"""What each kind is itself enough to explain: its advice is of no use until the cause is mended."""


@dataclass(frozen=True)
class Fault:
    """One fault that was found.

    `evidence` is a sentence with its numbers, which `figures` has by name; `change` is the setting
    to change, and how. `name` is a key of `FAULTS`.
    """

    name: str
    evidence: str
    change: str
    figures: Mapping[str, float]

    @property
    def meaning(self) -> str:
        """What is wrong, in words."""
        return FAULTS[self.name]

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return {
            "fault": self.name,
            "meaning": self.meaning,
            "evidence": self.evidence,
            "change": self.change,
            "figures": dict(self.figures),
        }
