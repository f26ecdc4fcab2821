"""Where derivatives come from: along a path they multiply, over paths and uses they add.

    dh_t/dh_{t−1} = (1 − h_t²) W_h   and over k transitions the product of k such factors
    dL/dh_0 = Σ_t dL_t/dh_0          losses at several positions
    dL/dW = Σ_t dL/dW⁽ᵗ⁾             W⁽ᵗ⁾: a copy of the weights for step t alone

Paths are taken apart by giving each step weights of its own (`Cell.with_weights`) or each position
a loss of its own, and compared with what one backward pass gives.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elman.cells.cell import Cell
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell
from elman.cells.supplied import supply
from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur
from elman.losses import IGNORED, token_loss
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_PLAN = KernelPlan("reference")
_SEEDS, _STEPS = range(1, 11), 12


def _run() -> Iterator[Measured]:
    """Yield the sum over uses, the product along a path, and the sum over losses."""
    apart = [max(_uses(cell) for cell in _cells(seed)) for seed in _SEEDS]
    yield Measured(
        "001-17",
        max(apart),
        f"the largest distance, in shares of the largest gradient, of the gradient of shared "
        f"weights from the sum over {_STEPS} copies: Elman, GRU, LSTM, ten seeds",
        tuple(apart),
    )
    yield _factors()
    yield _several_losses()


def _cells(seed: int) -> Iterator[Cell]:
    for cell in (ElmanCell(3, 5), GRUCell(3, 5), LSTMCell(3, 5)):
        cell.double().initialise(generator(seed, "initialisation"))
        yield cell


def _uses(cell: Cell) -> float:
    """Return how far the shared gradient is from the sum over copies, as a share of the largest."""
    x_BTE = torch.randn(2, _STEPS, 3, generator=generator(1, "sampling"), dtype=torch.float64)
    shared = torch.autograd.grad(_loss(recur(cell, x_BTE, None, None, plan=_PLAN)[0]), cell.weights)
    copies, state, outputs = _copies(cell), cell.zero_state(2), list[Tensor]()
    for step, copy in enumerate(copies):
        output_B1H, state = recur(
            cell.with_weights(copy), x_BTE[:, step : step + 1], state, None, plan=_PLAN
        )
        outputs.append(output_B1H)
    every = [weight for copy in copies for weight in copy.values()]
    separate = torch.autograd.grad(_loss(torch.cat(outputs, dim=1)), every)
    size = len(cell.weights)
    added = [sum(separate[start::size], torch.zeros(())) for start in range(size)]
    distances = [(one - other).abs().max() for one, other in zip(shared, added, strict=True)]
    return (max(distances) / max(one.abs().max() for one in shared)).item()


def _copies(cell: Cell) -> list[dict[str, Tensor]]:
    """Return the weights of the cell once for each step."""
    named = [(name, weight.data) for name, weight in cell.named_parameters()]
    return [
        {name: weight.clone().requires_grad_() for name, weight in named} for _ in range(_STEPS)
    ]


def _loss(states_BTH: Tensor) -> Tensor:
    return states_BTH.square().sum()


def _factors() -> Measured:
    """Return the slope of tanh at 1, one factor, and the slope over five transitions."""
    one = _slope([1.0], weight_x=1.0, weight_h=0.0, bias=0.0, of_input=True)
    local = _slope([1.0], weight_x=0.8, weight_h=0.5, bias=0.1)
    five = _slope([1.0, -0.5, 0.25, 0.0, -1.0], weight_x=0.8, weight_h=0.5, bias=0.1)
    how = "a tanh cell of one unit: dh/da at a = 1; W_x 0.8, W_h 0.5, b 0.1: dh_1/dh_0, dh_5/dh_0"
    return Measured("001-28", [one, local, five], how)


def _slope(
    inputs: Sequence[float],
    *,
    weight_x: float,
    weight_h: float,
    bias: float,
    of_input: bool = False,
) -> float:
    """Return the derivative of the last state by the state before, or by the first input."""
    cell = ElmanCell(1, 1, bias="one").double()
    x_11, h_11, b_11 = torch.tensor([[[weight_x]], [[weight_h]], [[bias]]], dtype=torch.float64)
    supply(cell, {"weight_ih": x_11, "weight_hh": h_11, "bias_ih": b_11[0]}, acts_on="columns")
    x_BTE = torch.tensor(inputs, dtype=torch.float64).view(1, -1, 1).requires_grad_()
    h_BH = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    state = recur(cell, x_BTE, cell.pack_state([h_BH]), None, plan=_PLAN)[1]
    by_input, by_state = torch.autograd.grad(state[0].sum(), (x_BTE, h_BH))
    return by_input[0, 0, 0].item() if of_input else by_state.item()


def _several_losses() -> Measured:
    """Return the slope of each of three states by the first, of their sum, and a model's gap."""
    cell = ElmanCell(1, 1, activation="identity", bias="none").double()
    with torch.no_grad():
        cell.weight_hh.fill_(0.5)
    h_BH = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
    x_BTE = torch.zeros(1, 3, 1, dtype=torch.float64)
    states_BTH = recur(cell, x_BTE, cell.pack_state([h_BH]), None, plan=_PLAN)[0]
    paths = [_by(states_BTH[0, step, 0], h_BH) for step in range(3)]
    apart = max(_positions(seed) for seed in _SEEDS)
    how = (
        "an identity cell with W_h = 1/2: dh_1, dh_2, dh_3 and their sum by h_0; the largest "
        "distance of a language model's gradients from the sum over its positions, ten seeds"
    )
    return Measured("001-31", [*paths, _by(states_BTH.sum(), h_BH), apart], how)


