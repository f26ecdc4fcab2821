"""What a state still tells of the past, and how far back a change is noticed: known answers."""

import numpy as np
import pytest
import torch
from chance_cells import random_model

from elman.config.model_settings import ModelSettings
from elman.errors import DataError
from elman.inspection.horizon import perturbation_curve
from elman.inspection.probes import probe_memory
from elman.kernels.dispatch import KernelPlan
from elman.models.window import WindowLanguageModel

SEED = 31
KINDS = 5


def tokens(count: int = 800) -> torch.Tensor:
    print(f"seed {SEED}")
    return torch.randint(KINDS, (count,), generator=torch.Generator().manual_seed(SEED))


def shift_register(ids_N: torch.Tensor, places: int) -> torch.Tensor:
    """Return states that hold the last `places` tokens one-hot, and nothing else."""
    one_hot = torch.nn.functional.one_hot(ids_N, KINDS).double()
    parts = [torch.zeros_like(one_hot) for _ in range(places)]
    for back in range(places):
        parts[back][back:] = one_hot[: len(ids_N) - back]
    return torch.cat(parts, dim=1)


def test_a_probe_reads_what_a_register_holds_and_nothing_further() -> None:
    ids_N = tokens()
    found = probe_memory(shift_register(ids_N, 3), ids_N, range(6), KINDS)
    assert [probe.accuracy for probe in found[:3]] == [1.0, 1.0, 1.0]
    assert all(probe.accuracy < 0.35 for probe in found[3:])  # one of five by chance
    assert all(abs(probe.most_frequent - 0.2) < 0.07 for probe in found)
    assert [probe.back for probe in found] == list(range(6))


def test_a_state_that_never_changes_tells_the_most_frequent_token() -> None:
    ids_N = tokens()
    (probe,) = probe_memory(torch.ones(len(ids_N), 4), ids_N, [2], KINDS)
    assert probe.accuracy == probe.most_frequent


def test_a_text_too_short_to_be_asked_is_refused() -> None:
    ids_N = tokens(100)
    with pytest.raises(DataError, match="too short"):
        probe_memory(torch.ones(100, 2), ids_N, [0], KINDS)
    probe_memory(torch.ones(300, 2), tokens(300), [0, 5], KINDS)


@pytest.mark.parametrize("width", [1, 3])
def test_a_window_notices_as_far_back_as_it_is_wide(width: int) -> None:
    settings = ModelSettings(kind="window", context_length=width, hidden_size=8, embedding_size=8)
    model = WindowLanguageModel(settings, KINDS, torch.Generator().manual_seed(SEED))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    found = perturbation_curve(
        model, tokens().numpy(), range(8), plan=KernelPlan(), num_positions=60
    )
    assert all(nats > 0.0 for nats in found.nats[:width])
    assert all(nats == 0.0 for nats in found.nats[width:])
    assert found.horizon == width - 1


def test_the_effect_is_the_divergence_of_both_distributions() -> None:
    model, ids = random_model("gru"), np.array([1, 2, 3] * 9)
    found = perturbation_curve(model, ids, [0, 1], plan=KernelPlan(), num_positions=40, seed=5)
    assert found.num_positions == 40
    assert min(found.nats) > 0.0
    again = perturbation_curve(model, ids, [0, 1], plan=KernelPlan(), num_positions=40, seed=5)
    assert found == again


def test_a_text_of_one_token_has_nothing_to_replace_it_with() -> None:
    with pytest.raises(DataError, match="two kinds"):
        perturbation_curve(random_model(), np.ones(50, dtype=int), [0], plan=KernelPlan())
