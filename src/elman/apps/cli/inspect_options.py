"""What the views of `elman inspect` are asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.options import Whole, WholeOrNone
from elman.errors import SettingError

FileEncoding = Annotated[
    str | None, Parameter(help="Encoding of --file. [default: as the run says]")
]
View = Literal["trace", "gates", "gradients", "horizon", "memory", "attention", "change"]

VIEWS_OF_TASK: Mapping[str, tuple[View, ...]] = MappingProxyType(
    {
        "lm": ("trace", "gates", "gradients", "horizon", "memory", "change"),
        "classify": ("trace", "gates", "gradients", "attention", "change"),
        "tag": ("trace", "gates", "gradients", "change"),
        "translate": ("attention",),
    }
)
"""What has a meaning for a run of a task; the first one is shown unless another is asked for."""


@Parameter(name="*")
@dataclass(frozen=True)
class ViewOptions:
    """Which views, of which layer and units, and what some of them need to know."""

    show: Annotated[
        list[View] | None,
        Parameter(
            negative="",
            help="What to show, repeatable: trace (each token), gates (how open, how long), "
            "gradients (on what the end or the answer depends), horizon (how far back), memory "
            "(what is still there), attention (of an answer, or of a classifier's pooling), "
            "change (of weights, by reading or since another run). [default: trace]",
        ),
    ] = None
    layer: Annotated[WholeOrNone, Parameter(help="Layer to show, from 1. [default: last]")] = None
    unit: Annotated[
        list[Whole] | None,
        Parameter(
            negative="",
            help="trace: a unit of the layer, from 1; repeatable. [default: what changes most]",
        ),
    ] = None
    top: Annotated[
        WholeOrNone,
        Parameter(help="trace: likeliest tokens, labels or tags told. [default: 3]"),
    ] = None
    scalar: Annotated[
        Literal["logit", "loss", "state"] | None,
        Parameter(
            help="gradients: of the logit of the real next token, or of the answer; of its loss "
            "(−ln p); or of the state's norm. [default: loss]"
        ),
    ] = None
    at: Annotated[
        WholeOrNone,
        Parameter(help="gradients: of a tagger, the tag of this token alone, from 1."),
    ] = None
    positions: Annotated[
        WholeOrNone, Parameter(help="horizon: places of the text asked about. [default: 200]")
    ] = None
    since: Annotated[
        Path | None,
        Parameter(help="change: what became of the weights since this run; no text is read."),
    ] = None
    picture: Annotated[Path | None, Parameter(help="Draw the views to this .png or .svg file.")] = (
        None
    )
    csv: Annotated[
        Path | None,
        Parameter(help="trace: write each step and unit to this file; --compare: each step."),
    ] = None

    @property
    def views(self) -> tuple[View, ...]:
        """Those asked for, each once, or the usual one."""
        usual: list[View] = ["trace"] if self.since is None else ["change"]
        return tuple(dict.fromkeys(self.show or usual))

    @property
    def num_top(self) -> int:
        """How many likeliest ones are told at a step."""
        return 3 if self.top is None else self.top

    @property
    def num_positions(self) -> int:
        """How many places a horizon asks about."""
        return 200 if self.positions is None else self.positions

    @property
    def scalar_asked(self) -> Literal["logit", "loss", "state"]:
        """Of what gradients are taken."""
        return self.scalar or "loss"

    @property
    def given(self) -> Mapping[str, object]:
        """The options that were given, by the names that a person types."""
        every = {f"--{field.name}": getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in every.items() if value is not None}

    def require_task(self, task: str) -> None:
        """Raise `SettingError` for a view that has no meaning for a run of this task."""
        allowed = VIEWS_OF_TASK[task]
        strange = [view for view in self.show or () if view not in allowed]
        if strange:
            raise SettingError(
                "of a run that writes sequences its attention is shown"
                if task == "translate"
                else f"a run of elman train {task} has no such view",
                got=", ".join(f"--show {view}" for view in strange),
                allowed=", ".join(allowed),
            )
        if self.at is not None and task != "tag":
            raise SettingError("--at is for taggers", got=f"a run of elman train {task}")
