"""The additive path through an LSTM, beside the path through a matrix at every step.

    LSTM, gates held:   ∂c_t/∂c_{t−1} = diag(f_t),            0 < f_t < 1
    Elman:              ∂h_t/∂h_{t−1} = diag(1 − h_t²) W_hh

A forget gate near 1 keeps the product of many steps near the identity; it is not exact where the
gates see h_{t−1}, which they do: held gates are the path without those ways around.
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elman.cells.cell import Cell
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_UNITS = 6
_STEPS = 50


def _run() -> Iterator[Measured]:
    """Yield the two Jacobians, what fifty steps leave, and the share of parameters."""
    lstm, gates, x_BE, state = _lstm_step(1)
    memory_HH = _jacobian(
        lambda c_H: lstm.combine(gates, lstm.pack_state([state[0], c_H.unsqueeze(0)]))[1][0],
        state[1][0],
    )
    off = (memory_HH - torch.diag(gates["forget"][0])).abs().max().item()
    opened = [gates[name] for name in ("input", "forget", "output")]
    within = all(bool(((gate > 0.0) & (gate < 1.0)).all()) for gate in opened)
    yield Measured(
        "004-16",
        [off, _elman_difference(x_BE), within, _kept(5.0)],
        "held gates of an LSTM: Jacobian of its memory less diag(f); of an Elman cell less "
        f"diag(1 − h²) W; gates within (0, 1); share of the memory after {_STEPS} steps at a "
        "forget bias of 5",
    )
    sizes = ((3, 5), (16, 32), (64, 384))
    shares = {_share(inputs, units) for inputs, units in sizes}
    yield Measured("004-17", " ".join(sorted(shares)), f"GRU : LSTM of sizes {sizes}")


def _lstm_step(
    seed: int,
) -> tuple[LSTMCell, Mapping[str, Tensor], Tensor, tuple[Tensor, ...]]:
    """Return a drawn LSTM, the values of its gates at one step, its input and state."""
    draws = generator(seed, "initialisation")
    cell = LSTMCell(3, _UNITS)
    cell.initialise(draws)
    cell.double()
    x_BE, h_BH, c_BH = (
        torch.randn(1, size, generator=draws, dtype=torch.float64) for size in (3, _UNITS, _UNITS)
    )
    state = cell.pack_state([torch.tanh(h_BH), c_BH])
    with torch.no_grad():
        gates = cell.gates(x_BE, state)
    return cell, gates, x_BE, state


def _elman_difference(x_BE: Tensor) -> float:
    """Return how far the Jacobian of an Elman step is from diag(1 − h²) W at the most."""
    draws = generator(2, "initialisation")
    cell = ElmanCell(x_BE.shape[1], _UNITS)
    cell.initialise(draws)
    cell.double()
    h_H = torch.rand(_UNITS, generator=draws, dtype=torch.float64)

    def step(h_H: Tensor) -> Tensor:
        return cell.step(x_BE, cell.pack_state([h_H.unsqueeze(0)]))[0][0]

    with torch.no_grad():
        told_HH = torch.diag(1.0 - step(h_H).square()) @ cell.weight_hh
    found_HH = _jacobian(step, h_H)
    return float((found_HH - told_HH).abs().max())


def _jacobian(step: Callable[[Tensor], Tensor], h_H: Tensor) -> Tensor:
    """Return the derivative of `step` by the state h_H [H], a row for each unit, by autograd."""
    with torch.no_grad():
        begun_H = h_H.clone()
    after_H = step(begun_H.requires_grad_())
    rows = [torch.autograd.grad(one, begun_H, retain_graph=True)[0] for one in after_H]
    return torch.stack(rows)


def _kept(forget_bias: float) -> float:
    """Return ∂c_T/∂c_0 of a unit whose gates see nothing but their bias."""
    return _path(LSTMCell(1, 1, forget_bias=forget_bias), 0.0)[-1]


def _path(cell: Cell, weight: float) -> list[float]:
    """Return the derivative of the last part of the state at steps 1 … by what it began as.

    One unit, no input; all weights are 0 but the recurrent ones, which are `weight`.
    """
    cell = cell.double()
    cell.initialise(generator(1, "initialisation"))
    with torch.no_grad():
        cell.weight_ih.zero_()
        cell.weight_hh.fill_(weight)
    begun = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    *others, _ = cell.zero_state(1)
    state, empty_BE, slopes = cell.pack_state([*others, begun]), torch.zeros(1, 1).double(), []
    for _ in range(_STEPS):
        state = cell.step(empty_BE, state)
        (slope,) = torch.autograd.grad(state[-1].sum(), begun, retain_graph=True)
        slopes.append(slope.item())
    return slopes


def _share(input_size: int, hidden_size: int) -> str:
    """Return the parameters of a GRU over those of an LSTM, as a fraction."""
    gru, lstm = (
        sum(weight.numel() for weight in kind(input_size, hidden_size).weights)
        for kind in (GRUCell, LSTMCell)
    )
    return str(Fraction(gru, lstm))


def _draw(path: Path) -> None:
    """Draw what is left of a derivative over fifty steps, through gates and through weights."""
    draw_panels(path, [_path_panel])


def _path_panel(axes: Any) -> None:
    steps = range(1, _STEPS + 1)
    for bias in (0.0, 1.0, 3.0, 5.0):
        slopes = _path(LSTMCell(1, 1, forget_bias=bias), 0.0)
        axes.plot(steps, slopes, label=f"LSTM, forget bias {bias:g}")
    for weight in (0.7, 0.9):
        slopes = _path(ElmanCell(1, 1, bias="none"), weight)
        axes.plot(steps, slopes, "--", label=f"Elman, weight {weight:g}")
    axes.set(yscale="log", xlabel="steps", ylabel="d memory now / d memory at the start")
    axes.set(ylim=(1e-12, 3.0))
    axes.set_title("an open gate carries")


GATED_PATH = Experiment(
    "gated-path",
    "the memory of an LSTM is multiplied by its gate alone",
    "document 004, 3.3",
    _run,
    _draw,
)
