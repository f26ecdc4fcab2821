"""How results are shown: JSON for programs on standard output, tables for people."""

import math
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from elman.checkpoints.json_values import readable_json


def say(message: str) -> None:
    """Tell a person something on standard error; a terminal breaks lines between words."""
    if sys.stderr.isatty():
        error_console().print(message, markup=False)
    else:
        print(message, file=sys.stderr, flush=True)


def program() -> str:
    """Return the command as a person can type it again: its name, or its path off the PATH."""
    started_as = Path(sys.argv[0])
    if started_as.name != "elman":
        return "python -m elman"
    found = shutil.which("elman")
    on_path = found is not None and Path(found).resolve() == started_as.resolve()
    return "elman" if on_path else sys.argv[0]


def tell_kernels(record: Mapping[str, str]) -> None:
    """Tell which implementation ran each part, and whether the native module is in use.

    `record` is that of a `KernelPlan`, or other parts and what ran them.
    """
    from elman.kernels.native_module import NOT_BUILT, native_level

    level = native_level()
    say(f"kernels: {f'native module, {level}' if level else f'torch; {NOT_BUILT}'}")
    for part, kernel in record.items():
        say(f"         {part}: {kernel}")


class ResultConsole(Console):
    """A console that tells of a reader who has gone, as `print` does; its own way is status 1."""

    def on_broken_pipe(self) -> None:
        """Raise `BrokenPipeError`, for the command to end quietly."""
        raise BrokenPipeError


def error_console() -> Console:
    """Return the console of standard error, where progress and notes go."""
    return Console(stderr=True, highlight=False)


def output_console() -> Console:
    """Return the console of standard output, where results go."""
    return ResultConsole(highlight=False)


def print_json(value: object) -> None:
    """Print one JSON object on standard output; infinities are null beside a flag."""
    print(readable_json(value))


def score_table(scores: Mapping[str, Mapping[str, object]]) -> Table:
    """Return the figures of each named score, one column a score, every unit spelled out."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in scores:
        table.add_column(name, justify="right")
    if any(score.get("first_infinite_token") is not None for score in scores.values()):
        table.add_row("first impossible token (from 0)", *map(_first_zero, scores.values()))
    for label, key, digits in _FIGURES:
        if "unknown" in key and not any(score.get("num_unknown") for score in scores.values()):
            continue
        table.add_row(label, *(_figure(score, key, digits) for score in scores.values()))
    return table


_FIGURES = (
    ("bits per character", "bits_per_character", 4),
    ("bits per byte", "bits_per_byte", 4),
    ("nats per token", "nats_per_token", 4),
    ("perplexity per token", "perplexity", 3),
    ("tokens predicted", "num_tokens", 0),
    ("unknown tokens", "num_unknown", 0),
    ("unknown rate", "unknown_rate", 4),
    ("nats per token, unknown left out", "nats_per_token_excluding_unknown", 4),
    ("perplexity, unknown left out", "perplexity_excluding_unknown", 3),
    ("coverage", "coverage", 4),
    ("loss in nats", "loss_nats", 2),
)


def _first_zero(score: Mapping[str, object]) -> str:
    place = score.get("first_infinite_token")
    return "–" if place is None else f"{place:,}"


def _figure(score: Mapping[str, object], key: str, digits: int) -> str:
    value = score.get(key)
    if value is None:
        infinite = score.get(f"{key}_is_infinite") or score.get("loss_is_infinite")
        return "inf" if infinite else "–"
    assert isinstance(value, int | float)
    return "nan" if math.isnan(value) else f"{value:,.{digits}f}"


def plural(count: int) -> str:
    """Return the ending of a noun that is counted."""
    return "" if count == 1 else "s"
