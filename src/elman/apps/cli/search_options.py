"""How answers of sequences are searched for: the options of `elman predict` and `elman score`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.options import Whole, naming_options

if TYPE_CHECKING:
    from elman.decoding.translation_steps import TranslationSearch


@Parameter(name="*")
@dataclass(frozen=True)
class SearchOptions:
    """Sequences: how answers are searched for."""

    beam: Annotated[
        Whole,
        Parameter(help="Sequences: answers followed at once, from 1, the likeliest token alone."),
    ] = 1
    n_best: Annotated[
        Whole, Parameter(help="Sequences: answers to each row with --json, from 1 to --beam.")
    ] = 1
    normalisation: Annotated[
        Literal["none", "average", "gnmt"],
        Parameter(help="Sequences: how the scores of a beam are divided by their lengths."),
    ] = "average"
    coverage: Annotated[
        float, Parameter(help="Sequences: weight of the penalty for source left unattended.")
    ] = 0.0
    min_length: Annotated[Whole, Parameter(help="Sequences: tokens of an answer at least.")] = 0
    max_length: Annotated[
        Whole,
        Parameter(
            help="Sequences: tokens of an answer at most, not below --min-length; 0: by those of "
            "the source."
        ),
    ] = 0
    copy_unknown: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Sequences: an unknown word is copied from where the model attends most.",
        ),
    ] = False


@Parameter(name="*")
@dataclass(frozen=True)
class AnswerOptions(SearchOptions):
    """Sequences: how answers are searched for, and what is written beside them."""

    attention: Annotated[
        Path | None,
        Parameter(help="Sequences: a new folder for what was attended to, numbers and pictures."),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True)
class PairScoreOptions(SearchOptions):
    """Sequences: how answers are searched for, and what they are measured against."""

    targets: Annotated[
        list[str] | None,
        Parameter(
            help="Sequences: files whose lines are the targets of the lines of FILES.",
            consume_multiple=True,
            negative="",
        ),
    ] = None
    phones: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Sequences: what blanks part is called a phone."
        ),
    ] = False


def asked_search(options: SearchOptions) -> "TranslationSearch":
    """Return the search that the options ask for.

    Raises `SettingError`, which names the option as typed, where there is no such search.
    """
    from elman.decoding.beam import BeamSettings
    from elman.decoding.translation_steps import TranslationSearch

    with naming_options("beam", "n_best", "coverage", "min_length", "max_length"):
        beam = BeamSettings(
            beam=options.beam,
            n_best=options.n_best,
            normalisation=options.normalisation,
            coverage=options.coverage,
        )
        return TranslationSearch(
            beam=beam if options.beam > 1 or options.coverage else None,
            min_length=options.min_length,
            max_length=options.max_length,
            keep_unknown=options.copy_unknown,
        )