def _by(value: Tensor, of: Tensor) -> float:
    return torch.autograd.grad(value, of, retain_graph=True)[0].item()


def _positions(seed: int) -> float:
    """Return how far a model's gradients are from the sum of those of each position alone."""
    draw = generator(seed, "initialisation")
    settings = ModelSettings(kind="gru", embedding_size=3, hidden_size=4)
    model = RecurrentLanguageModel(settings, 6, draw).double()
    ids_BT = torch.randint(6, (2, 7), generator=draw)
    whole = _gradients(model, ids_BT, ids_BT[:, 1:])
    alone = torch.zeros_like(whole)
    for step in range(6):
        targets_BT = torch.full_like(ids_BT[:, 1:], IGNORED)
        targets_BT[:, step] = ids_BT[:, step + 1]
        alone = alone + _gradients(model, ids_BT, targets_BT)
    return (whole - alone).abs().max().item()


def _gradients(model: RecurrentLanguageModel, ids_BT: Tensor, targets_BT: Tensor) -> Tensor:
    """Return the gradients of the summed loss by every parameter, in one row."""
    output = model(ids_BT[:, :-1], plan=_PLAN)
    loss = token_loss(output.states_BTH, output.readout, targets_BT, plan=_PLAN)
    found = torch.autograd.grad(loss.nats, list(model.parameters()))
    return torch.cat([gradient.flatten() for gradient in found])


def _draw(path: Path) -> None:
    """Draw how far the paths of losses reach, and how much each use of W_h adds."""
    draw_panels(path, [_reach, _shares])


def _reach(axes: Any) -> None:
    for weight in (0.5, 0.9, 1.5):
        slopes = [
            abs(_slope([0.2] * steps, weight_x=1.0, weight_h=weight, bias=0.0))
            for steps in range(1, 31)
        ]
        axes.plot(range(1, 31), slopes, label=f"tanh cell, W_h = {weight:g}")
    axes.plot(range(1, 31), [0.5**k for k in range(1, 31)], ":", color="grey", label="0.5^k")
    axes.set(yscale="log", xlabel="transitions k", ylabel="derivative over k transitions")


def _shares(axes: Any) -> None:
    """Draw the size of the gradient of each step's own copy of W_h, of a loss at the end."""
    for name, cell in zip(("Elman", "GRU", "LSTM"), _cells(1), strict=True):
        copies, state = _copies(cell), cell.zero_state(2)
        x_BTE = torch.randn(2, _STEPS, 3, generator=generator(1, "sampling"), dtype=torch.float64)
        for step, copy in enumerate(copies):
            state = cell.with_weights(copy).step(x_BTE[:, step], state)
        weights = [copy["weight_hh"] for copy in copies[1:]]  # the first sees a state of zeros
        gradients = torch.autograd.grad(state[0].square().sum(), weights)
        axes.plot(range(2, _STEPS + 1), [g.norm().item() for g in gradients], "o-", label=name)
    axes.set(yscale="log", xlabel="step whose copy of W_h it is", ylabel="norm of its gradient")


DERIVATIVE_PATHS = Experiment(
    "derivative-paths",
    "derivatives multiply along a path and add over paths and uses",
    "document 001, 15.2, 15.5",
    _run,
    _draw,
)
