"""The options that add a cache, a second run, or learning to a language model when it scores."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from elman.apps.cli.options import Precision, Whole
from elman.errors import SettingError

if TYPE_CHECKING:
    from elman.recipes.mixing import Mixing


@Parameter(name="*")
@dataclass(frozen=True)
class MixingOptions:
    """A cache of what was read lately, and another run beside this one."""

    cache: Annotated[
        Whole, Parameter(help="Language models: states kept that are compared with; 0: none.")
    ] = 0
    cache_flatness: Annotated[
        float | None,
        Parameter(help="--cache: how sharply they are compared. [default: fitted]"),
    ] = None
    cache_weight: Annotated[
        float | None, Parameter(help="--cache: its share, from 0 to 1. [default: fitted]")
    ] = None
    mix: Annotated[
        Path | None,
        Parameter(help="Language models: a run of the same vocabulary to mix with.", negative=""),
    ] = None
    mix_weight: Annotated[
        float | None, Parameter(help="--mix: its share, from 0 to 1. [default: fitted]")
    ] = None

    dynamic: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Language models: let the weights follow the text, learning from what is scored, "
            "which takes several times as long.",
        ),
    ] = False
    dynamic_rate: Annotated[
        float | None,
        Parameter(
            help="--dynamic: how far they move, usually 0.00003 to 0.003; too far, and they lose "
            "the text. [default: fitted]"
        ),
    ] = None

    def mixing(self) -> "Mixing":
        """Return what is asked for. Raises `SettingError` for numbers of nothing."""
        from elman.recipes.mixing import Mixing

        return Mixing(
            self.cache,
            self.cache_flatness,
            self.cache_weight,
            self.mix,
            self.mix_weight,
            self.dynamic,
            self.dynamic_rate,
        )


def require_plain(task: str, added: "Mixing", precision: Precision, *, has_pairs: bool) -> None:
    """Refuse a cache or a mixture where there is nothing to add it to."""
    if added.is_plain:
        return
    if task != "lm":
        raise SettingError(
            "--cache, --mix and --dynamic are for language models",
            got=f"a run of elman train {task}",
        )
    if has_pairs or precision != "float32":
        raise SettingError(
            "--cache, --mix and --dynamic score files in float32",
            got="--minimal-pairs" if has_pairs else f"--precision {precision}",
        )
