"""One step of training in fractions: the chain rule through every reading, then W ← W − rate · g.

    L = −log p(target) after the last reading;   ∂L/∂z = p − (1 at the target, else 0)
    ∂L/∂h_{t−1} = (∂L/∂h_t ∘ f′(a_t)) W_hᵀ;   ∂L/∂W_h = Σ_t h_{t−1}ᵀ (∂L/∂h_t ∘ f′(a_t)),  …

The probabilities p are the one thing that is no fraction: they enter as decimals of forty digits.
The standard library alone.
"""

from collections.abc import Sequence
from fractions import Fraction

from elman.recipes.lab.exact_rnn import (
    ExactModel,
    Matrix,
    Row,
    added,
    exact_probabilities,
    parameter_matrices,
    row_times,
    token_ids,
    trace_exactly,
    with_matrices,
)


def exact_gradients(model: ExactModel, words: Sequence[str], target: str) -> dict[str, Matrix]:
    """Return ∂L/∂ of every parameter, by the names of `parameter_matrices`.

    Where a_t is exactly 0, relu passes no gradient on, as in torch.
    """
    steps = trace_exactly(model, words)
    wanted = model.outputs.index(target)
    at_logits = tuple(
        Fraction(p) - (place == wanted)
        for place, p in enumerate(exact_probabilities(steps[-1].logits))
    )
    gradients = {name: _scaled(m, Fraction(0)) for name, m in parameter_matrices(model).items()}
    _add(gradients, "output_weights", _outer(steps[-1].new, at_logits))
    _add(gradients, "output_bias", (at_logits,))
    at_state = row_times(at_logits, _turned(model.output_weights))
    for step, token_id in reversed(list(zip(steps, token_ids(model, words), strict=True))):
        is_open = [model.activation == "identity" or a > 0 for a in step.affine]
        at_affine = tuple(
            g if passes else Fraction(0) for g, passes in zip(at_state, is_open, strict=True)
        )
        _add(gradients, "input_weights", _outer(step.x, at_affine))
        _add(gradients, "recurrent_weights", _outer(step.old, at_affine))
        _add(gradients, "hidden_bias", (at_affine,))
        one_hot = tuple(Fraction(place == token_id) for place in range(len(model.tokens)))
        at_input = row_times(at_affine, _turned(model.input_weights))
        _add(gradients, "embeddings", _outer(one_hot, at_input))
        at_state = row_times(at_affine, _turned(model.recurrent_weights))
    return gradients


def exactly_trained(
    model: ExactModel, words: Sequence[str], target: str, rate: Fraction
) -> ExactModel:
    """Return the model after one step of plain gradient descent on this one text."""
    gradients = exact_gradients(model, words, target)
    changed = {
        name: _sum(matrix, _scaled(gradients[name], -rate))
        for name, matrix in parameter_matrices(model).items()
    }
    return with_matrices(model, changed)


def _add(gradients: dict[str, Matrix], name: str, part: Matrix) -> None:
    gradients[name] = _sum(gradients[name], part)


def _sum(one: Matrix, other: Matrix) -> Matrix:
    return tuple(added(row, other_row) for row, other_row in zip(one, other, strict=True))


def _scaled(matrix: Matrix, factor: Fraction) -> Matrix:
    return tuple(tuple(factor * one for one in row) for row in matrix)


def _outer(left: Row, right: Row) -> Matrix:
    return tuple(tuple(one * other for other in right) for one in left)


def _turned(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))
