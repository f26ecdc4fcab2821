"""The red and blue task: its fixture, and what reads it, in fractions or by the trained classes.

A clue, red or blue, stands first; after words without meaning the model is asked for it. The answer
is the likelier of [red, blue], of equals the first. A `ClueReader` reads such a text with the
weights of `fixtures/clue.json`; findings are written once for any reader, and held against
each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple, Protocol, Self

from elman.errors import DataError
from elman.recipes.lab.exact_rnn import (
    ExactModel,
    ExactStep,
    Matrix,
    Row,
    activated,
    added,
    exact_probabilities,
    first_largest,
    parameter_matrices,
    parse_exact_json,
    parse_exact_model,
    parse_matrix,
    row_times,
    token_ids,
    trace_exactly,
    with_matrices,
)
from elman.recipes.lab.exact_training import exactly_trained

FIXTURE_NAME = "clue.json"


@dataclass(frozen=True)
class ClueFixture:
    """What `fixtures/clue.json` says, and the SHA-256 of its bytes.

    window_weights [N · E, H] and window_bias [H] belong to the window of the last N embeddings;
    `cases` maps short or long, then the clue, to the words of the text.
    """

    model: ExactModel
    window_weights: Matrix
    window_bias: Row
    cases: Mapping[str, Mapping[str, tuple[str, ...]]]
    digest: str

    @property
    def window_length(self) -> int:
        """Words in the window: N."""
        return len(self.window_weights) // len(self.model.input_weights)

    @property
    def block(self) -> Matrix:
        """What the window does to one embedding [E, H]: the same at each distance."""
        return self.window_weights[: len(self.model.input_weights)]


class WindowView(NamedTuple):
    """What a window makes of the end of a text: hidden units, and the logits of its answer."""

    hidden: Row
    logits: Row


class ClueReader(Protocol):
    """Reads texts with the fixture's weights; every number comes back as a fraction."""

    @property
    def fixture(self) -> ClueFixture:
        """The fixture, with the texts of the cases."""

    def read(self, words: Sequence[str], old: Row | None = None) -> Sequence[ExactStep]:
        """Return a step for each word, from the state `old`; None: zeros."""

    def look(self, words: Sequence[str], length: int) -> WindowView:
        """Return what a window of the last `length` words makes of them."""

    def window_rows(self, length: int) -> Matrix:
        """Return the weights of a window [length · E, H], the oldest word's first."""

    def activate(self, affine: Row) -> Row:
        """Return f(affine)."""

    def probabilities(self, logits: Row) -> list[float]:
        """Return softmax(logits)."""

    def choice(self, logits: Row) -> str:
        """Return the likelier answer, of equals the first."""

    def parameters(self) -> dict[str, Matrix]:
        """Return the numbers as they are now, by the names of `parameter_matrices`."""

    def changed(self, matrices: Mapping[str, Matrix]) -> Self:
        """Return a reader of its own with other numbers under some names."""

    def trained(self, words: Sequence[str], target: str, rate: Fraction) -> Self:
        """Return a reader of its own after one step of gradient descent on −log p(target)."""


