"""Each mask taken out of the product itself turns the claim; the parts add up to the product."""

import pytest
import torch
from planted_faults import verdicts

from elman.kernels.dispatch import KernelPlan
from elman.models import encoder_decoder, encoding
from elman.models.encoder_decoder import shifted
from elman.recipes.lab import three_masks
from elman.recipes.lab.reversal_task import reversal_letters
from elman.recipes.lab.three_masks import THREE_MASKS


def test_without_a_fault_the_parts_are_the_model() -> None:
    letters = reversal_letters()
    batch, model = three_masks._batch(letters), letters.model(3)
    seen = three_masks._answered(model, batch, letters, "none")
    inputs_BT, _ = shifted(batch.target_BT, batch.target_lengths_B, letters.ids.boundary_id)
    plan = KernelPlan("reference")
    output = model(batch.source_BS, batch.source_lengths_B, inputs_BT, plan=plan)
    torch.testing.assert_close(seen.weights_BUS, output.weights_BTS)
    assert seen.loss.count == int((batch.target_lengths_B + 1).sum()) == 21


def test_a_source_mask_lost_turns_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    def every(lengths_B: torch.Tensor, num_steps: int) -> torch.Tensor:
        return torch.ones(len(lengths_B), num_steps, dtype=torch.bool)

    monkeypatch.setattr(encoder_decoder, "valid_positions", every)
    assert verdicts(THREE_MASKS)["000-27"] == "differs"


def test_lengths_lost_turn_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    right = encoding.SequenceEncoder.forward

    def whole(self, inputs, lengths_B, *rest, **named):  # type: ignore[no-untyped-def]
        every_B = torch.full_like(lengths_B, inputs.shape[1])
        return right(self, inputs, every_B, *rest, **named)

    monkeypatch.setattr(encoding.SequenceEncoder, "forward", whole)
    assert verdicts(THREE_MASKS)["000-27"] == "differs"


def test_a_loss_mask_lost_turns_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    right = three_masks.token_loss

    def unmasked(states, readout, targets, lengths_B=None, **named):  # type: ignore[no-untyped-def]
        return right(states, readout, targets, None, **named)

    monkeypatch.setattr(three_masks, "token_loss", unmasked)
    assert verdicts(THREE_MASKS)["000-27"] == "differs"
