"""Three masks of a padded batch, each switched off in turn, and two cures that are none.

    loss mask     which predictions are supervised:      Σ over t < length + 1
    source mask   what can be retrieved:                  α_j = 0 at padding
    real lengths  which state begins the decoder:         s_0 = h_length, not h_S

Each does its own work: the loss mask leaves the other two faults where they are. A zero vector for
padding still steps the state, by its biases and by its own past; a softmax over target positions
gives weights that sum to one for no target, and with the mask no numbers at all.
"""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from elman.data.examples import PairBatch
from elman.data.reversal import reversal_pairs
from elman.kernels.dispatch import KernelPlan
from elman.layers.masks import valid_positions
from elman.losses import LossSum, token_loss
from elman.models.attending_decoder import SourceView
from elman.models.encoder_decoder import EncoderDecoder, shifted
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.instruments import TEN_SEEDS
from elman.recipes.lab.reversal_task import ReversalLetters, reversal_letters, trained_reverser
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_Fault = Literal["none", "loss", "source", "lengths", "zero vector", "wrong axis"]
_FAULTS: tuple[_Fault, ...] = ("none", "loss", "source", "lengths", "zero vector", "wrong axis")
_NAMES = ("ada", "sophia", "lin", "edith")
_CLEAR = 0.02
"""What counts as damage: two hundredths, of a weight or of the length of a state."""


class _Seen(NamedTuple):
    """What a batch comes to: its loss, first states of the decoder, weights over the source."""

    loss: LossSum
    first_BH: Tensor
    weights_BUS: Tensor


class _Damage(NamedTuple):
    """Of one random model: what padding changes with all masks, and what each fault does."""

    leak: float
    padded_targets: float
    weight_on_padding: float
    state_moved: float
    moved_by_zero: float
    sums_off: float
    masked_axis_is_nan: bool


def _run() -> Iterator[Measured]:
    """Yield the leak with all masks, and the damage without each."""
    found = [_damage(reversal_letters(), seed) for seed in TEN_SEEDS]

    def span(name: str) -> str:
        values = [getattr(one, name) for one in found]
        return f"{min(values):.3f} to {max(values):.3f}"

    yield Measured(
        "000-27",
        [
            max(one.leak for one in found),
            found[0].padded_targets,
            min(one.weight_on_padding for one in found) > _CLEAR,
            min(one.state_moved for one in found) > _CLEAR,
            min(one.moved_by_zero for one in found) > _CLEAR,
            min(one.sums_off for one in found) > _CLEAR,
            all(one.masked_axis_is_nan for one in found),
        ],
        f"ten random models on {', '.join(_NAMES)} in one batch. All masks: change of a row's loss "
        "by its neighbours. No loss mask: share of padding among the targets. No source mask: "
        f"weight on padding ({span('weight_on_padding')}). No lengths: movement of the decoder's "
        f"first state, as a share ({span('state_moved')}); the same with a zero vector for padding "
        f"({span('moved_by_zero')}). Softmax over targets: sums off 1 ({span('sums_off')}); not a "
        "number with the source mask",
        tuple(tuple(one) for one in found),
    )


def _damage(letters: ReversalLetters, seed: int) -> _Damage:
    model, batch = letters.model(seed, ("model.hidden_size=12",)), _batch(letters)
    _draw_biases(model, seed)
    seen = {fault: _answered(model, batch, letters, fault) for fault in _FAULTS}
    right = seen["none"]
    alone = [_answered(model, _row(batch, row), letters, "none") for row in range(len(_NAMES))]
    together = [_nats(model, batch, letters, row) for row in range(len(_NAMES))]
    padding_BS = ~valid_positions(batch.source_lengths_B, batch.source_BS.shape[1])
    at_padding_BU = (seen["source"].weights_BUS * padding_BS.unsqueeze(1)).sum(dim=2)
    sums_BU = seen["wrong axis"].weights_BUS.sum(dim=2)
    short = batch.source_lengths_B < batch.source_BS.shape[1]
    return _Damage(
        leak=max(
            abs(one - other.loss.nats.item()) for one, other in zip(together, alone, strict=True)
        ),
        padded_targets=1.0 - right.loss.count / seen["loss"].loss.count,
        weight_on_padding=at_padding_BU[short].mean().item(),
        state_moved=_moved(right.first_BH[short], seen["lengths"].first_BH[short]),
        moved_by_zero=_moved(right.first_BH[short], seen["zero vector"].first_BH[short]),
        sums_off=(sums_BU - 1.0).abs().mean().item(),
        masked_axis_is_nan=_masked_axis_is_nan(right.weights_BUS, padding_BS),
    )


def _batch(letters: ReversalLetters) -> PairBatch:
    batches = letters.batches(list(reversal_pairs(_NAMES)), batch_size=len(_NAMES), order="stored")
    return batches.batch(0, 0)


def _row(batch: PairBatch, row: int) -> PairBatch:
    """Return one pair of a batch by itself, without padding."""
    source, target = int(batch.source_lengths_B[row]), int(batch.target_lengths_B[row])
    return PairBatch(
        batch.source_BS[row : row + 1, :source],
        batch.source_lengths_B[row : row + 1],
        batch.target_BT[row : row + 1, :target],
        batch.target_lengths_B[row : row + 1],
    )


def _draw_biases(model: EncoderDecoder, seed: int) -> None:
    """Give the query a bias, as a trained one has: a new one has zeros."""
    draw = generator(seed, "sampling")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("attention.bias"):
                parameter.uniform_(-0.5, 0.5, generator=draw)


