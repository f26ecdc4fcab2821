"""Two ways to average a loss over batches that are not the loss of a token.

    printed = Σ_b mean_b / ⌊N / B⌋  while ⌈N / B⌉ batches were run
    mean of means = Σ_b mean_b / number of batches;  per token = Σ_b nats_b / Σ_b count_b

Measured on a model that says the same at every step, so that every loss is known exactly: a letter
a costs 1 bit, the stop mark 2, a letter b 3.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from elman.config.training_settings import TrainingSettings
from elman.data.lines import LineBatches
from elman.data.token_array import join_lines
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.instruments import letter_tokenizer, small_language_model
from elman.recipes.panels import draw_panels
from elman.seeding import generator
from elman.text.tokenizer import Tokenizer
from elman.training.language_objective import LanguageObjective

_ROWS, _BATCH = 3_203, 16
_PRINTED = 2.0611
_SIZES = ("model.kind=elman", "model.hidden_size=1", "model.embedding_size=1")


def _run() -> Iterator[Measured]:
    """Yield the batches that were run against the divisor, and the two means."""
    losses = _losses(["ab"] * _ROWS, _BATCH)
    means = [loss.mean().item() for loss in losses]
    divisor = _ROWS // _BATCH
    exact = sum(losses, LossSum.zero()).mean().item()
    share = sum(means) / divisor / exact
    yield Measured(
        "000-28",
        [len(losses), divisor, share, _PRINTED * share],
        f"{_ROWS:,} equal lines in batches of {_BATCH}: batches run, ⌊N / B⌋, the sum of batch "
        f"means over that divisor as a share of the loss of a token, and {_PRINTED} times it",
    )
    uneven = _losses(["aaa", "aaa", "b", "b"], 2)
    yield Measured(
        "000-29",
        [_mean_of_means(uneven), sum(uneven, LossSum.zero()).mean().item()],
        "the lines aaa, aaa, b, b in two full batches of two: mean of batch means, loss of a "
        "token, in nats",
    )


def _losses(lines: Sequence[str], batch_size: int) -> list[LossSum]:
    """Return the loss of each batch, as training has it."""
    tokenizer = letter_tokenizer("ab")
    assert tokenizer.vocabulary.boundary_id is not None
    assert tokenizer.vocabulary.pad_id is not None
    ids = {line: tokenizer.encode(line) for line in set(lines)}
    batches = LineBatches(
        join_lines([ids[line] for line in lines], len(tokenizer)),
        batch_size=batch_size,
        boundary_id=tokenizer.vocabulary.boundary_id,
        pad_id=tokenizer.vocabulary.pad_id,
        seed=1,
        order="stored",
    )
    objective = LanguageObjective(_constant_model(tokenizer), TrainingSettings())
    plan, draw = KernelPlan("reference"), generator(1, "dropout")
    with torch.no_grad():
        return [
            objective.loss(batches.batch(0, index), None, plan=plan, generator=draw).loss.plain
            for index in range(batches.batches_per_epoch(0))
        ]


def _constant_model(tokenizer: Tokenizer) -> RecurrentLanguageModel:
    """Return a model that gives a 1/2, the stop mark 1/4, b 1/8 and the rest 1/16 each."""
    model = small_language_model(len(tokenizer), 1, _SIZES)
    bits = {"a": 1.0, "b": 3.0, "[ S ]": 2.0}
    symbols = tokenizer.vocabulary.symbols
    with torch.no_grad():
        model.readout.weight.zero_()
        for place, symbol in enumerate(symbols):
            model.readout.bias[place] = -math.log(2.0) * bits.get(symbol, 4.0)
    return model


def _mean_of_means(losses: Sequence[LossSum]) -> float:
    return sum(loss.mean().item() for loss in losses) / len(losses)


def _draw(path: Path) -> None:
    """Draw how far each of the two is from the loss of a token."""
    draw_panels(path, [_divisors, _means])


def _divisors(axes: Any) -> None:
    rows = range(_BATCH, 12 * _BATCH + 1, 4)
    shares = []
    for number in rows:
        losses = _losses(["a"] * number, _BATCH)
        means = sum(loss.mean().item() for loss in losses)
        exact = sum(losses, LossSum.zero()).mean().item()
        shares.append(100.0 * (means / (number // _BATCH) / exact - 1.0))
    axes.plot(rows, shares, ".", markersize=4)
    axes.set(xlabel=f"lines, in batches of {_BATCH}", ylabel="too much, %")
    axes.set_title("⌊N / B⌋ as the divisor")


def _means(axes: Any) -> None:
    lengths = (1, 2, 3, 4, 6, 8, 12, 16, 20)
    both = [_losses(["a" * length] * 2 + ["b"] * 2, 2) for length in lengths]
    axes.plot(lengths, [_mean_of_means(losses) for losses in both], label="mean of batch means")
    exact = [sum(losses, LossSum.zero()).mean().item() for losses in both]
    axes.plot(lengths, exact, label="loss of a token")
    axes.set(xlabel="length of the lines in the other batch", ylabel="nats", ylim=(0, None))


BATCH_MEANS = Experiment(
    "batch-means",
    "averages over batches that are not the loss of a token",
    "document 000, Training choices and the cost of keeping history",
    _run,
    _draw,
)
