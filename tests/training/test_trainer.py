import dataclasses
import math

import numpy as np
import pytest
import torch
from tiny_runs import (
    Batches,
    V,
    assert_same_bits,
    assert_same_state,
    tiny_lines,
    tiny_model,
    tiny_stream,
    tiny_trainer,
    token_batch,
    weights_of,
)
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from elman.config.training_settings import TrainingSettings
from elman.errors import DataError, SettingError
from elman.kernels.dispatch import KernelPlan
from elman.training.language_objective import LanguageObjective
from elman.training.loop import SMOOTHING, Trainer, planned_updates
from elman.training.trainer_state import TrainerState

PLAIN_SGD = TrainingSettings(
    optimizer="sgd", learning_rate=0.5, clip_norm=0.0, schedule="constant", warmup_updates=0
)


class TorchTwin(nn.Module):
    """The tiny LSTM model from torch's own parts, in float64."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, 8)
        self.lstm = nn.LSTM(8, 8, num_layers=2, batch_first=True)
        self.readout = nn.Linear(8, V)
        self.double()
        own = {self._elman_name(name): p for name, p in self.named_parameters()}
        assert own.keys() == weights.keys()
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(weights[name])

    @staticmethod
    def _elman_name(name: str) -> str:
        if not name.startswith("lstm."):
            return name
        kind, _, layer = name.removeprefix("lstm.").rpartition("_l")
        return f"stack.cells.{layer}.{kind}"

    def by_elman_name(self) -> dict[str, Tensor]:
        return {self._elman_name(name): p.data for name, p in self.named_parameters()}


@pytest.mark.parametrize("rate", [0.5, 20.0])
def test_truncated_training_equals_torch_lstm_and_plain_sgd_in_float64(rate: float) -> None:
    source = tiny_stream(91)
    settings = dataclasses.replace(PLAIN_SGD, learning_rate=rate, clip_norm=0.25)
    model = tiny_model().double()
    trainer = Trainer(
        LanguageObjective(model, settings), source, settings, KernelPlan(), total_updates=4
    )
    twin = TorchTwin(weights_of(trainer))
    state = None
    for index in range(4):
        event = trainer.step()
        batch = source.batch(0, index)
        outputs, state = twin.lstm(twin.embedding(batch.ids_BT), state)
        state = (state[0].detach(), state[1].detach())
        loss = cross_entropy(twin.readout(outputs).flatten(0, 1), batch.targets_BT.flatten())
        twin.zero_grad()
        loss.backward()
        norm = math.sqrt(sum(float((p.grad**2).sum()) for p in twin.parameters()))
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter -= rate * parameter.grad * min(1.0, 0.25 / norm)
        assert event.nats_per_token == pytest.approx(loss.item(), rel=1e-10)
        assert event.gradient_norm == pytest.approx(norm, rel=1e-10)
        assert event.rate == rate
    for name, tensor in twin.by_elman_name().items():
        # Four steps at a rate of up to 20 in float64.
        torch.testing.assert_close(weights_of(trainer)[name], tensor, rtol=1e-9, atol=1e-10)


def test_the_loss_minimised_is_the_mean_over_all_tokens_of_a_ragged_batch() -> None:
    batch = token_batch([[1, 2], [3, 4, 5, 6]])
    model = tiny_model().double()
    trainer = Trainer(
        LanguageObjective(model, PLAIN_SGD),
        Batches([batch]),
        PLAIN_SGD,
        KernelPlan(),
        total_updates=1,
    )
    before = weights_of(trainer)
    event = trainer.step()
    twin = TorchTwin(before)
    nats = [
        cross_entropy(twin.readout(twin.lstm(twin.embedding(ids))[0]), targets, reduction="sum")
        for ids, targets in (
            (torch.tensor([1]), torch.tensor([2])),
            (torch.tensor([3, 4, 5]), torch.tensor([4, 5, 6])),
        )
    ]
    total = nats[0] + nats[1]
    (total / 4).backward()
    assert event.num_tokens == 4
    assert event.loss_nats == pytest.approx(total.item(), rel=1e-12)
    after = twin.readout.weight.data - 0.5 * twin.readout.weight.grad
    torch.testing.assert_close(weights_of(trainer)["readout.weight"], after, rtol=0, atol=1e-12)


def test_the_smoothed_loss_weighs_batches_by_their_tokens() -> None:
    source = Batches([token_batch([[1, 2]]), token_batch([[3, 4, 5, 6, 7, 8]])])
    trainer = tiny_trainer(source, PLAIN_SGD)
    assert trainer.smoothed_nats is None
    first, second = trainer.step(), trainer.step()
    nats = SMOOTHING * first.loss_nats + second.loss_nats
    expected = nats / (SMOOTHING * 1 + 5)
    assert second.smoothed_nats == pytest.approx(expected, rel=1e-12)


def test_batches_without_targets_are_no_updates() -> None:
    empty, full = token_batch([[1], [2]]), token_batch([[1, 2], [3, 4]])
    source = Batches([empty, full, empty])
    trainer = tiny_trainer(source, PLAIN_SGD)
    assert [trainer.step().num_tokens for _ in range(3)] == [2, 2, 2]
    assert trainer.update == 3
    assert source.asked == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]


def test_a_source_without_any_target_is_refused_rather_than_read_for_ever() -> None:
    with pytest.raises(DataError, match="no token to predict"):
        tiny_trainer(Batches([token_batch([[1], [2]])]), PLAIN_SGD).step()


def test_batches_of_4_4_2_lines_each_train_and_every_epoch_has_all_ten() -> None:
    source = tiny_lines(10)
    trainer = tiny_trainer(source, PLAIN_SGD)
    tokens = [trainer.step().num_tokens for _ in range(6)]
    assert sum(tokens[:3]) == sum(tokens[3:]) == source.num_targets
    assert sorted(len(source.line_numbers(0, index)) for index in range(3)) == [2, 4, 4]


def test_a_state_is_carried_where_a_batch_continues_and_reset_where_it_does_not() -> None:
    """At rate ~0 the second batch's loss is that of the whole text, or that of a fresh start."""
    settings = dataclasses.replace(PLAIN_SGD, learning_rate=1e-30)
    model = tiny_model().double()
    first, second = [[1, 2, 3, 4]], [[4, 5, 6, 7]]
    whole_BT = torch.tensor([[1, 2, 3, 4, 5, 6, 7]])
    output = model(whole_BT[:, :-1], plan=KernelPlan())
    logits_TV = output.readout.logits(output.states_BTH)[0]
    carried = cross_entropy(logits_TV[3:], whole_BT[0, 4:], reduction="sum").item()
    output = model(torch.tensor(second)[:, :-1], plan=KernelPlan())
    logits_TV = output.readout.logits(output.states_BTH)[0]
    fresh = cross_entropy(logits_TV, torch.tensor(second[0][1:]), reduction="sum").item()
    for continues, expected in ((True, carried), (False, fresh)):
        source = Batches([token_batch(first), token_batch(second, continues=continues)])
        trainer = Trainer(
            LanguageObjective(model, settings), source, settings, KernelPlan(), total_updates=2
        )
        trainer.step()
        assert trainer.step().loss_nats == pytest.approx(expected, rel=1e-10)
    assert abs(carried - fresh) > 1e-3


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e20])
def test_a_gradient_that_is_not_finite_skips_the_step_and_changes_no_weight(
    optimizer: str, bad: float
) -> None:
    settings = TrainingSettings(optimizer=optimizer, average_decay=0.5)  # type: ignore[arg-type]
    trainer = tiny_trainer(tiny_stream(), settings)
    trainer.step()
    before = trainer.state()

    def spoil(gradient: Tensor) -> Tensor:
        spoilt = gradient.clone()
        spoilt[0] = bad
        return spoilt

    hook = trainer.model.readout.bias.register_hook(spoil)
    event = trainer.step()
    hook.remove()
    assert event.skipped
    assert math.isfinite(event.loss_nats), "the loss alone would not have told"
    assert (event.nonfinite_steps, trainer.nonfinite_steps) == (1, 1)
    after = trainer.state()
    kept = [name for name in before.tensors if not name.startswith(("carried.", "generator."))]
    for name in kept:
        assert torch.equal(before.tensors[name], after.tensors[name]), name
    assert not trainer.step().skipped
    assert trainer.nonfinite_steps == 1


