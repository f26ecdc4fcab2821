"""An Elman network with supplied weights, traced in exact fractions: nothing is ever rounded.

    a_t = x_t W_x + h_{t−1} W_h + b;   h_t = f(a_t);   z_t = h_t W_o + b_o;   f = relu or identity

for rows, so that a matrix has one row for each number that goes in. What two functions answer is
all there is: `parse_exact_model` reads the numbers, `trace_exactly` reads the words. Probabilities
are no fractions; `exact_probabilities` gives their first forty digits. The standard library alone.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Literal, NamedTuple

from elman.errors import DataError, UnknownSymbolError, first_few

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]

DIGITS = 40
"""Digits of a probability, which is a quotient of powers of e."""

_NUMBER = re.compile(r"-?\d{1,60}(/\d{1,60}|(\.\d{1,60})?([eE][-+]?\d{1,3})?)")
"""What a number of a file may be: 3, -1/8, 0.125 or 1e-3, and none that fills the memory."""


@dataclass(frozen=True)
class ExactModel:
    """All numbers of the network, and the words that go in and come out.

    embeddings [V, E]: the row of each of `tokens`; input_weights W_x [E, H]; recurrent_weights W_h
    [H, H]; hidden_bias b [H]; output_weights W_o [H, C] and output_bias b_o [C] for `outputs`.
    """

    tokens: tuple[str, ...]
    outputs: tuple[str, ...]
    activation: Literal["relu", "identity"]
    embeddings: Matrix
    input_weights: Matrix
    recurrent_weights: Matrix
    hidden_bias: Row
    output_weights: Matrix
    output_bias: Row


class ExactStep(NamedTuple):
    """One reading: x_t, the old state h_{t−1}, a_t, the new state h_t and the logits z_t."""

    token: str
    x: Row
    old: Row
    affine: Row
    new: Row
    logits: Row


def trace_exactly(
    model: ExactModel, words: Sequence[str], old: Row | None = None
) -> tuple[ExactStep, ...]:
    """Return a step for each word, read from the state `old`; None: zeros.

    Raises `UnknownSymbolError` for a word that is none of the tokens.
    """
    state = (Fraction(0),) * len(model.hidden_bias) if old is None else old
    steps = []
    for word, token_id in zip(words, token_ids(model, words), strict=True):
        x = model.embeddings[token_id]
        affine = added(
            row_times(x, model.input_weights),
            row_times(state, model.recurrent_weights),
            model.hidden_bias,
        )
        new = activated(affine, model.activation)
        logits = added(row_times(new, model.output_weights), model.output_bias)
        steps.append(ExactStep(word, x, state, affine, new, logits))
        state = new
    return tuple(steps)


def token_ids(model: ExactModel, words: Sequence[str]) -> tuple[int, ...]:
    """Return the place of each word among the tokens. Raises `UnknownSymbolError` for another."""
    unknown = [word for word in dict.fromkeys(words) if word not in model.tokens]
    if unknown:
        allowed = first_few(model.tokens, 20)
        raise UnknownSymbolError(
            "the model does not know a word", got=first_few(unknown), allowed=allowed
        )
    return tuple(model.tokens.index(word) for word in words)


def row_times(row: Row, matrix: Matrix) -> Row:
    """Return row · matrix: Σ_i row_i matrix_ij."""
    return tuple(
        sum((one * other for one, other in zip(row, column, strict=True)), Fraction(0))
        for column in zip(*matrix, strict=True)
    )


def added(*rows: Row) -> Row:
    """Return the sum of rows, number by number."""
    return tuple(sum(column, Fraction(0)) for column in zip(*rows, strict=True))


def activated(affine: Row, activation: str) -> Row:
    """Return f(affine): relu puts 0 in place of what is below it, identity changes nothing."""
    return tuple(max(a, Fraction(0)) for a in affine) if activation == "relu" else affine


def exact_probabilities(logits: Row) -> tuple[Decimal, ...]:
    """Return softmax(logits), right to `DIGITS` digits but for the last ones."""
    context = Context(prec=DIGITS + 10)
    largest = max(logits)
    powers = [
        context.exp(context.divide(Decimal(gap.numerator), Decimal(gap.denominator)))
        for gap in (logit - largest for logit in logits)
    ]
    whole = Decimal(0)
    for power in powers:
        whole = context.add(whole, power)
    return tuple(Context(prec=DIGITS).divide(power, whole) for power in powers)


def first_largest(logits: Row) -> int:
    """Return the place of the largest logit; of equals the first: this is the rule of ties."""
    return max(range(len(logits)), key=lambda place: logits[place])


def parameter_matrices(model: ExactModel) -> dict[str, Matrix]:
    """Return every number that training could change, by name; a bias is a matrix of one row."""
    return {
        "embeddings": model.embeddings,
        "input_weights": model.input_weights,
        "recurrent_weights": model.recurrent_weights,
        "hidden_bias": (model.hidden_bias,),
        "output_weights": model.output_weights,
        "output_bias": (model.output_bias,),
    }


def with_matrices(model: ExactModel, changed: Mapping[str, Matrix]) -> ExactModel:
    """Return the model with other numbers under some names of `parameter_matrices`."""
    whole = parameter_matrices(model) | dict(changed)
    return ExactModel(
        tokens=model.tokens,
        outputs=model.outputs,
        activation=model.activation,
        embeddings=whole["embeddings"],
        input_weights=whole["input_weights"],
        recurrent_weights=whole["recurrent_weights"],
        hidden_bias=whole["hidden_bias"][0],
        output_weights=whole["output_weights"],
        output_bias=whole["output_bias"][0],
    )


def matrices_digest(matrices: Mapping[str, Matrix]) -> str:
    """Return the SHA-256 of all numbers, written as fractions under their names."""
    told = {name: [[str(one) for one in row] for row in matrices[name]] for name in matrices}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode("ascii")).hexdigest()


def parse_exact_model(text: str) -> ExactModel:
    """Return the model under "model" in a JSON text; its keys are the fields of `ExactModel`.

    Numbers are JSON's, taken as the decimals they are written as, or texts such as "1/8". Raises
    `DataError` for what is no such model, and where the sizes do not fit each other.
    """
    entry = parse_exact_json(text).get("model")
    if not isinstance(entry, dict):
        raise DataError('an exact model stands under "model"', got=type(entry).__name__)
    names = tuple(ExactModel.__dataclass_fields__)
    wrong = sorted(set(names) ^ set(entry))
    if wrong:
        raise DataError(
            "an exact model has each of its parts and no other",
            got=", ".join(("" if one in entry else "no ") + one for one in wrong),
            allowed=", ".join(names),
        )
    if entry["activation"] not in ("relu", "identity"):
        raise DataError(
            "the function of an exact model must keep fractions fractions",
            got=repr(entry["activation"]),
            allowed="relu, identity",
        )
    model = ExactModel(
        tokens=_words("tokens", entry["tokens"]),
        outputs=_words("outputs", entry["outputs"]),
        activation=entry["activation"],
        embeddings=parse_matrix("embeddings", entry["embeddings"]),
        input_weights=parse_matrix("input_weights", entry["input_weights"]),
        recurrent_weights=parse_matrix("recurrent_weights", entry["recurrent_weights"]),
        hidden_bias=parse_matrix("hidden_bias", [entry["hidden_bias"]])[0],
        output_weights=parse_matrix("output_weights", entry["output_weights"]),
        output_bias=parse_matrix("output_bias", [entry["output_bias"]])[0],
    )
    _require_fit(model)
    return model


def parse_exact_json(text: str) -> dict[str, object]:
    """Return the object of a JSON text, decimals as fractions. Raises `DataError` otherwise."""
    try:
        whole = json.loads(text, parse_float=_number, parse_constant=_number)
    except (ValueError, RecursionError) as error:
        raise DataError("the text of an exact model must be JSON", got=str(error)) from None
    if not isinstance(whole, dict):
        raise DataError("the text of an exact model must be an object", got=type(whole).__name__)
    return whole


def parse_matrix(name: str, rows: object) -> Matrix:
    """Return a matrix of fractions. Raises `DataError` for what is none."""
    is_listed = isinstance(rows, list) and rows and all(isinstance(row, list) for row in rows)
    if not is_listed or not rows[0] or len({len(row) for row in rows}) > 1:  # type: ignore[index,attr-defined]
        raise DataError(f"{name} must be rows of equally many numbers", got=str(rows)[:60])
    return tuple(tuple(_number(one) for one in row) for row in rows)  # type: ignore[attr-defined]


def _number(value: object) -> Fraction:
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if not isinstance(value, str) or not _NUMBER.fullmatch(value) or re.search("/0+$", value):
        raise DataError(
            "a number of an exact model must be one",
            got=str(value)[:60],
            allowed='such as 3, 0.125, "-1/8"',
        )
    return Fraction(value)


def _words(name: str, words: object) -> tuple[str, ...]:
    if not isinstance(words, list) or not words or len(set(map(str, words))) < len(words):
        raise DataError(f"{name} must be words, each of them once", got=str(words)[:60])
    for word in words:
        if not isinstance(word, str) or word.split() != [word]:
            raise DataError(f"one of {name} must be a word without blanks", got=repr(word))
    return tuple(words)


def _require_fit(model: ExactModel) -> None:
    """Check V, E, H and C wherever they occur."""
    width, hidden = len(model.input_weights), len(model.hidden_bias)
    outputs = len(model.outputs)
    sizes = {
        "embeddings": (len(model.tokens), width),
        "input_weights": (width, hidden),
        "recurrent_weights": (hidden, hidden),
        "output_weights": (hidden, outputs),
        "output_bias": (1, outputs),
    }
    for name, matrix in parameter_matrices(model).items():
        found = len(matrix), len(matrix[0])
        if found != sizes.get(name, found):
            raise DataError(
                f"{name} of an exact model must fit the other parts",
                got=f"{found[0]} × {found[1]}",
                allowed=f"{sizes[name][0]} × {sizes[name][1]}",
            )
