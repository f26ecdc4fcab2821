"""python -m elman.recipes.lab.exact_tables [--log FILE]: the five tables of the clue, in fractions.

    fixture → every reading as a fraction → the five tables, the exercises, a log

needs the standard library alone and takes less than a second. The log names the SHA-256 of the
fixture that it comes from, and has what was found for each claim; what is expected of it stands
apart, in a third file that nothing here reads.
"""

import argparse
import json
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from elman.errors import ElmanError, RunError
from elman.recipes.lab.clue_parameters import TRAINING_RATE, clue_parameter_findings
from elman.recipes.lab.clue_reader import FIXTURE_NAME, ExactReader, as_texts, exact_reader
from elman.recipes.lab.clue_sweeps import clue_sweep_findings
from elman.recipes.lab.clue_window import clue_window_findings
from elman.recipes.lab.exact_rnn import exact_probabilities, matrices_digest, token_ids
from elman.recipes.lab.experiment import Measured
from elman.recipes.lab.long_clue import long_clue_findings
from elman.recipes.lab.short_clue import short_clue_findings

LOG_SCHEMA = 1
PLACES = 6
"""Decimals of a probability in the tables."""

_EXERCISES = ("003-27", "003-29", "003-30", "003-31", "003-32", "003-33", "003-34")
"""The findings that are printed below the tables."""

Table = tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]]
"""A title, the heads of its columns, its rows."""


def exact_findings(reader: ExactReader) -> tuple[Measured, ...]:
    """Return what the fractions find for every claim about the clue, in the order of the claims."""
    found = (
        *short_clue_findings(reader),
        *clue_window_findings(reader),
        *long_clue_findings(reader),
        *clue_sweep_findings(reader),
        *clue_parameter_findings(reader),
    )
    return tuple(sorted(found, key=lambda one: one.claim))


def exact_tables(reader: ExactReader) -> Iterator[Table]:
    """Yield tables 11.1 to 11.5, the nine readings of long blue, and the fillers."""
    yield _inputs(reader)
    yield _states(reader)
    yield _answers(reader)
    yield _long_pair(reader)
    yield _changes(reader)
    yield _readings(reader)
    yield _fillers(reader)


def _inputs(reader: ExactReader) -> Table:
    model = reader.model
    ids = token_ids(model, model.tokens)
    rows = tuple(
        (token, str(place), _row(vector))
        for token, place, vector in zip(model.tokens, ids, model.embeddings, strict=True)
    )
    return "11.1 The embeddings", ("token", "id", "row"), rows


def _states(reader: ExactReader) -> Table:
    steps = reader.read(reader.fixture.cases["short"]["red"])
    digest = matrices_digest(reader.parameters())[:12]
    rows = tuple(
        (f"{number}: {step.token}", _row(step.x), _row(step.old), digest, _row(step.new))
        for number, step in enumerate(steps, start=1)
    )
    heads = ("reading", "input", "old state", "digest of the parameters", "new state")
    return "11.2 One set of parameters, three readings of red", heads, rows


def _answers(reader: ExactReader) -> Table:
    rows = tuple(
        (clue, f"{number}: {step.token}", _row(step.new), _row(step.logits), _chances(step.logits))
        for clue, words in reader.fixture.cases["short"].items()
        for number, step in enumerate(reader.read(words), start=1)
    )
    heads = ("clue", "reading", "state", "logits", "probabilities")
    return "11.3 The answers after each reading, [red, blue]", heads, rows


def _long_pair(reader: ExactReader) -> Table:
    rows = []
    for clue, words in reader.fixture.cases["long"].items():
        last, seen = reader.read(words)[-1], reader.look(words, reader.fixture.window_length)
        answer = reader.choice(last.logits)
        told = answer + (": right" if answer == clue else ": wrong")
        chance = _decimal(exact_probabilities(last.logits)[0])
        rows.append((clue, _row(seen.logits), _row(last.new), _row(last.logits), chance, told))
    heads = ("clue", "logits of a window of two", "state", "logits", "p(red)", "answer")
    return "11.4 Nine tokens, two ways to fail", heads, tuple(rows)


