"""How many facts a state of 32 numbers tells of, beside attention, which keeps each apart.

    R²_k = 1 − min_w E (w · h − b_k)² / E b_k²,   Σ_k R²_k ≤ H

A cell with an orthogonal recurrent matrix reads m random bits b_k, then each is read out of its
last state h by the best linear function, fitted on other sequences. The bound is that of H. Jaeger,
GMD report 152 (2001), proposition 2. Attention is asked for bit k by the code of its place.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elman.cells.elman import ElmanCell
from elman.kernels.dispatch import KernelPlan
from elman.layers.attention import DotAttention
from elman.layers.embedding import one_hot_inputs
from elman.layers.recurrence import recur
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.over_seeds import over_seeds
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_UNITS = 32
_FACTS = (16, 32, 48, 64, 96)
_SEEDS = tuple(range(1, 11))
_NUM_FITTED, _NUM_ASKED = 400, 200
_INPUT_SCALE = 0.1
"""Bits come in so small that tanh is nearly straight, which keeps most."""
_SHARPNESS = 20.0
"""Length of the query: exp(20) to 1 between the place asked for and any other."""


class _Recall(NamedTuple):
    """The share of bits told right, and the sum of R² over all of them."""

    share: float
    capacity: float


def _run() -> Iterator[Measured]:
    """Yield whether recall falls beyond 32, stays in its bound, and is whole with attention."""
    recalls = [[_of_state(num_facts, seed) for num_facts in _FACTS] for seed in _SEEDS]
    shares = [over_seeds([row[k].share for row in recalls]) for k in range(len(_FACTS))]
    falls = all(
        later.mean + later.half_width < one.mean - one.half_width
        for one, later in pairwise(shares[1:])
    )
    capacities = [recall.capacity for row in recalls for recall in row]
    attended = min(_of_attention(num_facts, seed) for num_facts in _FACTS for seed in _SEEDS)
    told = ", ".join(
        f"{share.told()} of {facts}" for facts, share in zip(_FACTS, shares, strict=True)
    )
    told = f"recalled from {_UNITS} units: {told}; most Σ R² {max(capacities):.1f}; attention "
    holds = [falls, max(capacities) <= _UNITS, attended == 1.0]
    by_seed = tuple(tuple(recall.share for recall in row) for row in recalls)
    yield Measured("002-46", all(holds), f"{told}{attended:g}", by_seed)


def _bits(num_rows: int, num_facts: int, draw: torch.Generator) -> Tensor:
    """Return bits_BT of −1 and 1, in float64."""
    return torch.randint(0, 2, (num_rows, num_facts), generator=draw).double() * 2.0 - 1.0


def _of_state(num_facts: int, seed: int) -> _Recall:
    """Return what the state after all bits tells of each."""
    cell = ElmanCell(1, _UNITS, bias="none").double()
    cell.initialise(generator(seed, "initialisation"), "orthogonal")
    draw = generator(seed, "sampling")
    bits_BT = _bits(_NUM_FITTED + _NUM_ASKED, num_facts, draw)
    with torch.no_grad():
        read_BT1 = bits_BT.unsqueeze(2) * _INPUT_SCALE
        _, after = recur(cell, read_BT1, None, None, plan=KernelPlan("reference"))
    fitted, asked = slice(_NUM_FITTED), slice(_NUM_FITTED, None)
    weight_HT = torch.linalg.lstsq(after[0][fitted], bits_BT[fitted]).solution
    answers_BT = after[0][asked] @ weight_HT
    share = ((answers_BT > 0.0) == (bits_BT[asked] > 0.0)).double().mean().item()
    errors_T = (answers_BT - bits_BT[asked]).square().mean(dim=0)
    return _Recall(share, (1.0 - errors_T).clamp(min=0.0).sum().item())


def _of_attention(num_facts: int, seed: int) -> float:
    """Return the share of bits told right by attention to (place, bit), asked by the place."""
    bits_BT = _bits(10, num_facts, generator(seed, "sampling"))
    places_BTS = one_hot_inputs(
        torch.arange(num_facts).expand(len(bits_BT), -1), num_facts, torch.float64
    )
    keys_BTK = torch.cat((places_BTS, bits_BT.unsqueeze(2)), dim=2)
    silent_BT1 = torch.zeros_like(bits_BT).unsqueeze(2)
    queries_BTK = torch.cat((places_BTS * _SHARPNESS, silent_BT1), dim=2)
    attention = DotAttention(num_facts + 1, num_facts + 1)
    memory = attention.prepare(keys_BTK, torch.ones_like(bits_BT, dtype=torch.bool))
    answers_BT = attention.attend(queries_BTK, memory).context_BTC[:, :, -1]
    return ((answers_BT > 0.0) == (bits_BT > 0.0)).double().mean().item()


def _draw(path: Path) -> None:
    """Draw the share recalled against the number of facts, beside attention."""
    draw_panels(path, [_shares])


def _shares(axes: Any) -> None:
    shares: Sequence[Any] = [
        over_seeds([_of_state(facts, seed).share for seed in _SEEDS]) for facts in _FACTS
    ]
    means, halves = [one.mean for one in shares], [one.half_width for one in shares]
    axes.errorbar(_FACTS, means, yerr=halves, marker="o", capsize=3, label="state of 32 numbers")
    attended = [_of_attention(facts, 1) for facts in _FACTS]
    axes.plot(_FACTS, attended, marker="s", color="tab:red", label="attention")
    axes.axhline(0.5, color="grey", linestyle=":", label="guessing")
    axes.axvline(_UNITS, color="grey", linewidth=0.5, label=f"{_UNITS} facts")
    axes.set(xlabel="facts read", ylabel="share recalled", ylim=(0.45, 1.03))
    axes.set_title("More facts, the same 32 numbers")
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.24, 0.14))


FACTS_IN_STATE = Experiment(
    "facts-in-state",
    "how many facts 32 numbers hold, beside attention",
    "document 002, limits of recurrence; H. Jaeger, GMD report 152 (2001)",
    _run,
    _draw,
)
