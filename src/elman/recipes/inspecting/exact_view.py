"""A network of supplied weights and a text: every step as fractions, exactly.

The standard library alone is used.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TextIO

from elman.errors import DataError, SettingError
from elman.recipes.lab.exact_rnn import (
    ExactModel,
    ExactStep,
    Row,
    exact_probabilities,
    first_largest,
    parse_exact_model,
    trace_exactly,
)

MOST_DIGITS = 4_000
"""Digits of a numerator or denominator beyond which a fraction is not written out."""


@dataclass(frozen=True)
class ExactTrace:
    """Every step of a text, and the probabilities of the outputs after each, as decimals."""

    path: Path
    model: ExactModel
    steps: tuple[ExactStep, ...]
    probabilities: tuple[tuple[Decimal, ...], ...]

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens that are read."""
        return tuple(step.token for step in self.steps)

    @property
    def answer(self) -> str:
        """The output of the largest logit at the end; of equals the first."""
        return self.model.outputs[first_largest(self.steps[-1].logits)]

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold: fractions and decimals as texts, beside floats."""
        steps = zip(self.steps, self.probabilities, strict=True)
        return {
            "model": str(self.path),
            "tokens": list(self.tokens),
            "answer": self.answer,
            "trace": {"steps": [self._step_json(n, *step) for n, step in enumerate(steps)]},
        }

    def _step_json(
        self, position: int, step: ExactStep, shares: Sequence[Decimal]
    ) -> dict[str, object]:
        parts = {"x": step.x, "old": step.old, "affine": step.affine, "new": step.new}
        outputs = self.model.outputs
        return {
            "position": position,
            "token": step.token,
            **{name: _row_json(row) for name, row in parts.items()},
            "logits": dict(zip(outputs, map(str, step.logits), strict=True)),
            "logits_as_floats": dict(zip(outputs, map(as_float, step.logits), strict=True)),
            "probabilities": dict(zip(outputs, map(str, shares), strict=True)),
        }


def exact_trace(path: Path, text: str) -> ExactTrace:
    """Return every step of the text, whose words blanks part, by the weights in the file at `path`.

    The file is JSON with a network under "model", as `parse_exact_model` reads it. Raises
    `DataError` for another file, for a text without words or whose fractions grow too long to be
    written, `UnknownSymbolError` for a word that is none of the tokens.
    """
    text_of_model = _file_text(path)
    try:
        model = parse_exact_model(text_of_model)
    except DataError as error:
        raise DataError(f"{path} holds no network of supplied weights: {error}") from None
    words = text.split()
    if not words:
        raise DataError("there is no token in the text", got=repr(text))
    steps = trace_exactly(model, words)
    for number, step in enumerate(steps, start=1):
        if any(map(_is_long, (*step.affine, *step.logits))):
            raise DataError(
                f"fractions of more than {MOST_DIGITS:,} digits are not written out",
                got=f"a longer one after {number:,} of {len(steps):,} words",
                hint="read a shorter text, or round the weights",
            )
    return ExactTrace(path, model, steps, tuple(exact_probabilities(one.logits) for one in steps))


def chosen_exact_units(model: ExactModel, units: Sequence[int]) -> tuple[int, ...]:
    """Return the units asked for (from 1) as places; of none asked for all.

    Raises `SettingError` for one that the network does not have.
    """
    size = len(model.hidden_bias)
    for unit in units:
        if not 1 <= unit <= size:
            raise SettingError(
                "--unit must be one of the network's", got=str(unit), allowed=f"1 to {size}"
            )
    return tuple(unit - 1 for unit in units) or tuple(range(size))


def write_exact_csv(trace: ExactTrace, units: Sequence[int], file: TextIO) -> None:
    """Write one line a step and number: inputs, old state, affine and new state, logits.

    Numbers of the state are those of `units` (places, from 0). A logit has its output's name and
    its probability, any other number its place from 1.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("position", "token", "part", "name", "fraction", "float", "probability"))
    for position, step in enumerate(trace.steps):

        def write(part: str, name: object, value: Fraction, share: object = "") -> None:
            cells = (part, name, value, as_float(value), share)
            writer.writerow((position, step.token, *cells))  # noqa: B023

        for place, value in enumerate(step.x):
            write("x", place + 1, value)
        for part, row in (("old", step.old), ("affine", step.affine), ("new", step.new)):
            for unit in units:
                write(part, unit + 1, row[unit])
        shares = trace.probabilities[position]
        for name, value, share in zip(trace.model.outputs, step.logits, shares, strict=True):
            write("logit", name, value, share)


def as_float(value: Fraction) -> float:
    """Return the nearest float, infinite where a fraction is beyond all of them."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _row_json(row: Row) -> dict[str, object]:
    return {"fractions": [str(value) for value in row], "floats": [as_float(one) for one in row]}


def _is_long(value: Fraction) -> bool:
    # A digit is a little more than 3.3 bits.
    bits = max(value.numerator.bit_length(), value.denominator.bit_length())
    return bits > 3.3 * MOST_DIGITS


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(
            f"{path} must be a JSON file of supplied weights", got="bytes that are no UTF-8"
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read", got=error.strerror or str(error)) from None
