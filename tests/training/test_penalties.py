"""Penalties on activations, windows that weigh what they hold, and averages from a trigger on."""

import numpy as np
import pytest
import torch

from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.data.batches import TokenBatch
from elman.data.streams import StreamBatches
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.models.recurrent import RecurrentLanguageModel
from elman.seeding import generator
from elman.training.averaging import WeightAverage
from elman.training.fitting import fit
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer
from elman.training.selection import Mark, Selection

PLAN = KernelPlan()


def model_of(seed: int = 1) -> RecurrentLanguageModel:
    settings = ModelSettings(kind="gru", hidden_size=6, embedding_size=4, dropout=0.4)
    return RecurrentLanguageModel(settings, 9, generator(seed, "initialisation"))


def batch_of(lengths: tuple[int, ...]) -> TokenBatch:
    draw = torch.Generator().manual_seed(2)
    ids_BT = torch.randint(0, 9, (len(lengths), max(lengths)), generator=draw)
    targets_BT = torch.randint(0, 9, ids_BT.shape, generator=draw)
    return TokenBatch(ids_BT, targets_BT, torch.tensor(lengths), continues=False)


@pytest.mark.parametrize("lengths", [(7, 7), (7, 3)])
def test_penalties_are_their_equations_over_valid_steps(lengths: tuple[int, ...]) -> None:
    model, batch = model_of(), batch_of(lengths)
    settings = TrainingSettings(activation_penalty=2.0, change_penalty=1.5)
    found = LanguageObjective(model, settings).loss(
        batch, None, plan=PLAN, generator=torch.Generator().manual_seed(3)
    )
    output = model(
        batch.ids_BT,
        None,
        batch.lengths_B,
        plan=PLAN,
        generator=torch.Generator().manual_seed(3),
    )
    assert output.raw_BTH is not None
    squares, changes = [], []
    for row, length in enumerate(lengths):
        squares += [output.states_BTH[row, t].square().mean().item() for t in range(length)]
        for t in range(1, length):
            change = output.raw_BTH[row, t] - output.raw_BTH[row, t - 1]
            changes.append(change.square().mean().item())
    want = 2.0 * np.mean(squares) + 1.5 * np.mean(changes)
    plain, minimised = found.loss.plain, found.loss.minimised
    assert minimised.mean().item() - plain.mean().item() == pytest.approx(want, rel=1e-5)
    assert plain.count == sum(lengths)


def test_windows_by_chance_weigh_as_many_as_they_hold() -> None:
    model, batch = model_of(), batch_of((6, 6))
    losses = [
        LanguageObjective(model, TrainingSettings(window=12, window_deviation=deviation))
        .loss(batch, None, plan=PLAN, generator=torch.Generator().manual_seed(1))
        .loss
        for deviation in (0.0, 3.0)
    ]
    assert losses[1].minimised.nats.item() == pytest.approx(losses[0].minimised.nats.item() / 2)
    assert losses[1].plain.nats.item() == losses[0].plain.nats.item()


def test_an_average_without_decay_is_the_mean() -> None:
    model = torch.nn.Linear(2, 2)
    average = WeightAverage(model, 1.0)
    seen = []
    for step in range(5):
        with torch.no_grad():
            model.weight.fill_(float(step * step))
        seen.append(float(step * step))
        average.update(model)
        assert average.tensors["weight"][0, 0].item() == pytest.approx(np.mean(seen))


@pytest.mark.parametrize(
    ("losses", "stuck"),
    [([3, 2, 1], False), ([3, 2, 1, 2], False), ([1, 2, 2, 2], True), ([2, 3, 3, 1.5], False)],
)
def test_a_run_is_stuck_when_it_is_worse_than_some_time_ago(
    losses: list[float], stuck: bool
) -> None:
    selection = Selection()
    for update, loss in enumerate(losses, 1):
        selection.add(Mark(update, loss, 1, None))
    assert selection.is_stuck(2) == stuck
    assert Selection.from_json(selection.to_json()).is_stuck(2) == stuck


def trainer_of(**settings: object) -> Trainer[RecurrentLanguageModel, TokenBatch]:
    chosen = TrainingSettings(
        optimizer="sgd",
        learning_rate=0.5,
        schedule="constant",
        warmup_updates=0,
        evaluate_every=2,
        **settings,  # type: ignore[arg-type]
    )
    ids = np.random.default_rng(1).integers(0, 9, 400)
    source = StreamBatches(ids, batch_size=4, window=10)
    objective = LanguageObjective(model_of(), chosen)
    return Trainer(objective, source, chosen, PLAN, total_updates=16)


def test_averaging_begins_when_validation_stops_getting_better_and_resumes_to_the_same_bits() -> (
    None
):
    figures = iter([5.0, 4.0, 3.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0])
    trainer = trainer_of(average_trigger=1)
    begun: list[int] = []

    def validate() -> LossSum:
        assert trainer.average is not None
        begun.append(trainer.average.num_updates)
        return LossSum(torch.tensor(next(figures), dtype=torch.float64), 1)

    fit(trainer, validate=validate)
    # 4.0 is the best of more than one validation ago when 6.0 comes after update 8.
    assert begun == [0, 0, 0, 0, 2, 4, 6, 8]
    first = trainer_of(average_trigger=1)
    for _ in range(9):
        first.step()
    first.selection.losses = [1.0, 2.0, 2.0, 2.0]
    assert first.consider_averaging()
    assert not first.consider_averaging()
    for _ in range(2):
        first.step()
    second = trainer_of(average_trigger=1)
    second.restore(first.state())
    for each in (first, second):
        each.step()
    assert first.average is not None
    assert second.average is not None
    assert first.average.num_updates == second.average.num_updates == 3
    for name, tensor in first.average.tensors.items():
        assert torch.equal(tensor, second.average.tensors[name])
