"""Which kernel ran a row, read from the record of its plan, and what that means for a ratio."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Standing = Literal["native", "given to torch", "miss"]

_WORST_FIRST: tuple[Standing, ...] = ("miss", "given to torch", "native")


@dataclass(frozen=True)
class KernelUse:
    """How a row ran, and the plan's own words for it, by the key that the plan wrote them under."""

    standing: Standing
    reasons: Mapping[str, str]

    @property
    def told(self) -> str:
        """The reasons in one line, each once."""
        return "; ".join(dict.fromkeys(self.reasons.values())) or "the plan recorded no kernel"


def kernel_use(record: Mapping[str, str], *names: str) -> KernelUse:
    """Return how the recurrences called `names` ran under the plan that wrote `record`.

    A reason that begins with "native" is native. One that begins with "torch" was given to torch
    where the plan was free to choose ("auto"), and is a miss where it was told to. Anything else,
    such as the readable loop, is a miss. Several entries for one name, as "lstm" and "lstm, one
    step", count as their worst; no entry at all is a miss.
    """
    reasons = {
        place: reason
        for place, reason in record.items()
        if any(_is_of(place, name) for name in names)
    }
    free = record.get("choice") == "auto"
    standings = {_standing(reason, free=free) for reason in reasons.values()} or {"miss"}
    worst = next(standing for standing in _WORST_FIRST if standing in standings)
    return KernelUse(worst, reasons)


def _is_of(place: str, name: str) -> bool:
    """Whether an entry of a record is about `name` itself: "lstm, one step", not "lstm+coupled"."""
    return place == name or place.startswith((f"{name},", f"{name} "))


def _standing(reason: str, *, free: bool) -> Standing:
    if reason.startswith("native"):
        return "native"
    return "given to torch" if free and reason.startswith("torch") else "miss"
