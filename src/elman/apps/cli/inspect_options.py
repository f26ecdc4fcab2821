"""What the views of `elman inspect` are asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.options import Whole, WholeOrNone, require_at_least
from elman.errors import SettingError

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
    top: Annotated[Whole, Parameter(help="trace: likeliest tokens, labels or tags shown.")] = 3
    scalar: Annotated[
        Literal["logit", "loss", "state"],
        Parameter(
            help="gradients: of the logit of the real next token, or of the answer; of its loss "
            "(−ln p); or of the state's norm."
        ),
    ] = "loss"
    at: Annotated[
        WholeOrNone,
        Parameter(help="gradients: of a tagger, the tag of this token alone, from 1."),
    ] = None
    positions: Annotated[Whole, Parameter(help="horizon: places of the text asked about.")] = 200
    since: Annotated[
        Path | None,
        Parameter(help="change: what became of the weights since this run; no text is read."),
    ] = None
    picture: Annotated[Path | None, Parameter(help="Draw the views to this .png or .svg file.")] = (
        None
    )
    csv: Annotated[Path | None, Parameter(help="trace: write each step and unit to this file.")] = (
        None
    )

    @property
    def views(self) -> tuple[View, ...]:
        """Those asked for, each once, or the usual one."""
        usual: list[View] = ["trace"] if self.since is None else ["change"]
        return tuple(dict.fromkeys(self.show or usual))

    def require_fitting(self) -> None:
        """Raise `SettingError` for numbers out of range and a file that nothing writes."""
        require_at_least("--top", self.top, 1)
        require_at_least("--positions", self.positions, 2)
        if self.csv is not None and "trace" not in self.views:
            raise SettingError("--csv writes a trace", got="no --show trace")
        if self.at is not None and "gradients" not in self.views:
            raise SettingError("--at is asked of gradients", got="no --show gradients")
        if self.since is not None and self.views != ("change",):
            raise SettingError("--since compares weights alone", got="--show beside it")

    def require_task(self, task: str) -> None:
        """Raise `SettingError` for a view that has no meaning for a run of this task."""
        allowed = VIEWS_OF_TASK[task]
        strange = [view for view in self.show or () if view not in allowed]
        if task == "translate" and (strange or self.csv is not None):
            raise SettingError(
                "of a run that writes sequences its attention is shown",
                got=f"--show {strange[0]}" if strange else "--csv",
                allowed="elman inspect RUN TEXT, with --picture and --json",
            )
        if strange:
            raise SettingError(
                f"a run of elman train {task} has no such view",
                got=", ".join(f"--show {view}" for view in strange),
                allowed=", ".join(allowed),
            )
        if self.at is not None and task != "tag":
            raise SettingError("--at is for taggers", got=f"a run of elman train {task}")
