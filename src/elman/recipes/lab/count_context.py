"""What counts can see: n − 1 tokens, however they are smoothed.

    P(w | h) = P(w | the last n − 1 tokens of h)

A trigram has the same distribution whatever stands further back, and a recurrent model has not.
Smoothing gives what was never counted a probability, and looks no further. Over real texts a larger
n finds the history that it wants less often; which n is best, held-out text says.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from elman.config.model_settings import ModelSettings
from elman.config.text_settings import TextSettings
from elman.data.corpora import language_reference, unicode_names
from elman.kernels.dispatch import KernelPlan
from elman.models.language import LanguageModel
from elman.models.ngram.counting import count_grams, joined
from elman.models.ngram.smoothing import Smoothing, SmoothingOptions, estimate
from elman.models.ngram_model import NgramLanguageModel
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels
from elman.seeding import generator
from elman.text.building import learn_and_encode

_SENTENCES = (
    "the cat slept and the cat sat",
    "a cat slept and",
    "the dog sat",
    "the cat slept sat",
    "a dog slept and a cat sat",
)
_METHODS: tuple[Smoothing, ...] = (
    "kneser_ney",
    "kneser_ney_backoff",
    "absolute",
    "witten_bell",
    "add_k",
)
_CHARACTERS, _ORDERS = 200_000, range(1, 13)


def _run() -> Iterator[Measured]:
    """Yield that a trigram is blind to *the*, smoothed or not."""
    numbers = _numbers()
    plain = _counted("none", numbers, order=3)
    pair = ["the cat slept", "a cat slept"]
    trigram = _apart(plain, pair, numbers)
    fourgram = _apart(_counted("none", numbers, order=4), pair, numbers)
    settings = ModelSettings(kind="elman", embedding_size=4, hidden_size=4)
    recurrent = RecurrentLanguageModel(settings, len(numbers), generator(1, "initialisation"))
    how = "after *the cat slept* and *a cat slept*: the largest difference of a trigram's "
    how += "probabilities; whether those of four-grams and of a recurrent model differ"
    value = [trigram, fourgram > 0.0, _apart(recurrent, pair, numbers) > 0.0]
    yield Measured("001-08", value, how)
    unseen = ["the sat slept", "a sat slept"]
    least, blind = [], []
    for method in _METHODS:
        model = _counted(method, numbers, order=3)
        texts = [*pair, *unseen, "sat sat", "and dog"]
        least.append(min(_probabilities(model, text, numbers).min().item() for text in texts))
        blind.append(max(_apart(model, two, numbers) for two in (pair, unseen)))
    zero = _probabilities(plain, "the cat slept", numbers).min().item()
    how = (
        "the least probability after seen and unseen histories: 0 of counts, above 0 of all of "
        f"{len(_METHODS)} smoothing methods (least {min(least):.4f}); the largest difference of "
        "their probabilities between histories that agree in the last two words"
    )
    yield Measured("001-09", [zero, min(least) > 0.0, max(blind)], how)


def _numbers() -> dict[str, int]:
    words = sorted({word for sentence in _SENTENCES for word in sentence.split()})
    return {word: number for number, word in enumerate(words)}


def _counted(method: Smoothing, numbers: dict[str, int], *, order: int) -> NgramLanguageModel:
    """Return the counts of the sentences, smoothed by `method`."""
    texts = [np.array([numbers[word] for word in text.split()]) for text in _SENTENCES]
    grams = count_grams(joined(texts, len(numbers)), order=order, vocabulary_size=len(numbers))
    tables = estimate(grams, len(numbers), SmoothingOptions(method)).tables
    return NgramLanguageModel(ModelSettings(kind="ngram", order=order, smoothing=method), tables)


def _probabilities(model: LanguageModel, text: str, numbers: dict[str, int]) -> Tensor:
    """Return p of every word after `text`."""
    ids_BT = torch.tensor([[numbers[word] for word in text.split()]])
    with torch.no_grad():
        output = model(ids_BT, plan=KernelPlan("reference"))
        logits_V: Tensor = output.readout.logits(output.states_BTH)[0, -1]
    return logits_V.softmax(dim=0)


def _apart(model: LanguageModel, texts: Sequence[str], numbers: dict[str, int]) -> float:
    one, other = (_probabilities(model, text, numbers) for text in texts)
    return (one - other).abs().max().item()


class _Curve(NamedTuple):
    """Of each order: nats per held-out token, and for what share the whole history is known."""

    name: str
    nats: tuple[float, ...]
    known: tuple[float, ...]


def _run_orders() -> Iterator[Measured]:
    """Yield over two texts how often histories are known, and which order is best."""
    holds, told = [], []
    for curve in _curves():
        known, nats = curve.known[1:], curve.nats
        falls = all(one > other for one, other in pairwise(known))
        best = int(np.argmin(nats)) + 1
        holds.append(falls and 1 < best < len(nats))
        told.append(
            f"{curve.name}: best n = {best}, {nats[best - 1]:.3f} nats (n = 1: {nats[0]:.3f}, "
            f"n = {len(nats)}: {nats[-1]:.3f}), histories known {known[0]:.3f} to {known[-1]:.3f}"
        )
    how = "Witten–Bell counts of nine tenths, held out a tenth; known histories fall with every n, "
    how += f"and the best n is neither the first nor the last. {'; '.join(told)}"
    yield Measured("001-10", all(holds), how, tuple(holds))


def _curves() -> Iterator[_Curve]:
    """Yield the curves of two texts of two hundred thousand characters, each as characters."""
    names = "\n".join(unicode_names())
    for name, text in (("reference", language_reference()), ("Unicode names", names)):
        tokenizer, pieces = learn_and_encode([text[:_CHARACTERS]], TextSettings(level="char"))
        ids_N, size = np.concatenate(pieces), len(tokenizer.vocabulary)
        cut = len(ids_N) * 9 // 10
        grams = count_grams(joined([ids_N[:cut]], size), order=_ORDERS[-1], vocabulary_size=size)
        held_out = joined([ids_N[cut:]], size)
        nats, known = [], []
        for order in _ORDERS:
            tables = estimate(grams[:order], size, SmoothingOptions("witten_bell")).tables
            nats.append(float(-tables.log_probs(held_out).mean()))
            known.append(tables.share_of_known_histories(held_out))
        yield _Curve(name, tuple(nats), tuple(known))


def _draw(path: Path) -> None:
    """Draw the next word after four histories under a trigram and a recurrent model."""
    draw_panels(path, [_trigram_bars, _recurrent_bars])


def _trigram_bars(axes: Any) -> None:
    numbers = _numbers()
    _bars(axes, _counted("kneser_ney", numbers, order=3), "trigram, smoothed", numbers)


def _recurrent_bars(axes: Any) -> None:
    numbers = _numbers()
    settings = ModelSettings(kind="elman", embedding_size=4, hidden_size=4)
    model = RecurrentLanguageModel(settings, len(numbers), generator(1, "initialisation"))
    _bars(axes, model, "recurrent, untrained", numbers)


def _bars(axes: Any, model: LanguageModel, title: str, numbers: dict[str, int]) -> None:
    for place, text in enumerate(("the cat slept", "a cat slept")):
        probs_V = _probabilities(model, text, numbers)
        places = [number + 0.4 * place - 0.2 for number in range(len(numbers))]
        axes.bar(places, probs_V, width=0.38, label=f"after {text}")
    axes.set_xticks(range(len(numbers)), list(numbers))
    axes.set(title=title, ylabel="probability of the next word", ylim=(0.0, 0.7))


def _draw_orders(path: Path) -> None:
    """Draw held-out loss and known histories over n."""
    curves = list(_curves())

    def losses(axes: Any) -> None:
        for curve in curves:
            axes.plot(_ORDERS, curve.nats, "o-", label=curve.name)
        axes.set(xlabel="n", ylabel="nats per held-out character")

    def shares(axes: Any) -> None:
        for curve in curves:
            axes.plot(_ORDERS[1:], curve.known[1:], "o-", label=curve.name)
        axes.set(xlabel="n", ylabel="share of histories of n − 1 that were seen", ylim=(0.0, 1.05))

    draw_panels(path, [losses, shares])


COUNT_CONTEXT = Experiment(
    "count-context",
    "a trigram does not see the third word back, smoothed or not",
    "document 001, 15.1, checkpoint",
    _run,
    _draw,
)

COUNT_ORDERS = Experiment(
    "count-orders",
    "a larger n sees more and has seen it more rarely",
    "document 001, 15.1",
    _run_orders,
    _draw_orders,
)
