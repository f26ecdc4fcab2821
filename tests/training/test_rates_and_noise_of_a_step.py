"""What an update is told to have done is what it did; looking in between changes none of it."""

import math

import pytest
import torch
from tiny_runs import assert_same_bits, tiny_lines, tiny_stream, tiny_trainer, weights_of
from torch import nn

from elman.config.training_settings import TrainingSettings
from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import Generation
from elman.evaluation.language import score_stream, validation_loss
from elman.training.clipping import measure_gradients
from elman.training.loop import Trainer


def test_the_rate_told_of_an_update_is_the_one_that_moved_the_weights() -> None:  # case B11
    settings = TrainingSettings(
        optimizer="sgd",
        learning_rate=0.1,
        clip_norm=0.0,
        schedule="step",
        warmup_updates=4,
        step_every=2,
        step_factor=0.1,
    )
    trainer = tiny_trainer(tiny_stream(), settings, total_updates=8)
    trainer.model.double()
    gradients: dict[str, torch.Tensor] = {}
    bias = trainer.model.readout.bias
    bias.register_hook(lambda gradient: gradients.update(bias=gradient.clone()))
    told, moved = [], []
    for _ in range(8):
        before = bias.data.clone()
        told.append(trainer.step().rate)
        moved.append((before - bias.data).norm().item() / gradients["bias"].norm().item())
    assert told == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1, 0.1, 0.01, 0.01], rel=1e-12)
    assert moved == pytest.approx(told, rel=1e-9)


@pytest.mark.parametrize("value", [1e20, math.inf])
def test_torchs_own_clipping_hides_what_ours_tells(value: float) -> None:  # case B02
    hidden, told = (nn.Parameter(torch.ones(100)) for _ in range(2))
    for parameter in (hidden, told):
        parameter.grad = torch.full((100,), value)
    assert nn.utils.clip_grad_norm_([hidden], 1.0).item() == math.inf
    assert hidden.grad is not None
    spoilt = torch.zeros(100) if value == 1e20 else torch.full((100,), math.nan)
    assert torch.equal(hidden.grad.nan_to_num(-1.0), spoilt.nan_to_num(-1.0))
    assert not measure_gradients([told], 1.0).finite
    assert told.grad is not None
    assert torch.equal(told.grad, torch.full((100,), value))


def greedy_text(trainer: Trainer) -> list[int]:
    written = Generation(trainer.model, SamplingSettings(temperature=0), plan=trainer.plan)
    written.feed([1])
    return list(written.tokens(12))


def test_greedy_text_at_every_step_of_training_changes_no_weight() -> None:  # case D05
    def trained(*, sampled: bool) -> dict[str, torch.Tensor]:
        trainer = tiny_trainer(tiny_lines(20), TrainingSettings(), dropout=0.5, total_updates=10)
        for _ in range(10):  # 2 epochs of 5 batches
            trainer.step()
            mode = trainer.model.training
            if sampled:
                assert greedy_text(trainer) == greedy_text(trainer)
            assert trainer.model.training == mode
        assert trainer.epoch == 2
        return weights_of(trainer)

    assert_same_bits(trained(sampled=True), trained(sampled=False))


def test_a_state_of_four_lanes_meets_an_evaluation_of_one() -> None:  # case B03
    trainer = tiny_trainer(tiny_stream(batch_size=4), TrainingSettings(), dropout=0.5)
    losses = []
    for _ in range(3):
        trainer.step()
        held_out = tiny_stream(40, batch_size=1, window=7)
        losses.append(validation_loss(trainer.model, held_out, plan=trainer.plan))
    assert [loss.count for loss in losses] == [39, 39, 39]
    assert all(loss.nats.isfinite() for loss in losses)
    exact = score_stream(trainer.model, [held_out.ids_N], plan=trainer.plan)
    assert exact.loss_nats == pytest.approx(losses[-1].nats.item(), rel=1e-6)