def test_a_carried_state_that_is_not_finite_starts_again_from_zeros() -> None:
    trainer = tiny_trainer(tiny_stream(), PLAIN_SGD)
    trainer.step()
    state = trainer.state()
    tensors = {**state.tensors, "carried.0": state.tensors["carried.0"] * math.nan}
    trainer.restore(TrainerState(tensors, state.facts))
    assert [trainer.step().skipped for _ in range(3)] == [True, False, False]


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    def final(seed: int) -> TrainerState:
        settings = TrainingSettings(seed=seed)
        trainer = tiny_trainer(tiny_stream(), settings, dropout=0.5)
        for _ in range(6):
            trainer.step()
        return trainer.state()

    assert_same_state(final(1), final(1))
    first, other = (final(seed).tensors["model.readout.bias"] for seed in (1, 2))
    assert not torch.equal(first, other)


def test_training_leaves_the_global_generators_alone() -> None:
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    trainer = tiny_trainer(tiny_lines(), TrainingSettings(), dropout=0.5)
    for _ in range(6):
        trainer.step()
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert np.random.get_state()[1].tolist() == numpy_before  # noqa: NPY002


def test_tied_weights_are_saved_once_and_stay_tied() -> None:
    model = tiny_model(tie_weights=True)
    trainer = Trainer(
        LanguageObjective(model, TrainingSettings()),
        tiny_stream(),
        TrainingSettings(),
        KernelPlan(),
        total_updates=12,
    )
    trainer.step()
    state = trainer.state()
    assert "model.embedding.weight" in state.tensors
    assert "model.readout.weight" not in state.tensors
    other = tiny_model(tie_weights=True, seed=8)
    fresh = Trainer(
        LanguageObjective(other, TrainingSettings()),
        tiny_stream(),
        TrainingSettings(),
        KernelPlan(),
        total_updates=12,
    )
    fresh.restore(state)
    assert other.readout.weight is other.embedding.weight
    trainer.step()
    fresh.step()
    assert_same_bits(weights_of(trainer), weights_of(fresh))


