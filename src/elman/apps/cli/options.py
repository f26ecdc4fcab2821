"""Options that several verbs share, and the values that need reading."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, Token

from elman.errors import SettingError


def whole_number(type_: object, tokens: Sequence[Token]) -> int:
    """Read a whole number; 2.5 is none, and is not cut to 2."""
    value = tokens[0].value
    if not re.fullmatch(r"[+-]?\d+", value):
        raise ValueError(f"must be a whole number, got {value}")
    return int(value)


Whole = Annotated[int, Parameter(converter=whole_number)]
WholeOrNone = Annotated[int | None, Parameter(converter=whole_number)]
Run = Annotated[Path, Parameter(help="Folder of a trained run.")]
Json = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        show_default=False,
        help="Print one JSON object on standard output.",
    ),
]
Ensemble = Annotated[
    list[Path] | None,
    Parameter(
        negative="",
        help="Classifiers, sequences: a further run, whose probabilities are averaged with those "
        "of RUN. Repeatable.",
    ),
]
Precision = Annotated[
    Literal["float32", "bfloat16", "int8"],
    Parameter(help="Precision of the weights; what another than float32 costs is told."),
]
Verbose = Annotated[
    bool,
    Parameter(
        name="--verbose",
        negative="",
        show_default=False,
        help="Tell on standard error which kernels ran, and why.",
    ),
]
Encoding = Annotated[str, Parameter(help="Encoding of the files, read strictly.")]


def require_at_least(name: str, value: int, least: int) -> None:
    """Raise `SettingError` naming the option where its value is below `least`."""
    if value < least:
        raise SettingError(f"{name} must be an int >= {least}", got=str(value))


@contextmanager
def naming_options(*names: str) -> Iterator[None]:
    """Within the block, what is wrong with a field of a request is told of the option as typed.

    `names` are the fields whose options are called alike: top_k is --top-k. Only an error whose
    first word is one of them is told anew.
    """
    try:
        yield
    except SettingError as error:
        if error.what.split(" ", 1)[0] not in names:
            raise
        field = re.compile(rf"\b({'|'.join(names)})\b")

        def typed(text: str) -> str:
            return field.sub(lambda found: f"--{found[0].replace('_', '-')}", text)

        raise SettingError(
            typed(error.what),
            got=typed(error.got),
            allowed=typed(error.allowed),
            hint=typed(error.hint),
        ) from None


_UNITS = (("h", 3600.0), ("m", 60.0), ("s", 1.0))
_NUMBER = r"(\d+(?:\.\d+)?)\s*"
_DURATION = re.compile(rf"(?:{_NUMBER}h)?\s*(?:{_NUMBER}m(?:in)?)?\s*(?:{_NUMBER}(?:s(?:ec)?)?)?")


def duration_seconds(text: str) -> float:
    """Return the seconds that `text` names: "90", "90s", "2m", "1h30m".

    Raises `SettingError` for anything else, and for durations that are not positive.
    """
    match = _DURATION.fullmatch(text.strip())
    seconds = 0.0
    if match:
        for (_, factor), number in zip(_UNITS, match.groups(), strict=True):
            seconds += factor * float(number or 0)
    if seconds <= 0:
        raise SettingError(
            "--budget must be a duration above 0",
            got=repr(text),
            allowed="a number of seconds, or numbers with h, m or s, such as 90, 90s or 1h30m",
        )
    return seconds


def duration_text(seconds: float) -> str:
    """Return `seconds` as a person reads them: 7 s, 1 min 40 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
