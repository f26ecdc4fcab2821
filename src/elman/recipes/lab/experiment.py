"""An experiment of the laboratory: what it measures, for which claims, and how it is drawn.

Experiments know nothing of what is expected of them: the expectations stand in `claims/*.json`,
which only `claims.py` reads, and which no experiment imports (a test holds this).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Value: TypeAlias = "float | int | bool | str | Sequence[Value] | None"
"""What a claim comes to: a number, whether it holds, a fraction such as "1/256", or a table."""

Time = Literal["seconds", "minutes", "hours"]


@dataclass(frozen=True)
class Measured:
    """What was found for the claim called `claim`, such as "000-10", and how, in one line.

    `by_seed` are the same of each seed where the claim is one over seeds.
    """

    claim: str
    value: Value
    how: str
    by_seed: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A small recipe with a name. `run` measures, `draw` writes the picture of what it measures.

    `source` says which documents describe it, `takes` how long it is on two cores.
    """

    name: str
    title: str
    source: str
    run: Callable[[], Iterable[Measured]]
    draw: Callable[[Path], None] | None = None
    takes: Time = "seconds"
