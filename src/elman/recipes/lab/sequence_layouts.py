"""What goes in and what comes out: the axes of an acceptor, a transducer, a generator and a stack.

    acceptor [B, T] → [B, C];  transducer [B, T] → [B, T, C];  generator [B, T] → [B, T, V]
    stack [B, T, E] → [B, T, directions · H], and one state [B, H] for each layer and direction

All sizes are those of tensors that models with small random weights hand out. Two texts of five
tokens are read throughout, each token a vector of width three.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from elman.cells.lstm import LSTMCell
from elman.config.model_settings import ModelSettings
from elman.data.examples import TagBatch
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import RecurrentStack, flat_state
from elman.losses import IGNORED, token_loss
from elman.models.classifier import SequenceClassifier
from elman.models.encoder_decoder import EncoderDecoder
from elman.models.recurrent import RecurrentLanguageModel
from elman.models.tagger import SequenceTagger
from elman.recipes.lab.experiment import Experiment, Measured, Value
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_BATCH, _STEPS, _WIDTH, _UNITS, _WORDS = 2, 5, 3, 4, 6
_SETTINGS = ModelSettings(kind="lstm", embedding_size=_WIDTH, hidden_size=_UNITS, character_units=0)
_PLAN = KernelPlan("reference")


def _run() -> Iterator[Measured]:
    """Yield the sizes of what each layout hands out."""
    ids_BT = torch.randint(_WORDS, (_BATCH, _STEPS), generator=generator(1, "sampling"))
    yield _accepted(ids_BT)
    yield from _tagged(ids_BT)
    yield from _generated(ids_BT)
    yield from _both_ways()


def _accepted(ids_BT: Tensor) -> Measured:
    """Return logits [B, C] beside hard targets [B], which one loss takes together."""
    model = SequenceClassifier(_SETTINGS, _WORDS, 3, generator(1, "initialisation"))
    logits_BC = model(ids_BT, torch.tensor([_STEPS, 2]), plan=_PLAN)
    targets_B = logits_BC.argmax(dim=1)
    nats_B = cross_entropy(logits_BC, targets_B, reduction="none")
    sizes = [_size(logits_BC), _size(targets_B), _size(nats_B)]
    return Measured("001-01", sizes, "a classifier of 3 classes: logits, targets, their losses")


def _tagged(ids_BT: Tensor) -> Iterator[Measured]:
    for claim, tags, how in (
        ("001-02", 2, "a tagger of 2 tags: logits, targets, and how many positions count"),
        ("001-06", 4, "a tagger of 4 tags"),
    ):
        model = SequenceTagger(_SETTINGS, _WORDS, 0, tags, generator(1, "initialisation"))
        tags_BT = ids_BT % tags
        batch = _sentences(ids_BT, torch.tensor([_STEPS, 3]), tags_BT)
        emissions_BTC = model(batch, plan=_PLAN)
        size: Value = _size(emissions_BTC)
        if claim == "001-02":
            size = [size, _size(tags_BT), batch.num_targets]
        yield Measured(claim, size, how)


def _sentences(ids_BT: Tensor, lengths_B: Tensor, tags_BT: Tensor) -> TagBatch:
    """Return sentences whose words are not spelled."""
    none = torch.zeros(0, 0, dtype=torch.int64)
    return TagBatch(ids_BT, lengths_B, ids_BT, none, none.flatten(), tags_BT)


def _generated(ids_BT: Tensor) -> Iterator[Measured]:
    """Yield the sizes along a language model: vectors, states, logits, the state of one time."""
    model = RecurrentLanguageModel(_SETTINGS, _WORDS, generator(1, "initialisation"))
    assert model.embedding is not None
    vectors_BTE = model.embedding(ids_BT)
    output = model(ids_BT, plan=_PLAN)
    logits_BTV = output.readout.logits(output.states_BTH)
    step = model(ids_BT[:, -1:], output.state, plan=_PLAN)
    logits_BV = step.readout.logits(step.states_BTH[:, 0])
    yield Measured(
        "001-03", [_size(logits_BTV), _size(logits_BV)], "all steps at once, and one step more"
    )
    yield Measured("001-05", _size(vectors_BTE), "the embedding of two texts of five tokens")
    yield Measured("001-07", _size(logits_BTV), "a language model of six tokens")
    targets_BT = ids_BT.roll(-1, dims=1)
    targets_BT[:, -1] = IGNORED
    loss = token_loss(output.states_BTH, output.readout, targets_BT)
    flat_NV, flat_N = logits_BTV.flatten(0, 1), targets_BT.flatten()
    flat = cross_entropy(flat_NV.double(), flat_N, reduction="sum", ignore_index=IGNORED)
    is_same = abs(loss.nats.item() - flat.item()) < 1e-5
    arrays = (vectors_BTE, output.states_BTH, logits_BTV, output.state[0][0], flat_NV, flat_N)
    yield Measured(
        "001-40",
        [*(_size(array) for array in arrays), loss.count, is_same],
        "vectors, states, logits, the state after the last step, what the loss sees, how many of "
        "it count (the last step of each row does not), and whether flat or not is the same loss",
    )


def _both_ways() -> Iterator[Measured]:
    """Yield the sizes of two layers in two directions, and of their final states."""
    widths = (_WIDTH, _WIDTH, 2 * _UNITS, 2 * _UNITS)
    stack = RecurrentStack([LSTMCell(width, _UNITS) for width in widths], num_directions=2)
    stack.initialise(generator(1, "initialisation"))
    x_BTE = torch.randn(_BATCH, _STEPS, _WIDTH, generator=generator(1, "sampling"))
    states_BTH, state = stack(x_BTE, None, None, plan=_PLAN)
    yield Measured("001-26", _size(states_BTH), "two layers of LSTMs of four units, both ways")
    h_KBH, c_KBH = flat_state(state)
    yield Measured(
        "001-27", [_size(h_KBH), _size(c_KBH)], "the final h and c of the same, as torch stacks it"
    )


def _draw(path: Path) -> None:
    """Draw which outputs of each layout change when one of six input tokens does."""
    draw_panels(path, [_acceptor_map, _transducer_map, _generator_map, _translator_map])


def _acceptor_map(axes: Any) -> None:
    model = SequenceClassifier(_SETTINGS, _WORDS, 3, generator(1, "initialisation"))
    _map(axes, lambda ids_BT: model(ids_BT, _whole(ids_BT), plan=_PLAN), "acceptor")


def _transducer_map(axes: Any) -> None:
    settings = replace(_SETTINGS, bidirectional=True)
    model = SequenceTagger(settings, _WORDS, 0, 4, generator(1, "initialisation"))

    def tagged(ids_BT: Tensor) -> Tensor:
        emissions_BTC: Tensor = model(_sentences(ids_BT, _whole(ids_BT), ids_BT), plan=_PLAN)
        return emissions_BTC[0]

    _map(axes, tagged, "transducer, read both ways")


def _generator_map(axes: Any) -> None:
    model = RecurrentLanguageModel(_SETTINGS, _WORDS, generator(1, "initialisation"))
    _map(axes, lambda ids_BT: model(ids_BT, plan=_PLAN).states_BTH[0], "generator")


def _translator_map(axes: Any) -> None:
    """Draw a source of six tokens against a known target of three and the mark before it."""
    settings = replace(_SETTINGS, context="state")
    model = EncoderDecoder(settings, _WORDS, _WORDS, generator(1, "initialisation"))
    inputs_BT = torch.tensor([[0, 1, 2, 3]])

    def answered(ids_BT: Tensor) -> Tensor:
        features_BTF: Tensor = model(ids_BT, _whole(ids_BT), inputs_BT, plan=_PLAN).features_BTF
        return features_BTF[0]

    _map(axes, answered, "encoder and decoder")


def _map(axes: Any, outputs: Callable[[Tensor], Tensor], title: str) -> None:
    """Draw the change of each output, on a log scale, when a token of 0 … 5 becomes another."""
    ids_BT = torch.arange(_WORDS).unsqueeze(0)
    rows = []
    with torch.no_grad():
        plain = outputs(ids_BT)
        for place in range(_WORDS):
            changed_BT = ids_BT.clone()
            changed_BT[0, place] = (place + 3) % _WORDS
            rows.append((outputs(changed_BT) - plain).abs().amax(dim=1))
    changes = torch.stack(rows).clamp(min=1e-5).log10()
    image = axes.imshow(changes, cmap="Blues", vmin=-5.0, vmax=0.0, origin="lower")
    axes.figure.colorbar(image, ax=axes, label="log10 of the change", shrink=0.8)
    axes.set(title=title, xlabel="output", ylabel="input token that is changed")
    axes.set(xticks=range(changes.shape[1]), yticks=range(_WORDS))


def _whole(ids_BT: Tensor) -> Tensor:
    return torch.full((len(ids_BT),), ids_BT.shape[1])


def _size(array: Tensor) -> Sequence[int]:
    return list(array.shape)


SEQUENCE_LAYOUTS = Experiment(
    "sequence-layouts",
    "the axes of what goes into a model and of what comes out",
    "document 001, 15.1, 15.4, 15.6",
    _run,
    _draw,
)
