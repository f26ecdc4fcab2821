"""A short row beside a long one: the same states, answers and weights as alone."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.layers.masks import valid_positions
from elman.models.classifier import SequenceClassifier

A, B, NUM_SYMBOLS, NUM_LABELS = 1, 2, 9, 4
CLOSE = 1e-6
SETTINGS = ModelSettings(
    task="classify",
    embedding_size=6,
    hidden_size=10,
    num_layers=2,
    bidirectional=True,
    pooling="attention",
)


def classifier_of(settings: ModelSettings, seed: int = 1) -> SequenceClassifier:
    generator = torch.Generator().manual_seed(seed)
    model = SequenceClassifier(settings, NUM_SYMBOLS, NUM_LABELS, generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.4, generator=generator)
    return model.requires_grad_(False)


def batch_of(size: int, place: int) -> tuple[Tensor, Tensor]:
    """The row `ab` at a place among `size` rows; all others have 40 symbols."""
    if size == 1:
        return torch.tensor([[A, B]]), torch.tensor([2])
    generator = torch.Generator().manual_seed(size)
    ids_BT = torch.randint(0, NUM_SYMBOLS, (size, 40), generator=generator)
    ids_BT[place, :2] = torch.tensor([A, B])  # what stands behind them is padding, and not zero
    lengths_B = torch.full((size,), 40)
    lengths_B[place] = 2
    return ids_BT, lengths_B


@pytest.mark.parametrize("kernels", ["reference", "torch", "auto"])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("pooling", ["attention", "final", "mean", "max"])
def test_two_symbols_are_read_beside_forty_as_alone(  # case B15
    kind: str, pooling: str, kernels: str
) -> None:
    model = classifier_of(replace(SETTINGS, kind=kind, pooling=pooling))  # type: ignore[arg-type]
    plan = KernelPlan(kernels)  # type: ignore[arg-type]

    def read(ids_BT: Tensor, lengths_B: Tensor, row: int) -> list[Tensor]:
        states_BTH, state = model.encoder(ids_BT, lengths_B, plan=plan)
        found = [states_BTH[row, :2], *(part[row] for layer in state for part in layer)]
        logits_BC = model(ids_BT, lengths_B, plan=plan)
        found += [logits_BC[row], logits_BC[row].softmax(dim=0)]
        if pooling == "attention":
            weights_BT = model.pooling.weights(states_BTH, lengths_B)
            assert not weights_BT[~valid_positions(lengths_B, ids_BT.shape[1])].any()
            found.append(weights_BT[row, :2])
        return found

    alone = read(*batch_of(1, 0), 0)
    for size in (1, 2, 7):
        for place in {0, size // 2, size - 1}:
            beside = read(*batch_of(size, place), place)
            for got, want in zip(beside, alone, strict=True):
                torch.testing.assert_close(got, want, rtol=0, atol=CLOSE)
