"""What a token is in its place: one vector in the table, another state in each context.

    x_t = table[id_t]  whatever stands around it;  h_t = f(x_t, h_{t−1})  of all that stands before

A forward reader sees what came before, a backward one what comes after, both together all of it.
What was carried from one text into another is context too, wanted or not. Each is measured over ten
seeds of random weights: a token somewhere is changed, and the outputs elsewhere change or do not.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elman.cells.lstm import LSTMCell
from elman.config.model_settings import ModelSettings
from elman.data.streams import StreamBatches
from elman.data.token_array import TokenArray, reversed_chunks
from elman.kernels.dispatch import KernelPlan
from elman.layers.embedding import Embedding
from elman.layers.stack import RecurrentStack
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.lab.experiment import Experiment, Measured, Value
from elman.recipes.panels import draw_panels
from elman.seeding import generator
from elman.training.truncation import carry, reset

_PLAN = KernelPlan("reference")
_SEEDS = range(1, 11)
_WORDS = ("river", "bank", "account", "holiday")
_BANK = 1
_RIVER_BANK, _BANK_ACCOUNT, _BANK_HOLIDAY = (0, 1), (1, 2), (1, 3)
_TEXT = (0, 1, 2, 3, 4, 5)


def _run() -> Iterator[Measured]:
    """Yield the word in two contexts, both directions, the backward model, and the leak."""
    yield _bank()
    yield _both_ways()
    yield _backward()
    yield _leak()


def _bank() -> Measured:
    """Return the distances of *bank* from itself: in the table, and in the states."""
    in_table, apart, same_prefix, both = [], [], [], []
    for seed in _SEEDS:
        table, one_way, two_ways = _readers(seed)
        first, second = (_vector(table, words) for words in (_RIVER_BANK, _BANK_ACCOUNT))
        in_table.append(_distance(first, second))
        forward = [_state(table, one_way, text) for text in (_RIVER_BANK, _BANK_ACCOUNT)]
        apart.append(_distance(*forward))
        later = (_BANK_ACCOUNT, _BANK_HOLIDAY)
        same_prefix.append(_distance(*(_state(table, one_way, text) for text in later)))
        both.append(_distance(*(_state(table, two_ways, text) for text in later)))
    least = min(apart)
    how = (
        "*bank* in *river bank* and *bank account*: largest distance of its vectors, whether all "
        "states differ; in *bank account* and *bank holiday*: largest distance of a forward "
        f"reader's states, whether all of a reader both ways differ (least {least:.3f} and "
        f"{min(both):.3f}, ten seeds)"
    )
    value = [max(in_table), least > 1e-3, max(same_prefix), min(both) > 1e-3]
    return Measured("001-43", value, how, tuple(apart))


def _readers(seed: int) -> tuple[Embedding, RecurrentStack, RecurrentStack]:
    """Return a table of word vectors, a forward LSTM, and one that reads both ways."""
    draw = generator(seed, "initialisation")
    table = Embedding(8, 6).double()
    table.initialise(draw)
    one_way = RecurrentStack([LSTMCell(6, 5)]).double()
    two_ways = RecurrentStack([LSTMCell(6, 5), LSTMCell(6, 5)], num_directions=2).double()
    for stack in (one_way, two_ways):
        stack.initialise(draw)
    return table, one_way, two_ways


def _vector(table: Embedding, text: Sequence[int]) -> Tensor:
    vectors_BTE: Tensor = table(torch.tensor([text]))
    return vectors_BTE[0, text.index(_BANK)]


def _state(table: Embedding, stack: RecurrentStack, text: Sequence[int]) -> Tensor:
    return _states(table, stack, text)[text.index(_BANK)]


def _states(table: Embedding, stack: RecurrentStack, text: Sequence[int]) -> Tensor:
    with torch.no_grad():
        states_BTH: Tensor = stack(table(torch.tensor([text])), None, None, plan=_PLAN)[0]
    return states_BTH[0]


def _distance(one: Tensor, other: Tensor) -> float:
    return (one - other).abs().max().item()


def _both_ways() -> Measured:
    """Return how the first five outputs change with the sixth token: one way, both ways."""
    forward, both = list[float](), list[float]()
    for seed in _SEEDS:
        table, one_way, two_ways = _readers(seed)
        for stack, found in ((one_way, forward), (two_ways, both)):
            texts = ((*_TEXT[:-1], last) for last in (5, 6))
            before, after = (_states(table, stack, text)[:-1] for text in texts)
            found.append((before - after).abs().amax(dim=1).min().item())
    how = (
        "six tokens, the last one changed: least change of any earlier output, read forward and "
        f"whether all change that are read both ways (least {min(both):.1e}, ten seeds)"
    )
    return Measured("001-44", [max(forward), min(both) > 0.0], how, tuple(both))


def _backward() -> Measured:
    """Return what a model of a text turned round predicts, and what its prediction rests on."""
    turned = _turned(_TEXT)
    batch = StreamBatches(np.array(turned), batch_size=1, window=len(_TEXT)).batch(0, 0)
    later, earlier = [], []
    for seed in _SEEDS:
        settings = ModelSettings(kind="gru", embedding_size=4, hidden_size=5)
        model = RecurrentLanguageModel(settings, 8, generator(seed, "initialisation"))
        predict = _prediction(model, place=2)
        plain = predict(_TEXT)
        later.append(_distance(plain, predict((*_TEXT[:-1], 7))))
        earlier.append(_distance(plain, predict((7, *_TEXT[1:]))))
    how = (
        "0 … 5 read from the end: inputs and targets; the prediction of token 2 with token 5 "
        f"changed (all differ, least {min(later):.1e}, ten seeds) and with token 0 changed"
    )
    read, told = batch.ids_BT[0].tolist(), batch.targets_BT[0].tolist()
    value: list[Value] = [read, told, min(later) > 0.0, max(earlier)]
    return Measured("001-45", value, how, tuple(later))


def _turned(text: Sequence[int]) -> list[int]:
    """Return the text as a model with text.direction = "backward" reads it."""
    ids = TokenArray(np.array(text, dtype=np.int32))
    return [int(token) for piece in reversed_chunks(ids) for token in piece]


def _prediction(model: RecurrentLanguageModel, *, place: int) -> Callable[[Sequence[int]], Tensor]:
    """Return what gives the logits of the token at `place` of a text that is read from its end."""

    def predict(text: Sequence[int]) -> Tensor:
        after = _turned(text)[: len(text) - 1 - place]
        with torch.no_grad():
            output = model(torch.tensor([after]), plan=_PLAN)
            logits_V: Tensor = output.readout.logits(output.states_BTH)[0, -1]
        return logits_V

    return predict


def _leak() -> Measured:
    """Return how a request's logits change with the request before it: state carried, and reset."""
    carried, afresh = list[float](), list[float]()
    for seed in _SEEDS:
        settings = ModelSettings(kind="gru", embedding_size=4, hidden_size=5)
        model = RecurrentLanguageModel(settings, 8, generator(seed, "initialisation"))
        second = torch.tensor([[5, 6]])
        with torch.no_grad():
            befores = [model(torch.tensor([ids]), plan=_PLAN).state for ids in ([1, 2], [3, 4])]
            for border, found in ((carry, carried), (reset, afresh)):
                outputs = [model(second, border(state), plan=_PLAN) for state in befores]
                found.append(_distance(*(one.readout.logits(one.states_BTH) for one in outputs)))
    how = (
        "a request after one of two others: whether its logits tell which where the state is "
        f"carried (least distance {min(carried):.1e}, ten seeds), and after a reset"
    )
    return Measured("001-48", [min(carried) > 0.0, max(afresh)], how, tuple(carried))