@dataclass(frozen=True)
class ExactReader:
    """Reads in fractions, without rounding and without torch."""

    fixture: ClueFixture
    model: ExactModel

    def read(self, words: Sequence[str], old: Row | None = None) -> Sequence[ExactStep]:
        """Return a step for each word, from the state `old`; None: zeros."""
        return trace_exactly(self.model, words, old)

    def look(self, words: Sequence[str], length: int) -> WindowView:
        """Return f([x_{T−N+1}, …, x_T] W + b) and its logits; a place before the text is zeros.

        The weights of lengths other than the fixture's are its block, once for each place.
        """
        model, width = self.model, len(self.model.input_weights)
        seen = [model.embeddings[token_id] for token_id in token_ids(model, words)][-length:]
        empty = ((Fraction(0),) * width,) * (length - len(seen))
        joined = tuple(one for row in (*empty, *seen) for one in row)
        affine = added(row_times(joined, self.window_rows(length)), self.fixture.window_bias)
        hidden = activated(affine, model.activation)
        return WindowView(hidden, added(row_times(hidden, model.output_weights), model.output_bias))

    def window_rows(self, length: int) -> Matrix:
        """Return the fixture's block, `length` times."""
        return self.fixture.block * length

    def activate(self, affine: Row) -> Row:
        """Return f(affine)."""
        return activated(affine, self.model.activation)

    def probabilities(self, logits: Row) -> list[float]:
        """Return softmax(logits)."""
        return [float(one) for one in exact_probabilities(logits)]

    def choice(self, logits: Row) -> str:
        """Return the likelier answer, of equals the first."""
        return self.model.outputs[first_largest(logits)]

    def parameters(self) -> dict[str, Matrix]:
        """Return the numbers as they are now."""
        return parameter_matrices(self.model)

    def changed(self, matrices: Mapping[str, Matrix]) -> Self:
        """Return a reader of its own with other numbers under some names."""
        return type(self)(self.fixture, with_matrices(self.model, matrices))

    def trained(self, words: Sequence[str], target: str, rate: Fraction) -> Self:
        """Return a reader of its own after one step of gradient descent."""
        return type(self)(self.fixture, exactly_trained(self.model, words, target, rate))


def exact_reader() -> ExactReader:
    """Return a reader in fractions of the fixture that comes with the package."""
    fixture = read_clue_fixture()
    return ExactReader(fixture, fixture.model)


def read_clue_fixture() -> ClueFixture:
    """Return the fixture that comes with the package."""
    path = files("elman.recipes.lab").joinpath("fixtures", FIXTURE_NAME)
    return parse_clue_fixture(path.read_bytes())


def parse_clue_fixture(file: bytes) -> ClueFixture:
    """Return the fixture that the bytes of a file say. Raises `DataError` for what is none."""
    text = file.decode("utf-8", errors="replace")
    whole, model = parse_exact_json(text), parse_exact_model(text)
    window, cases = whole.get("window"), whole.get("cases")
    if not isinstance(window, dict) or not isinstance(cases, dict):
        raise DataError("the fixture must have a window and cases", got=", ".join(whole))
    weights = parse_matrix("weights of the window", window.get("weights"))
    width = len(model.input_weights)
    if len(weights) % width or weights != weights[:width] * (len(weights) // width):
        raise DataError("the window must do the same to each of its embeddings")
    words: dict[str, dict[str, tuple[str, ...]]] = {
        name: {clue: tuple(str(text).split()) for clue, text in pair.items()}
        for name, pair in cases.items()
    }
    bias = parse_matrix("bias of the window", [window.get("bias")])[0]
    return ClueFixture(model, weights, bias, words, sha256(file).hexdigest())


def as_texts(row: Sequence[Fraction]) -> list[str]:
    """Return a row such as ["1/4", "0"], which JSON can hold and nothing rounds."""
    return [str(one) for one in row]


def with_retention(reader: ClueReader, retention: Fraction) -> ClueReader:
    """Return a reader whose state keeps this share of itself at each reading: W_h = retention I."""
    size = range(len(reader.parameters()["recurrent_weights"]))
    kept = tuple(tuple(retention * (row == place) for place in size) for row in size)
    return reader.changed({"recurrent_weights": kept})


def right_by_reading(reader: ClueReader, case: str) -> int:
    """Return how many texts of a pair get their clue as the answer after the last reading."""
    pair = reader.fixture.cases[case]
    return sum(reader.choice(reader.read(words)[-1].logits) == clue for clue, words in pair.items())


def right_by_window(reader: ClueReader, case: str, length: int) -> int:
    """Return how many texts of a pair get their clue as the answer of a window of `length`."""
    pair = reader.fixture.cases[case]
    return sum(
        reader.choice(reader.look(words, length).logits) == clue for clue, words in pair.items()
    )
