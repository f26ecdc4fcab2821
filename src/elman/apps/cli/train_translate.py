"""`elman train translate`: learn to write another sequence for each source."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.train_options import FileOptions, Names, Out, RunOptions, invocation


@Parameter(name="*")
@dataclass(frozen=True)
class PairOptions:
    """Where the two sides of a pair stand."""

    targets: Annotated[
        Names,
        Parameter(
            help="Files whose lines are the targets of the lines of --data. Without them --data "
            "are tables of pairs.",
            consume_multiple=True,
            negative="",
        ),
    ] = None
    valid_targets: Annotated[
        Names,
        Parameter(help="The same for --valid.", consume_multiple=True, negative=""),
    ] = None
    test_targets: Annotated[
        Names,
        Parameter(help="The same for --test.", consume_multiple=True, negative=""),
    ] = None
    source_column: Annotated[
        str | None, Parameter(help="Column of the sources: its name, or its number from 1.")
    ] = None
    target_column: Annotated[
        str | None, Parameter(help="Column of the targets: its name, or its number from 1.")
    ] = None


def translate(
    *,
    out: Out,
    files: FileOptions | None = None,
    pairs: PairOptions | None = None,
    level: Annotated[
        Literal["char", "byte", "word", "bpe"] | None, Parameter(help="What one token is.")
    ] = None,
    target_level: Annotated[
        Literal["same", "char", "byte", "word", "bpe"] | None,
        Parameter(help="What one token of a target is, where it is another."),
    ] = None,
    preset: Annotated[
        Literal["lecture", "bahdanau"] | None,
        Parameter(help="A named architecture, beneath a settings file and each --set."),
    ] = None,
    options: RunOptions | None = None,
) -> int:
    """Train an encoder-decoder: any sequence to any other, from a table or two parallel files.

    Reads TSV, CSV, JSON Lines, or two files line by line; builtin:reversal is a task to try. At the
    end the pairs held out are answered, and the answers measured beside the teacher-forced loss.
    """
    given = pairs or PairOptions()
    asked = invocation(
        out,
        files,
        options,
        {
            "data.source_column": given.source_column,
            "data.target_column": given.target_column,
            "text.level": level,
            "text.target_level": target_level,
        },
    )
    from elman.apps.cli.training_run import run_training
    from elman.apps.cli.translate_view import TranslateView

    more = {
        "train_target": tuple(given.targets or ()),
        "valid_target": tuple(given.valid_targets or ()),
        "test_target": tuple(given.test_targets or ()),
    }
    asked = replace(asked, files={**asked.files, **more}, preset=preset or "")
    return run_training(TranslateView(), asked)
