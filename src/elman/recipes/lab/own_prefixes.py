"""What a model reads when it writes: prefixes of its own, of a kind that training has seldom shown.

    training reads  x_1 … x_t  of the data;  generation reads  y_1 … y_t,  y_t drawn from the model

A small model of characters is trained on names by their recorded letters. Of each stretch of five
letters that it then reads, in names held out and in names of its own, one asks whether the names
that it was trained on have it anywhere.
"""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.data.batches import TokenBatch
from elman.data.corpora import unicode_names
from elman.decoding.filters import SamplingSettings
from elman.decoding.sampling import draw
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.over_seeds import over_seeds
from elman.recipes.panels import draw_panels
from elman.seeding import generator
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer

_SEEDS = range(1, 11)
_BOUNDARY, _SPAN, _LONGEST = 0, 5, 30
_LEARNT, _HELD_OUT, _UPDATES, _ROWS = 2000, 300, 250, 32


class _Names(NamedTuple):
    """Ids of the names to learn from and held out, and every stretch that the first have."""

    learnt: tuple[tuple[int, ...], ...]
    held_out: tuple[tuple[int, ...], ...]
    size: int
    known: frozenset[tuple[int, ...]]


def _names() -> _Names:
    texts = unicode_names()[: _LEARNT + _HELD_OUT]
    numbers = {letter: place for place, letter in enumerate(sorted(set("".join(texts))), 1)}
    ids = tuple(tuple(numbers[letter] for letter in text[:_LONGEST]) for text in texts)
    learnt, held_out = ids[:_LEARNT], ids[_LEARNT:]
    return _Names(
        learnt,
        held_out,
        len(numbers) + 1,
        frozenset(span for one in learnt for span in _spans(one)),
    )


def _spans(ids: Sequence[int]) -> list[tuple[int, ...]]:
    """Return every stretch of `_SPAN` ids, the start mark before the first included."""
    marked = (_BOUNDARY, *ids)
    return [tuple(marked[end - _SPAN : end]) for end in range(_SPAN, len(marked) + 1)]


class _Lines:
    """Batches of names that are drawn anew for every update."""

    num_targets = _ROWS * _UPDATES
    num_sequences = _LEARNT

    def __init__(self, names: _Names, seed: int) -> None:
        self._names, self._seed = names, seed

    def batches_per_epoch(self, epoch: int) -> int:
        """Return the batches of a run."""
        return _UPDATES

    def batch(self, epoch: int, index: int) -> TokenBatch:
        """Return one batch: [S] x1 … xn read, x1 … xn [S] to be predicted."""
        order = generator(self._seed * 1_000_003 + index, "order")
        rows = torch.randint(_LEARNT, (_ROWS,), generator=order).tolist()
        lines = [self._names.learnt[row] for row in rows]
        ids_BT = torch.zeros(_ROWS, max(map(len, lines)) + 1, dtype=torch.int64)
        targets_BT = torch.zeros_like(ids_BT)  # the mark has the id 0, and so has padding
        for row, line in enumerate(lines):
            ids_BT[row, 1 : len(line) + 1] = targets_BT[row, : len(line)] = torch.tensor(line)
        lengths_B = torch.tensor([len(line) + 1 for line in lines])
        return TokenBatch(ids_BT, targets_BT, lengths_B, continues=False)


def _trained(names: _Names, seed: int) -> RecurrentLanguageModel:
    settings = ModelSettings(kind="gru", embedding_size=16, hidden_size=48)
    model = RecurrentLanguageModel(settings, names.size, generator(seed, "initialisation"))
    training = TrainingSettings(optimizer="adam", learning_rate=1e-2, seed=seed)
    objective = LanguageObjective(model, training)
    source = _Lines(names, seed)
    trainer = Trainer(objective, source, training, KernelPlan(), total_updates=_UPDATES)
    for _ in range(_UPDATES):
        trainer.step()
    return model


def _written(model: RecurrentLanguageModel, seed: int) -> list[tuple[int, ...]]:
    """Return names drawn from the model, as many as are held out, row by row side by side."""
    ids_BT = torch.full((_HELD_OUT, 1), _BOUNDARY)
    state, read_B1 = None, ids_BT
    with torch.no_grad():
        for step in range(_LONGEST):
            output = model(read_B1, state, plan=KernelPlan())
            state = output.state
            logits_BV: Tensor = output.readout.logits(output.states_BTH[:, 0])
            chosen = [
                draw(logits_V, SamplingSettings(seed=seed * 1_000 + row), step)
                for row, logits_V in enumerate(logits_BV)
            ]
            read_B1 = torch.tensor(chosen).unsqueeze(1)
            ids_BT = torch.cat((ids_BT, read_B1), dim=1)
    rows = [row[1:] for row in ids_BT.tolist()]
    return [tuple(row[: row.index(_BOUNDARY)] if _BOUNDARY in row else row) for row in rows]


def _unseen(lines: Sequence[Sequence[int]], names: _Names) -> float:
    """Return the share of stretches that no name to learn from has."""
    spans = [span for line in lines for span in _spans(line)]
    return sum(span not in names.known for span in spans) / len(spans)


def _run() -> Iterator[Measured]:
    """Yield how much oftener a model reads what training has not shown when it reads its own."""
    names = _names()
    given = _unseen(names.held_out, names)
    own = [_unseen(_written(_trained(names, seed), seed), names) for seed in _SEEDS]
    gains = [share - given for share in own]
    low, high = over_seeds(gains).ends
    how = (
        f"the share of stretches of {_SPAN} letters that {_LEARNT} names do not have: "
        f"{statistics.fmean(own):.3f} of a model's own names, {given:.3f} of names held out; the "
        f"lower end of the 95 % interval [{low:.3f}, {high:.3f}] of the mean difference, ten seeds"
    )
    yield Measured("001-47", low, how, tuple(gains))


def _draw(path: Path) -> None:
    """Draw the share of stretches never seen over the place in the name."""
    draw_panels(path, [_by_place])


def _by_place(axes: Any) -> None:
    names = _names()
    own = _written(_trained(names, 1), 1)
    for label, lines in (("names held out", names.held_out), ("the model's own", own)):
        by_place = [
            [spans[place] not in names.known for spans in map(_spans, lines) if len(spans) > place]
            for place in range(20)
        ]
        shares = [sum(column) / max(len(column), 1) for column in by_place]
        axes.plot(range(_SPAN - 1, 20 + _SPAN - 1), shares, "o-", label=label)
    axes.set(xlabel="letters read", ylabel="share of last five never seen", ylim=(0.0, None))


OWN_PREFIXES = Experiment(
    "own-prefixes",
    "a model that reads what it wrote reads what training seldom showed",
    "document 001, 15.5",
    _run,
    _draw,
    "minutes",
)