def _answered(
    model: EncoderDecoder, batch: PairBatch, letters: ReversalLetters, fault: _Fault
) -> _Seen:
    """Return what the parts of the model make of the batch under one fault, the others right."""
    plan, lengths_B = KernelPlan("reference"), batch.source_lengths_B
    every_B = torch.full_like(lengths_B, batch.source_BS.shape[1])
    if fault == "zero vector":
        model = copy.deepcopy(model)
        assert model.encoder.embedding is not None
        with torch.no_grad():
            model.encoder.embedding.weight[letters.ids.pad_id] = 0.0
    assert model.decoder.attention is not None
    assert model.bridge is not None
    with torch.no_grad():
        read_B = every_B if fault in ("lengths", "zero vector") else lengths_B
        states_BSK, final = model.encoder(batch.source_BS, read_B, plan=plan)
        state = model.decoder.first_state(model.bridge(final, model.decoder.stack))
        seen_B = every_B if fault in ("source", "wrong axis") else lengths_B
        valid_BS = valid_positions(seen_B, batch.source_BS.shape[1])
        memory = model.decoder.attention.prepare(states_BSK, valid_BS)
        boundary_id = letters.ids.boundary_id
        inputs_BU, answers_BU = shifted(batch.target_BT, batch.target_lengths_B, boundary_id)
        steps = model.decoder(inputs_BU, state, SourceView(memory, None), plan=plan)
        features_BUF, weights_BUS = steps.features_BTF, steps.weights_BTS
        if fault == "wrong axis":
            states_BUD = features_BUF[:, :, : model.decoder.stack.output_size]
            weights_BUS = (states_BUD @ memory.keys_BSA.transpose(1, 2)).softmax(dim=1)
            features_BUF = torch.cat((states_BUD, weights_BUS @ memory.values_BSK), dim=2)
        counted_B = None if fault == "loss" else batch.target_lengths_B + 1
        loss = token_loss(features_BUF, model.readout, answers_BU, counted_B, plan=plan)
    return _Seen(loss, state.stack[0][0], weights_BUS)


def _nats(model: EncoderDecoder, batch: PairBatch, letters: ReversalLetters, row: int) -> float:
    """Return the loss of one row within the batch, all masks on."""
    lengths_B = torch.full_like(batch.target_lengths_B, -1)
    lengths_B[row] = batch.target_lengths_B[row]
    plan, boundary_id = KernelPlan("reference"), letters.ids.boundary_id
    inputs_BU, answers_BU = shifted(batch.target_BT, batch.target_lengths_B, boundary_id)
    with torch.no_grad():
        output = model(batch.source_BS, batch.source_lengths_B, inputs_BU, plan=plan)
        return token_loss(
            output.features_BTF, output.readout, answers_BU, lengths_B + 1, plan=plan
        ).nats.item()


def _moved(right_BH: Tensor, wrong_BH: Tensor) -> float:
    """Return the mean distance, as a share of the mean length of the right states."""
    return float((right_BH - wrong_BH).norm(dim=1).mean() / right_BH.norm(dim=1).mean())


def _masked_axis_is_nan(weights_BUS: Tensor, padding_BS: Tensor) -> bool:
    """Return whether scores masked at padding become NaN in a softmax over target positions."""
    scores_BUS = weights_BUS.log().masked_fill(padding_BS.unsqueeze(1), -torch.inf)
    return bool(scores_BUS.softmax(dim=1).isnan().any())


def _draw(path: Path) -> None:
    """Draw the damage in nats on a model that has learnt, and where its attention goes."""
    draw_panels(path, [_trained, _weights])


def _trained(axes: Any) -> None:
    trained = trained_reverser(1, updates=150)
    nats = []
    for fault in _FAULTS:
        loss = LossSum.zero()
        for index in range(trained.held_out.batches_per_epoch(0)):
            batch = trained.held_out.batch(0, index)
            loss = loss + _answered(trained.model, batch, trained.letters, fault).loss
        nats.append(loss.mean().item())
    names = ["all masks", "no loss mask", "no source mask", "no lengths"]
    names += ["no lengths,\nzero vector", "softmax over\ntargets"]
    bars = axes.barh(names, nats, color=["C2", *["C0"] * 3, *["C3"] * 2])
    axes.bar_label(bars, fmt=" %.2f", fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="nats per target counted", title="after 150 updates, on names held out")


def _weights(axes: Any) -> None:
    letters = reversal_letters()
    model, batch = letters.model(1, ("model.hidden_size=12",)), _batch(letters)
    _draw_biases(model, 1)
    row = int(batch.source_lengths_B.argmin())
    faults: tuple[_Fault, ...] = ("source", "wrong axis", "none")
    for fault, style in zip(faults, ("--", ":", "-"), strict=True):
        weights_S = _answered(model, batch, letters, fault).weights_BUS[row, 0].tolist()
        name = {"source": "no source mask", "wrong axis": "softmax over targets"}.get(fault)
        axes.plot(range(1, len(weights_S) + 1), weights_S, style, label=name or "all masks")
    length = int(batch.source_lengths_B[row])
    axes.axvspan(length + 0.5, batch.source_BS.shape[1] + 0.5, color="0.92", zorder=0)
    axes.text(length + 0.7, 0.01, "padding", color="0.4")
    axes.set(xlabel="source position", ylabel="weight", ylim=(0, None), title="a random model")


THREE_MASKS = Experiment(
    "three-masks",
    "the masks of loss, source and lengths, each switched off, and two cures that are none",
    "document 000, Output masking does not mask source memory",
    _run,
    _draw,
)
