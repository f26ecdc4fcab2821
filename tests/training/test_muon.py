import numpy as np
import pytest
import torch

from elman.cells.registry import CELLS
from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.models.recurrent import RecurrentLanguageModel
from elman.seeding import generator
from elman.training.muon import orthogonalised
from elman.training.optimisers import ADAMW_SHARE, MUON_MOMENTUM, build_optimiser, set_rate


def small_model() -> RecurrentLanguageModel:
    settings = ModelSettings(hidden_size=8, embedding_size=6)
    return RecurrentLanguageModel(settings, 11, generator(3, "initialisation"))


@pytest.mark.parametrize("shape", [(2, 8, 8), (3, 8, 5), (1, 5, 8)])
def test_singular_values_come_near_one_and_singular_vectors_stay(
    shape: tuple[int, int, int],
) -> None:
    blocks = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    turned = orthogonalised(blocks, torch.float64)
    for before, after in zip(blocks.numpy(), turned.numpy(), strict=True):
        u, values, vt = np.linalg.svd(before, full_matrices=False)
        moved = u.T @ after @ vt.T
        assert np.abs(moved - np.diag(np.diag(moved))).max() < 1e-9
        assert values.max() / values.min() < 100  # so that five steps reach all of them
        assert np.all((np.diag(moved) > 0.6) & (np.diag(moved) < 1.25))


def test_a_matrix_of_zeros_stays_one() -> None:
    assert not orthogonalised(torch.zeros(1, 4, 4), torch.bfloat16).any()


def test_gates_are_orthogonalised_apart_by_nesterov_momentum() -> None:
    model, rate = small_model(), 0.02
    optimiser = build_optimiser(model, TrainingSettings(optimizer="muon", precision="float32"))
    set_rate(optimiser, rate)
    cell = model.stack.cell(0)
    draw = torch.Generator().manual_seed(7)
    expected = cell.weight_hh.double().clone()
    momentum = torch.zeros_like(expected)
    for _ in range(3):
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=draw)
        assert cell.weight_hh.grad is not None
        gradient = cell.weight_hh.grad.double()
        momentum = MUON_MOMENTUM * momentum + (1 - MUON_MOMENTUM) * gradient
        ahead = (1 - MUON_MOMENTUM) * gradient + MUON_MOMENTUM * momentum
        turned = [orthogonalised(gate.unsqueeze(0), torch.float64)[0] for gate in ahead.split(8)]
        expected = expected - rate * torch.cat(turned)
        optimiser.step()
    # float32 rounding through five quintic steps
    assert torch.allclose(cell.weight_hh.double(), expected, rtol=0, atol=1e-5)


def test_everything_else_is_learnt_by_adamw_at_its_share_of_the_rate() -> None:
    model, twin = small_model(), small_model()
    settings = TrainingSettings(optimizer="muon", weight_decay=0.1)
    muon = build_optimiser(model, settings)
    others = [twin.embedding.weight, twin.readout.weight]
    biases = [twin.readout.bias, twin.stack.cell(0).bias_ih, twin.stack.cell(0).bias_hh]
    adamw = torch.optim.AdamW(
        [{"params": others, "weight_decay": 0.1}, {"params": biases, "weight_decay": 0.0}],
        lr=0.02 * ADAMW_SHARE,
        betas=(settings.beta1, settings.beta2),
    )
    set_rate(muon, 0.02)
    draw = torch.Generator().manual_seed(9)
    for _ in range(4):
        for one, two in zip(model.parameters(), twin.parameters(), strict=True):
            one.grad = torch.randn(one.shape, generator=draw)
            two.grad = one.grad.clone()
        muon.step()
        adamw.step()
    for name in ("embedding.weight", "readout.weight", "readout.bias"):
        one, two = model.get_parameter(name), twin.get_parameter(name)
        assert torch.allclose(one, two, rtol=0, atol=1e-6), name


@pytest.mark.parametrize("name", ["lstm", "lstm+projection", "lstm+coupled", "mgu", "mingru"])
def test_muon_turns_the_matrix_of_each_gate_whatever_the_cell(name: str) -> None:
    cell = CELLS[name](3, 12)
    cell.initialise(torch.Generator().manual_seed(1))
    before = [weight.detach().clone() for weight in cell.weights]
    optimiser = build_optimiser(cell, TrainingSettings(optimizer="muon", weight_decay=0.0))
    set_rate(optimiser, 0.1)
    for weight in cell.weights:
        weight.grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(2))
    optimiser.step()
    for weight, old in zip(cell.weights, before, strict=True):
        change = (old - weight.detach()) / 0.1
        if weight.ndim == 2 and weight.shape[0] == cell.num_rows:
            for block in change.split(cell.hidden_size):
                singular = torch.linalg.svdvals(block)
                assert singular.min() > 0.5
                assert singular.max() < 1.4
        else:
            assert change.abs().max() > 0