def _draw(path: Path) -> None:
    """Draw which outputs change with which token, for three readers; and the word in contexts."""
    draw_panels(path, [_forward_map, _both_map, _cloud])


def _forward_map(axes: Any) -> None:
    table, one_way, _ = _readers(1)
    _map(axes, table, one_way)
    axes.set_title("read forward")


def _both_map(axes: Any) -> None:
    table, _, two_ways = _readers(1)
    _map(axes, table, two_ways)
    axes.set_title("read both ways")


def _map(axes: Any, table: Embedding, stack: RecurrentStack) -> None:
    """Draw the change of each output under a change of each token, on a log scale."""
    plain = _states(table, stack, _TEXT)
    rows = []
    for place in range(len(_TEXT)):
        text = (*_TEXT[:place], 7, *_TEXT[place + 1 :])
        rows.append((_states(table, stack, text) - plain).abs().amax(dim=1))
    changes_TT = torch.stack(rows).clamp(min=1e-4).log10()
    image = axes.imshow(changes_TT, cmap="Blues", vmin=-4.0, vmax=0.0, origin="lower")
    axes.figure.colorbar(image, ax=axes, label="log10 of the change", shrink=0.8)
    axes.set(xlabel="output", ylabel="token that is changed")


def _cloud(axes: Any) -> None:
    """Draw the states of *bank* in its contexts, by the two coordinates that differ most."""
    table, one_way, two_ways = _readers(1)
    texts = (_RIVER_BANK, _BANK_ACCOUNT, _BANK_HOLIDAY)
    for name, stack, mark in (("read forward", one_way, "o"), ("read both ways", two_ways, "s")):
        states_NH = torch.stack([_state(table, stack, text) for text in texts])
        first, second = states_NH.var(dim=0).topk(2).indices.tolist()
        axes.plot(states_NH[:, first], states_NH[:, second], mark, label=name)
        labels: dict[tuple[float, float], list[str]] = {}
        for text, state in zip(texts, states_NH.tolist(), strict=True):
            words = " ".join(_WORDS[token] for token in text)
            labels.setdefault((state[first], state[second]), []).append(words)
        for point, here in labels.items():
            axes.annotate("\n".join(here), point, (6, 0), textcoords="offset points", va="center")
    axes.margins(x=0.45, y=0.2)
    axes.set(xlabel="one coordinate of bank's state", ylabel="another")


CONTEXTS_OF_A_TOKEN = Experiment(
    "contexts-of-a-token",
    "one vector of a word and its many states; what each reader can see",
    "document 001, opening, 15.4, 15.6, 15.7",
    _run,
    _draw,
)