def _changes(reader: ExactReader) -> Table:
    words = reader.fixture.cases["long"]["blue"]
    before = matrices_digest(reader.parameters())[:12]
    states = len({step.new for step in reader.read(words)})
    after = matrices_digest(reader.parameters())[:12]
    trained = reader.trained(words, "blue", TRAINING_RATE)
    again = len({step.new for step in trained.read(words)})
    chances = [
        _decimal(exact_probabilities(one.read(words)[-1].logits)[1]) for one in (reader, trained)
    ]
    rows = (
        ("tokens", f"{len(words)} given", f"{len(words)} given"),
        ("states", f"{states} different ones", f"{again} different ones, other than before"),
        (
            "parameters",
            f"{before} → {after}",
            f"{before} → {matrices_digest(trained.parameters())[:12]}",
        ),
        ("answer wanted", "not read", f"read: p(blue) {chances[0]} → {chances[1]}"),
    )
    return "11.5 What a run and what a step of training changes", ("", "run", "training"), rows


def _readings(reader: ExactReader) -> Table:
    steps = reader.read(reader.fixture.cases["long"]["blue"])
    rows = tuple(
        (f"{number}: {step.token}", _row(step.new), _row(step.logits), reader.choice(step.logits))
        for number, step in enumerate(steps, start=1)
    )
    return "The readings of long blue", ("reading", "state", "logits", "answer"), rows


def _fillers(reader: ExactReader) -> Table:
    first, *end = reader.fixture.cases["short"]["blue"]
    rows = []
    for number in range(5):
        last = reader.read([first, *["filler"] * number, *end])[-1]
        rows.append((str(number), _row(last.new), _row(last.logits), reader.choice(last.logits)))
    return "Fillers between blue and key is", ("fillers", "state", "logits", "answer"), tuple(rows)


def _row(row: Sequence[Fraction]) -> str:
    return f"[{', '.join(as_texts(row))}]"


def _chances(logits: tuple[Fraction, ...]) -> str:
    return f"[{', '.join(_decimal(one) for one in exact_probabilities(logits))}]"


def _decimal(chance: object) -> str:
    return f"{chance:.{PLACES}f}"


def _plain(value: object) -> str:
    """Return a value without the quotes that JSON puts around fractions."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(_plain(one) for one in value)}]"
    if isinstance(value, float):
        return _decimal(value)
    return str(value)


def _lines(table: Table) -> Iterator[str]:
    title, heads, rows = table
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    yield title
    for row in (heads, tuple("-" * width for width in widths), *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
    yield ""


def log_of_run(
    reader: ExactReader, tables: Iterable[Table], findings: Iterable[Measured]
) -> dict[str, object]:
    """Return what the log says: from which fixture, by what, the tables and the findings."""
    return {
        "schema": LOG_SCHEMA,
        "fixture": FIXTURE_NAME,
        "fixture_sha256": reader.fixture.digest,
        "python": platform.python_version(),
        "parameters_sha256": matrices_digest(reader.parameters()),
        "tables": [
            {"title": title, "rows": [dict(zip(heads, row, strict=True)) for row in rows]}
            for title, heads, rows in tables
        ],
        "findings": {one.claim: {"value": one.value, "how": one.how} for one in findings},
    }


def print_exact_tables(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, write the log where asked; return 2 where that is refused."""
    parser = argparse.ArgumentParser(description="The tables of the clue in exact fractions.")
    parser.add_argument("--log", type=Path, metavar="FILE", help="write a log of the run as JSON")
    given = parser.parse_args(arguments)
    try:
        reader = exact_reader()
        tables, findings = tuple(exact_tables(reader)), exact_findings(reader)
        print(f"fixture {FIXTURE_NAME}, SHA-256 {reader.fixture.digest}\n")
        for table in tables:
            print("\n".join(_lines(table)))
        for one in findings:
            if one.claim in _EXERCISES:
                print(f"{one.how}:\n    {_plain(one.value)}")
        print("\nTies go to the first answer, red.")
        if given.log is not None:
            _write(given.log, log_of_run(reader, tables, findings))
    except ElmanError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _write(path: Path, log: dict[str, object]) -> None:
    try:
        path.write_text(json.dumps(log, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path} cannot be written", got=str(error.strerror)) from None


if __name__ == "__main__":
    sys.exit(print_exact_tables())
