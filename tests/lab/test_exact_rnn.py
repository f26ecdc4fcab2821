"""Fractions against NumPy, differences and torch: the traced network, its gradient, its file."""

import json
import math
import random
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from elman.errors import DataError, ElmanError, UnknownSymbolError
from elman.recipes.lab.exact_rnn import (
    ExactModel,
    Matrix,
    exact_probabilities,
    first_largest,
    matrices_digest,
    parameter_matrices,
    parse_exact_model,
    trace_exactly,
    with_matrices,
)
from elman.recipes.lab.exact_training import exact_gradients, exactly_trained

WORDS = ("a", "c", "b", "a", "a", "c")


def drawn(seed: int, activation: str) -> ExactModel:
    """A model of three words, embeddings of 2, 4 units and 3 answers, in small random fractions."""
    draw = random.Random(seed)
    print(f"seed {seed}")

    def rows(height: int, width: int) -> list[list[str]]:
        return [
            [str(Fraction(draw.randint(-9, 9), 7)) for _ in range(width)] for _ in range(height)
        ]

    entry = {
        "tokens": ["a", "b", "c"],
        "outputs": ["x", "y", "z"],
        "activation": activation,
        "embeddings": rows(3, 2),
        "input_weights": rows(2, 4),
        "recurrent_weights": rows(4, 4),
        "hidden_bias": rows(1, 4)[0],
        "output_weights": rows(4, 3),
        "output_bias": rows(1, 3)[0],
    }
    return parse_exact_model(json.dumps({"model": entry}))


def floats(matrix: Sequence[Sequence[Fraction]]) -> np.ndarray:
    return np.array([[float(one) for one in row] for row in matrix])


@pytest.mark.parametrize("activation", ["relu", "identity"])
@pytest.mark.parametrize("seed", range(3))
def test_a_trace_is_the_recurrence_in_numpy(seed: int, activation: str) -> None:
    model = drawn(seed, activation)
    named = {name: floats(matrix) for name, matrix in parameter_matrices(model).items()}
    h = np.zeros(4)
    for step in trace_exactly(model, WORDS):
        assert np.allclose(floats([step.old])[0], h, atol=1e-12)
        x = named["embeddings"][model.tokens.index(step.token)]
        a = x @ named["input_weights"] + h @ named["recurrent_weights"] + named["hidden_bias"][0]
        h = np.maximum(a, 0) if activation == "relu" else a
        z = h @ named["output_weights"] + named["output_bias"][0]
        assert np.allclose(floats([step.affine, step.new]), [a, h], atol=1e-12, rtol=1e-12)
        assert np.allclose(floats([step.logits])[0], z, atol=1e-12, rtol=1e-12)


def test_reading_on_from_a_state_is_reading_at_once() -> None:
    model = drawn(4, "relu")
    whole = trace_exactly(model, WORDS)
    first = trace_exactly(model, WORDS[:2])
    assert (*first, *trace_exactly(model, WORDS[2:], first[-1].new)) == whole
    assert trace_exactly(model, ()) == ()


def test_probabilities_have_forty_digits_and_do_not_overflow() -> None:
    chances = exact_probabilities((Fraction(1), Fraction(0)))
    assert str(chances[0]).startswith("0.73105857863000487925115924182183627")
    assert abs(sum(chances) - 1) < Decimal("1e-38")
    assert exact_probabilities((Fraction(10**6), Fraction(0)))[0] == 1
    assert exact_probabilities((Fraction(1, 3),) * 4) == (Decimal("0.25"),) * 4


def test_of_equal_logits_the_first_is_chosen() -> None:
    assert first_largest((Fraction(1, 8), Fraction(1, 8))) == 0
    assert first_largest((Fraction(1, 8), Fraction(1, 8) + Fraction(1, 10**30))) == 1


@pytest.mark.parametrize("activation", ["relu", "identity"])
def test_gradients_are_those_of_autograd_on_the_unrolled_loop(activation: str) -> None:
    model = drawn(11, activation)
    tensors = {
        name: torch.tensor(floats(matrix), requires_grad=True)
        for name, matrix in parameter_matrices(model).items()
    }
    h = torch.zeros(4, dtype=torch.float64)
    for word in WORDS:
        x = tensors["embeddings"][model.tokens.index(word)]
        a = x @ tensors["input_weights"] + h @ tensors["recurrent_weights"]
        a = a + tensors["hidden_bias"][0]
        h = a.relu() if activation == "relu" else a
    z = h @ tensors["output_weights"] + tensors["output_bias"][0]
    (-z.log_softmax(dim=0)[1]).backward()
    for name, found in exact_gradients(model, WORDS, "y").items():
        gradient = tensors[name].grad
        assert gradient is not None
        assert np.allclose(floats(found), gradient.numpy(), rtol=1e-10, atol=1e-12), name
        assert found == () or any(any(row) for row in found) or activation == "relu", name


