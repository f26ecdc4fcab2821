"""An encoder hands its decoder one fixed summary: how wide, for how many answers, at what loss.

    s_0 = bridge(final state of the encoder);  log p(y) = Σ_t log p(y_t | s_t),  s_t from s_{t−1}

A state of the decoder's own width passes as it is, any other needs a projection, and an LSTM needs
both of its parts. What does not fit into the summary is lost: copying a source of random symbols
through sixteen numbers fails as it grows, and does not where every position can be looked at.
"""

import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell
from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.data.examples import PairBatch
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.layers.context import StateBridge
from elman.layers.stack import RecurrentStack
from elman.losses import token_loss
from elman.models.encoder_decoder import EncoderDecoder, shifted
from elman.recipes.lab.experiment import Experiment, Measured, Value
from elman.recipes.lab.over_seeds import over_seeds
from elman.recipes.panels import draw_panels
from elman.seeding import generator
from elman.training.loop import Trainer
from elman.training.translation_objective import TranslationObjective

_SEEDS = range(1, 11)
_SYMBOLS, _BOUNDARY, _UNITS = 8, 0, 16
_LENGTHS = (2, 4, 8, 12)
_UPDATES, _ROWS = 400, 32
_Sight = Literal["none", "additive"]


def _run() -> Iterator[Measured]:
    """Yield what passes between widths, and how many answers a target asks for."""
    yield _widths()
    yield _answers()


def _widths() -> Measured:
    """Return what a bridge does from four units to four, to six, and of an LSTM."""
    four, six = (RecurrentStack([GRUCell(3, units)]) for units in (4, 6))
    for stack in (four, six):
        stack.initialise(generator(1, "initialisation"))
    x_BTE = torch.randn(2, 3, 3, generator=generator(1, "sampling"))
    _, final = four(x_BTE, None, None, plan=KernelPlan("reference"))
    copy = StateBridge(four, four, "copy")
    is_same = torch.equal(copy(final, four)[0][0], final[0][0])
    try:
        StateBridge(four, six, "copy")
        refused = False
    except SettingError:
        refused = True
    projection = StateBridge(four, six, "projection")
    weights = [list(weight.shape) for weight in projection.weight]
    made = list(projection(final, six)[0][0].shape)
    memory = RecurrentStack([LSTMCell(3, 4)])
    parts = len(StateBridge(memory, memory, "copy")(memory.zero_state(2), memory)[0])
    numbers = sum(weight.numel() for weight in copy.weight)
    value: list[Value] = [is_same, numbers, refused, weights, made, parts]
    how = (
        "four units to four: whether the state passes unchanged, and the bridge's weights; four to "
        "six: whether copying is refused, the projection, what it makes; the parts of an LSTM's"
    )
    return Measured("001-41", value, how)


def _answers() -> Measured:
    """Return the inputs and answers of two target tokens, how many count, what moves them."""
    settings = ModelSettings(kind="gru", embedding_size=4, hidden_size=4, context="state")
    model = EncoderDecoder(settings, 9, 9, generator(1, "initialisation"))
    plan = KernelPlan("reference")
    inputs_BT, answers_BT = shifted(torch.tensor([[5, 6]]), torch.tensor([2]), _BOUNDARY)
    told, logits = [], []
    for source in ([1, 2, 3], [4, 2, 3]):
        output = model(torch.tensor([source]), torch.tensor([3]), inputs_BT, plan=plan)
        told.append(token_loss(output.features_BTF, output.readout, answers_BT).count)
        logits.append(output.readout.logits(output.features_BTF)[0])
    moved = bool(((logits[0] - logits[1]).abs().amax(dim=1) > 0.0).all())
    read, asked = inputs_BT[0].tolist(), answers_BT[0].tolist()
    value: list[Value] = [read, asked, told[0], moved]
    how = (
        "a target 5, 6 with the mark 0 at both ends: what is read, what is answered, how many "
        "predictions are counted, whether all change with the first of three source tokens"
    )
    return Measured("001-42", value, how)


class _Copies:
    """Batches of random sources that are to be copied, all of one length in a batch."""

    num_targets = _ROWS * _UPDATES
    num_sequences = _ROWS * _UPDATES

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def batches_per_epoch(self, epoch: int) -> int:
        """Return the batches of a run."""
        return _UPDATES

    def batch(self, epoch: int, index: int) -> PairBatch:
        """Return one batch, of 1 to the longest of `_LENGTHS` symbols."""
        draw = generator(self._seed * 1_000_003 + index, "sampling")
        length = int(torch.randint(1, _LENGTHS[-1] + 1, (1,), generator=draw))
        return _pairs(length, _ROWS, draw)


