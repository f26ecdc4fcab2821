"""Weights that follow a text: against the equation written out, and only after each segment."""

import copy

import numpy as np
import pytest
import torch

from elman.config.model_settings import ModelSettings
from elman.errors import SettingError
from elman.evaluation.language import score_lines_by, score_stream_by
from elman.evaluation.scorers import ModelScorer
from elman.kernels.dispatch import KernelPlan
from elman.losses import token_nats
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.dynamic_evaluation import EPSILON, DynamicScorer

SIZE, PLAN = 7, KernelPlan("reference")


def model_of(seed: int) -> RecurrentLanguageModel:
    settings = ModelSettings(kind="gru", hidden_size=5, embedding_size=4)
    generator = torch.Generator().manual_seed(seed)
    model = RecurrentLanguageModel(settings, SIZE, generator).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return model


def squares_of(model: RecurrentLanguageModel) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(9)
    return {
        name: torch.rand(weight.shape, generator=draw, dtype=torch.float64) * 0.1
        for name, weight in model.named_parameters()
    }


def slow(
    model: RecurrentLanguageModel, ids: np.ndarray, rate: float, decay: float, segment: int
) -> list[float]:
    """The equation, segment by segment."""
    squares = squares_of(model)
    roots = {name: square.sqrt() for name, square in squares.items()}
    mean = torch.cat([root.flatten() for root in roots.values()]).mean()
    moving, state, found = copy.deepcopy(model), None, []
    learnt = dict(model.named_parameters())
    for start in range(0, len(ids) - 1, segment):
        part = torch.from_numpy(ids[start : min(start + segment, len(ids) - 1) + 1])[None]
        output = moving(part[:, :-1], state, plan=PLAN)
        nats = token_nats(output.states_BTH, output.readout, part[:, 1:], plan=PLAN)
        found += nats[0].tolist()
        moving.zero_grad()
        nats.mean().backward()
        with torch.no_grad():
            for name, weight in moving.named_parameters():
                assert weight.grad is not None
                back = (decay * roots[name] / mean).clamp(max=1.0) * (learnt[name] - weight)
                weight += back - rate * weight.grad / (roots[name] + EPSILON)
        state = tuple(type(part)(*(one.detach() for one in part)) for part in output.state)
    return found


@pytest.mark.parametrize(("rate", "decay"), [(0.0, 0.0), (0.02, 0.0), (0.05, 0.3)])
@pytest.mark.parametrize("window", [1, 5, 7, 15, 16, 100])
def test_the_weights_move_by_the_equation_after_each_segment(
    rate: float, decay: float, window: int
) -> None:
    model, ids = model_of(1), np.random.default_rng(2).integers(0, SIZE, 41)
    before = copy.deepcopy(model.state_dict())
    scorer = DynamicScorer(model, PLAN, squares_of(model), rate=rate, decay=decay, segment=5)
    told: list[float] = []
    for _ in range(2):  # a new stream begins with the weights that were learnt
        told.clear()
        score_stream_by(
            scorer, [ids], window=window, on_tokens=lambda nats_N, _: told.extend(nats_N.tolist())
        )
        np.testing.assert_allclose(told, slow(model, ids, rate, decay, 5), rtol=1e-10)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_a_text_that_repeats_is_followed() -> None:
    model, ids = model_of(3), np.tile(np.random.default_rng(4).integers(0, SIZE, 10), 30)
    alone = score_stream_by(ModelScorer(model, PLAN), [ids]).loss_nats
    scorer = DynamicScorer(model, PLAN, squares_of(model), rate=0.02, segment=5)
    assert score_stream_by(scorer, [ids]).loss_nats < 0.9 * alone


def test_lines_are_refused() -> None:
    model = model_of(5)
    scorer = DynamicScorer(model, PLAN, squares_of(model), rate=0.02)
    with pytest.raises(SettingError, match="one stream at a time"):
        score_lines_by(scorer, [np.array([1, 2]), np.array([3])], boundary_id=0)