def test_gradients_are_the_slope_of_the_loss_by_differences() -> None:
    model, change = drawn(12, "identity"), Fraction(1, 10**9)
    gradients = exact_gradients(model, WORDS, "z")
    for name, matrix in parameter_matrices(model).items():
        for row, column in ((0, 0), (len(matrix) - 1, len(matrix[0]) - 1)):
            up, down = (
                nats(with_matrices(model, {name: moved(matrix, row, column, way * change)}), "z")
                for way in (1, -1)
            )
            slope = Context(prec=50).subtract(up, down) * 500_000_000
            assert math.isclose(
                float(slope), float(gradients[name][row][column]), rel_tol=1e-9, abs_tol=1e-15
            )


def nats(model: ExactModel, target: str) -> Decimal:
    logits = trace_exactly(model, WORDS)[-1].logits
    return -Context(prec=50).ln(exact_probabilities(logits)[model.outputs.index(target)])


def moved(matrix: Matrix, row: int, column: int, by: Fraction) -> Matrix:
    rows = [list(one) for one in matrix]
    rows[row][column] += by
    return tuple(tuple(one) for one in rows)


def test_a_step_goes_against_the_gradient_and_makes_the_answer_likelier() -> None:
    model = drawn(13, "identity")
    trained = exactly_trained(model, WORDS, "z", Fraction(1, 1000))
    assert nats(trained, "z") < nats(model, "z")
    assert exactly_trained(model, WORDS, "z", Fraction(0)) == model


def test_the_digest_is_of_every_number_and_its_place() -> None:
    matrices = parameter_matrices(drawn(14, "relu"))
    known = {matrices_digest(matrices)}
    for name, matrix in matrices.items():
        for row in range(len(matrix)):
            for column in range(len(matrix[0])):
                other = moved(matrix, row, column, Fraction(1, 10**40))
                known.add(matrices_digest({**matrices, name: other}))
    assert len(known) == 1 + 6 + 8 + 16 + 4 + 12 + 3


def test_a_decimal_is_the_one_that_is_written() -> None:
    entry = {**plain(), "hidden_bias": [0]}
    text = json.dumps({"model": entry}).replace('"hidden_bias": [0]', '"hidden_bias": [0.1]')
    assert parse_exact_model(text).hidden_bias == (Fraction(1, 10),)


def plain() -> dict[str, object]:
    """One word, one unit, one answer."""
    return {
        "tokens": ["a"],
        "outputs": ["x"],
        "activation": "relu",
        "embeddings": [[1]],
        "input_weights": [["1/2"]],
        "recurrent_weights": [["-1.5e0"]],
        "hidden_bias": [0],
        "output_weights": [[1]],
        "output_bias": [0],
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"activation": "tanh"}, "keep fractions fractions"),
        ({"tokens": ["a", "a"]}, "each of them once"),
        ({"tokens": ["a b"]}, "without blanks"),
        ({"tokens": []}, "tokens must be words"),
        ({"tokens": ["a", "b"]}, "embeddings of an exact model must fit"),
        ({"embeddings": [[1, 2]]}, "embeddings of an exact model must fit"),
        ({"embeddings": [[1], [1, 2]]}, "equally many"),
        ({"embeddings": "1"}, "rows of equally many"),
        ({"output_bias": [[0]]}, "must be one"),
        ({"output_bias": ["1/0"]}, "must be one"),
        ({"output_bias": ["1e999999999"]}, "must be one"),
        ({"output_bias": [True]}, "must be one"),
        ({"output_bias": ["nan"]}, "must be one"),
        ({"extra": 1}, "got extra"),
    ],
)
def test_what_is_no_exact_model_is_refused_in_a_line(change: dict[str, object], told: str) -> None:
    with pytest.raises(DataError, match=told) as caught:
        parse_exact_model(json.dumps({"model": {**plain(), **change}}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"model": 1}', "[" * 100_000, '{"model": 1e999999999}', '{"a": NaN}']
)
def test_what_is_no_file_of_a_model_is_refused(text: str) -> None:
    with pytest.raises(ElmanError):
        parse_exact_model(text)


def test_an_unknown_word_is_named() -> None:
    with pytest.raises(UnknownSymbolError, match="got b; allowed: a"):
        trace_exactly(parse_exact_model(json.dumps({"model": plain()})), ["a", "b"])