def _pairs(length: int, rows: int, draw: torch.Generator) -> PairBatch:
    ids_BT = torch.randint(1, _SYMBOLS + 1, (rows, length), generator=draw)
    lengths_B = torch.full((rows,), length)
    return PairBatch(ids_BT, lengths_B, ids_BT, lengths_B)


def _trained(sight: _Sight, seed: int) -> EncoderDecoder:
    """Return a model trained to copy, with a fixed summary ("none") or attention."""
    context: Literal["state", "output"] = "state" if sight == "none" else "output"
    settings = ModelSettings(
        kind="gru", embedding_size=8, hidden_size=_UNITS, attention=sight, context=context
    )
    size = _SYMBOLS + 1
    model = EncoderDecoder(settings, size, size, generator(seed, "initialisation"))
    training = TrainingSettings(optimizer="adam", learning_rate=1e-2, seed=seed)
    objective = TranslationObjective(model, training, boundary_id=_BOUNDARY)
    trainer = Trainer(objective, _Copies(seed), training, KernelPlan(), total_updates=_UPDATES)
    for _ in range(_UPDATES):
        trainer.step()
    return model


def _recovered(model: EncoderDecoder, length: int) -> float:
    """Return the share of source symbols that 200 copies get right, the earlier ones given."""
    batch = _pairs(length, 200, generator(length, "split"))
    inputs_BT, _ = shifted(batch.target_BT, batch.target_lengths_B, _BOUNDARY)
    with torch.no_grad():
        output = model(batch.source_BS, batch.source_lengths_B, inputs_BT, plan=KernelPlan())
        guesses_BT: Tensor = output.readout.logits(output.features_BTF)[:, :length].argmax(dim=2)
    return (guesses_BT == batch.target_BT).double().mean().item()


def _run_bottleneck() -> Iterator[Measured]:
    """Yield by how much attention beats the fixed summary at the longest sources."""
    gains, shares = [], []
    for seed in _SEEDS:
        fixed, seeing = (_trained(sight, seed) for sight in ("none", "additive"))
        shares.append([_recovered(fixed, length) for length in _LENGTHS])
        gains.append(_recovered(seeing, _LENGTHS[-1]) - shares[-1][-1])
    means = [statistics.fmean(column) for column in zip(*shares, strict=True)]
    low, high = over_seeds(gains).ends
    how = (
        f"copies of {_LENGTHS[-1]} random symbols after {_UPDATES} updates: the share got right "
        f"with attention less that through a summary of {_UNITS} numbers, the lower end of the 95 "
        f"% interval [{low:.3f}, {high:.3f}] of the mean of ten seeds; through the summary "
        + ", ".join(f"{m:.3f} at {n}" for m, n in zip(means, _LENGTHS, strict=True))
    )
    yield Measured("001-49", low, how, tuple(gains))


def _draw_bottleneck(path: Path) -> None:
    """Draw the share of symbols recovered over the length of the source, for three seeds."""
    draw_panels(path, [_recovery])


def _recovery(axes: Any) -> None:
    lines: tuple[tuple[_Sight, str, str], ...] = (
        ("none", "one fixed summary", "tab:orange"),
        ("additive", "attention", "tab:blue"),
    )
    for sight, label, colour in lines:
        for seed in (1, 2, 3):
            shares = list(map(partial(_recovered, _trained(sight, seed)), _LENGTHS))
            name = label if seed == 1 else None
            axes.plot(_LENGTHS, shares, "o-", color=colour, alpha=0.7, label=name)
    axes.axhline(1 / _SYMBOLS, linestyle=":", color="grey", label="chance")
    axes.set(xlabel="symbols in the source", ylabel="share copied right", ylim=(0.0, 1.02))


SOURCE_SUMMARY = Experiment(
    "source-summary",
    "from an encoder's state to a decoder's, and the answers that it gives",
    "document 001, 15.7",
    _run,
)

SUMMARY_BOTTLENECK = Experiment(
    "summary-bottleneck",
    "what a fixed summary loses of a source as it grows",
    "document 001, 15.7",
    _run_bottleneck,
    _draw_bottleneck,
    "minutes",
)
