"""How much of a gradient reaches an input k steps back: the plain network, two LSTMs, attention.

    reach_k = ‖ d Σ_i y_i / d x_{T−k} ‖,   y the output at the last of T = 60 steps

of untrained models on random inputs. A matrix of numbers from ±1/√H has the variance 1/(3H), so
that the square of a vector shrinks by 3 in the mean at each product with it, and the slopes of tanh
shrink it more: the plain network stays below 3^(−k/2).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from elman.cells.cell import Cell
from elman.cells.elman import ElmanCell
from elman.cells.lstm import LSTMCell
from elman.kernels.dispatch import KernelPlan
from elman.layers.attention import MultiHeadAttention
from elman.layers.recurrence import recur
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.over_seeds import over_seeds
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_INPUTS, _UNITS, _STEPS = 16, 32, 60
_SEEDS = tuple(range(1, 11))
_OPEN_BIAS = 1.5 + 1.5
_FIRST_FITTED = 5
"""A line is fitted from here: the last steps differ, as the output itself is near."""

_Curves = npt.NDArray[np.float64]
"""[seeds, steps back]."""

_LOOKS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "rnn": ("tanh network", "tab:blue"),
        "lstm": ("LSTM, forget bias 0", "tab:orange"),
        "open": ("LSTM, forget bias 3", "tab:green"),
        "attention": ("attention", "tab:red"),
    }
)


class _Lines(NamedTuple):
    """log reach = a + k log factor, fitted for each seed, and the share that it explains."""

    factors: list[float]
    straightness: list[float]


def _run() -> Iterator[Measured]:
    """Yield orders, factors a step and straightness of the four curves."""
    curves = {name: _curves(name) for name in _LOOKS}
    rnn, lstm, opened = curves["rnn"], curves["lstm"], curves["open"]
    about = f"inputs of {_INPUTS}, {_UNITS} units, {len(_SEEDS)} seeds"
    shape = [rnn.shape[1], rnn.shape[0]]
    yield Measured("002-11", shape, f"positions and seeds measured; {about}")
    largest = [bool(curve.argmax() == 0) for curve in rnn]
    yield Measured("002-12", all(largest), f"the last input has most; {about}", tuple(largest))
    for claim, back in (("002-13", 5), ("002-14", 10), ("002-15", 20), ("002-40", 59)):
        logs = np.log(rnn[:, back] / rnn[:, 0]).tolist()
        told = (
            f"geometric mean {back} back over that of the last input, ln {over_seeds(logs).told()}"
        )
        yield Measured(claim, math.exp(over_seeds(logs).mean), told, tuple(map(math.exp, logs)))
    for claim, curve in (("002-16", rnn), ("002-47", lstm)):
        lines = _lines(curve)
        told = f"least R² of a line through ln reach; {over_seeds(lines.factors).told()} a step"
        yield Measured(claim, min(lines.straightness), told, tuple(lines.straightness))
    yield _of_order(rnn, lstm, opened)
    yield from _of_flat_curves(opened, curves["attention"])
    yield Measured("002-43", [len(curves), rnn.shape[1]], "curves, and positions in each")


def _of_order(rnn: _Curves, lstm: _Curves, opened: _Curves) -> Measured:
    """Return whether each reaches further than the one before it, 40 back, surely over seeds."""
    kept = [curve[:, 40] for curve in (rnn, lstm, opened)]
    gains = [over_seeds(np.log(kept[k + 1] / kept[k]).tolist()) for k in (0, 1)]
    means = ", ".join(f"{each.mean():.2g}" for each in kept)
    told = f"40 back, means {means}; ln of the ratios {' and '.join(one.told() for one in gains)}"
    surely = all(one.mean > one.half_width for one in gains)
    return Measured(
        "002-32", surely, told, tuple(zip(*(each.tolist() for each in kept), strict=True))
    )


def _of_flat_curves(opened: _Curves, attention: _Curves) -> Iterator[Measured]:
    """Yield the trends of what does not vanish, and what the query adds at the last position."""
    logs = np.log(opened[:, 59] / opened[:, 10]).tolist()
    ratio = opened[:, 59].mean() / opened[:, 10].mean()
    told = f"mean 59 back over mean 10 back; ln of each seed's {over_seeds(logs).told()}"
    yield Measured("002-42", ratio, told, tuple(map(math.exp, logs)))
    factors = _lines(attention).factors
    told = f"factor a step, {over_seeds(factors).told(5)}"
    yield Measured("002-39", over_seeds(factors).mean, told, tuple(factors))
    others = np.median(attention[:, 1:], axis=1)
    whole = (attention[:, 0] / others).tolist()
    without = (_curves("attention without its query")[:, 0] / others).tolist()
    told = (
        "the last input beside the median: {} with the query, {} without; least with, mean without"
    )
    yield Measured(
        "002-41",
        [min(whole) > 2.0, 0.5 < over_seeds(without).mean < 2.0],
        told.format(over_seeds(whole).told(), over_seeds(without).told()),
        tuple(zip(whole, without, strict=True)),
    )


def _curves(name: str) -> _Curves:
    return np.array([_reach(name, seed) for seed in _SEEDS])


def _reach(name: str, seed: int) -> list[float]:
    """Return ‖d Σ y / d x‖ of the inputs, the last one first, in float64."""
    x_1TE = torch.randn(
        1, _STEPS, _INPUTS, generator=generator(seed, "sampling"), dtype=torch.float64
    )
    x_1TE.requires_grad_()
    draw = generator(seed, "initialisation")
    if name.startswith("attention"):
        attention = MultiHeadAttention(_INPUTS, _INPUTS, _UNITS, 1, context_size=_UNITS).double()
        attention.initialise(draw)
        memory = attention.prepare(x_1TE, torch.ones(1, _STEPS, dtype=torch.bool))
        query_1E = x_1TE[:, -1]
        if name != "attention":
            with torch.no_grad():
                query_1E = query_1E.clone()
        output_1H = attention.attend(query_1E, memory).context_BTC
    else:
        cell = _cell(name).double()
        cell.initialise(draw)
        states_1TH, _ = recur(cell, x_1TE, None, None, plan=KernelPlan("reference"))
        output_1H = states_1TH[:, -1]
    (slope_1TE,) = torch.autograd.grad(output_1H.sum(), x_1TE)
    reach: list[float] = slope_1TE[0].norm(dim=1).flip(0).tolist()
    return reach


def _cell(name: str) -> Cell:
    if name == "rnn":
        return ElmanCell(_INPUTS, _UNITS)
    return LSTMCell(_INPUTS, _UNITS, forget_bias=_OPEN_BIAS if name == "open" else 0.0)


def _lines(curves: _Curves) -> _Lines:
    back = np.arange(_FIRST_FITTED, curves.shape[1])
    factors, straightness = [], []
    for logs in np.log(curves[:, _FIRST_FITTED:]):
        factors.append(math.exp(np.polyfit(back, logs, 1)[0]))
        straightness.append(float(np.corrcoef(back, logs)[0, 1] ** 2))
    return _Lines(factors, straightness)


def _draw(path: Path) -> None:
    """Draw the four curves of reach, each with the interval of its seeds, on a log axis."""
    draw_panels(path, [_reaches])


def _reaches(axes: Any) -> None:
    back = range(_STEPS)
    for name, (label, colour) in _LOOKS.items():
        logs = np.log10(_curves(name))
        each: Sequence[Any] = [over_seeds(logs[:, k].tolist()) for k in back]
        axes.plot(back, [10.0**one.mean for one in each], color=colour, label=label)
        low = [10.0 ** (one.mean - one.half_width) for one in each]
        high = [10.0 ** (one.mean + one.half_width) for one in each]
        axes.fill_between(back, low, high, color=colour, alpha=0.2, linewidth=0)
    bound = [2.0 * 3.0 ** (-k / 2) for k in back]
    axes.plot(back, bound, color="grey", linestyle=":", label="÷ √3 a step")
    axes.set(yscale="log", xlabel="steps back", ylabel="gradient of the last output")
    axes.set(title="What reaches an input, untrained", ylim=(1e-20, 1e2))


GRADIENT_REACH = Experiment(
    "gradient-reach",
    "how much of a gradient reaches an input up to 59 steps back",
    "document 002, long-term dependencies, gates, attention; J. F. Kolen, S. C. Kremer (2001), "
    "chapter 14; S. Hochreiter, J. Schmidhuber (1997)",
    _run,
    _draw,
)
