"""What goes in and what comes out: the axes of an acceptor, a transducer, a generator and a stack.

    acceptor [B, T] → [B, C];  transducer [B, T] → [B, T, C];  generator [B, T] → [B, T, V]
    stack [B, T, E] → [B, T, directions · H], and one state [B, H] for each layer and direction

All sizes are those of tensors that models with small random weights hand out. Two texts of five
tokens are read throughout, each token a vector of width three.
"""

from collections.abc import Iterator, Sequence

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
from elman.models.recurrent import RecurrentLanguageModel
from elman.models.tagger import SequenceTagger
from elman.recipes.lab.experiment import Experiment, Measured
from elman.seeding import generator

_BATCH, _STEPS, _WIDTH, _UNITS, _WORDS = 2, 5, 3, 4, 6
_SETTINGS = ModelSettings(
    kind="lstm", embedding_size=_WIDTH, hidden_size=_UNITS, character_units=0
)
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
        none = torch.zeros(0, 0, dtype=torch.int64)
        tags_BT = ids_BT % tags
        batch = TagBatch(
            ids_BT, torch.tensor([_STEPS, 3]), ids_BT, none, none.flatten(), tags_BT
        )
        emissions_BTC = model(batch, plan=_PLAN)
        sizes = [_size(emissions_BTC), _size(tags_BT), batch.num_targets]
        yield Measured(claim, sizes if claim == "001-02" else sizes[0], how)


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


def _size(array: Tensor) -> Sequence[int]:
    return list(array.shape)


SEQUENCE_LAYOUTS = Experiment(
    "sequence-layouts",
    "the axes of what goes into a model and of what comes out",
    "seed 001, 15.1, 15.4, 15.6",
    _run,
)
