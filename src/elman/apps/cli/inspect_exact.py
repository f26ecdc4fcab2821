"""`elman inspect FIXTURE.json TEXT`: a network of supplied weights, traced in exact fractions."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from elman.apps.cli.inspect_cells import shown_token, view_table
from elman.apps.cli.inspect_fitting import require_only, require_places
from elman.apps.cli.inspect_options import ViewOptions
from elman.apps.cli.output import output_console, print_json, say
from elman.errors import SettingError

if TYPE_CHECKING:
    from elman.recipes.inspecting.exact_view import ExactTrace

PLACES = 6
"""Decimals of a probability in the table; --json and --csv have forty digits."""


def inspect_exactly(
    path: Path,
    text: str | None,
    options: ViewOptions,
    others: Mapping[str, object],
    *,
    as_json: bool,
) -> int:
    """Show, print or write every step of the text by the weights in the file at `path`.

    `others` are the further options that were given, by name. Raises `SettingError` for those that
    have no meaning here, `DataError` for what is no network and for words that it does not know.
    """
    _require_trace(options, others)
    if text is None:
        raise SettingError("elman inspect FILE TEXT reads one text", got="none")
    from elman.atomic_files import writing_atomically
    from elman.recipes.inspecting.exact_view import (
        chosen_exact_units,
        exact_trace,
        write_exact_csv,
    )

    trace = exact_trace(path, text)
    units = chosen_exact_units(trace.model, options.unit or ())
    if options.csv is not None:
        with writing_atomically(options.csv) as table:
            write_exact_csv(trace, units, table)
        say(f"trace written to {options.csv}")
    if as_json:
        print_json(trace.to_json())
    else:
        show_exact_trace(trace, units)
    return 0


def show_exact_trace(trace: "ExactTrace", units: Sequence[int]) -> None:
    """Show the states of `units` (places, from 0) and the logits after each token."""
    states = view_table("read", "unit", "old state", "affine", "new state", left=(0,), folds=True)
    answers = view_table("read", "output", "logit", "p", left=(0, 1), folds=True)
    for step, shares in zip(trace.steps, trace.probabilities, strict=True):
        for first, unit in enumerate(units):
            read = Text() if first else shown_token(step.token)
            rows = (step.old, step.affine, step.new)
            states.add_row(read, str(unit + 1), *(_both(row[unit]) for row in rows))
        outputs = zip(trace.model.outputs, step.logits, shares, strict=True)
        for first, (name, logit, share) in enumerate(outputs):
            read = Text() if first else shown_token(step.token)
            answers.add_row(read, Text(name), _both(logit), f"{share:.{PLACES}f}")
    console = output_console()
    console.print(states)
    console.print()
    console.print(answers)
    console.print(
        Text(f"answer: {trace.answer}; nothing is rounded but decimals after ≈ and probabilities")
    )


def _both(value: Fraction) -> Text:
    """Return a fraction, and the decimal beside it where it is no whole number."""
    from elman.recipes.inspecting.exact_view import as_float

    if value.denominator == 1:
        return Text(str(value))
    number = as_float(value)
    told = f"{number:.6g}"
    is_exact = math.isfinite(number) and Fraction(told) == value
    return Text(f"{value} {'=' if is_exact else '≈'} {told}")


def _require_trace(options: ViewOptions, others: Mapping[str, object]) -> None:
    """Raise `SettingError` for what only a trained run has."""
    given = {
        **{f"--show {view}": view for view in options.show or () if view != "trace"},
        **options.given,
        **others,
    }
    kept = ["--show", "--unit", "--csv", *(["--layer"] if options.layer == 1 else [])]
    what = "of a file of supplied weights the trace is shown, in exact fractions"
    require_only(what, given, kept, allowed="--show trace, --unit, --csv and --json")
    require_places(options, None)
