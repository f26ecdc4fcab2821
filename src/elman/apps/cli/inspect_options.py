"""What the views of `elman inspect` are asked for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.options import Whole, WholeOrNone, require_at_least
from elman.errors import SettingError

View = Literal["trace", "gates", "gradients", "horizon", "memory", "change"]


@Parameter(name="*")
@dataclass(frozen=True)
class ViewOptions:
    """Which views, of which layer and units, and what some of them need to know."""

    show: Annotated[
        list[View] | None,
        Parameter(
            negative="",
            help="What to show, repeatable: trace (each token), gates (how open, how long), "
            "gradients (on what the end depends), horizon (how far back), memory (what is still "
            "there), change (of weights, by reading or since another run). [default: trace]",
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
    top: Annotated[Whole, Parameter(help="trace: likeliest next tokens shown.")] = 3
    scalar: Annotated[
        Literal["logit", "loss", "state"],
        Parameter(help="gradients: of the real next token's logit, its loss, or the state's norm."),
    ] = "loss"
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
        if self.since is not None and self.views != ("change",):
            raise SettingError("--since compares weights alone", got="--show beside it")