def test_the_number_of_updates_comes_from_updates_or_from_epochs() -> None:
    source = tiny_stream(91)
    assert planned_updates(TrainingSettings(updates=7), source) == 7
    assert planned_updates(TrainingSettings(epochs=3), source) == 15
    with pytest.raises(SettingError, match="when to stop"):
        planned_updates(TrainingSettings(), source)


@pytest.mark.parametrize("source", [tiny_stream(), tiny_lines()], ids=["stream", "lines"])
def test_training_in_blocks_reaches_the_same_weights(source) -> None:
    def final(recompute: int) -> TrainerState:
        settings = dataclasses.replace(PLAIN_SGD, recompute=recompute)
        model = tiny_model(dropout=0.3).double()
        trainer = Trainer(
            LanguageObjective(model, settings),
            source,
            settings,
            KernelPlan("reference"),
            total_updates=8,
        )
        for _ in range(8):
            trainer.step()
        return trainer.state()

    whole, blocks = final(0), final(2)
    for name, tensor in whole.tensors.items():
        if tensor.is_floating_point():  # rows of other lengths are multiplied in another order
            torch.testing.assert_close(blocks.tensors[name], tensor, rtol=1e-10, atol=1e-12)
        else:
            assert torch.equal(blocks.tensors[name], tensor), name


def test_smoothed_targets_are_minimised_and_the_plain_loss_is_told() -> None:
    batch = token_batch([[1, 2], [3, 4, 5, 6]])
    settings = dataclasses.replace(PLAIN_SGD, label_smoothing=0.2)
    model = tiny_model().double()
    trainer = Trainer(
        LanguageObjective(model, settings),
        Batches([batch]),
        settings,
        KernelPlan(),
        total_updates=1,
    )
    before = weights_of(trainer)
    event = trainer.step()
    twin = TorchTwin(before)
    inputs = [torch.tensor([1]), torch.tensor([3, 4, 5])]
    logits = [twin.readout(twin.lstm(twin.embedding(ids))[0]) for ids in inputs]
    targets = [torch.tensor([2]), torch.tensor([4, 5, 6])]
    plain, smoothed = (
        sum(
            cross_entropy(left, right, reduction="sum", label_smoothing=share)
            for left, right in zip(logits, targets, strict=True)
        )
        for share in (0.0, 0.2)
    )
    (smoothed / 4).backward()
    assert event.loss_nats == pytest.approx(plain.item(), rel=1e-12)
    assert trainer.smoothed_nats == pytest.approx(plain.item() / 4, rel=1e-12)
    after = twin.readout.weight.data - 0.5 * twin.readout.weight.grad
    torch.testing.assert_close(weights_of(trainer)["readout.weight"], after, rtol=0, atol=1e-12)
