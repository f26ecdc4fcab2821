"""Factors, places and axes; a lost stop mark and a context fed back are noticed."""

import math

import pytest
import torch
from planted_faults import verdicts

from elman.evaluation import translation_report
from elman.models.attending_decoder import AttendingDecoder, DecoderState, DecoderSteps, SourceView
from elman.recipes.lab import two_sequences
from elman.recipes.lab.instruments import lecture_model
from elman.recipes.lab.two_sequences import TWO_SEQUENCES


def test_the_probabilities_of_all_short_targets_are_below_one() -> None:
    model = lecture_model(7, 7, 1)
    nats, count = two_sequences._forced(model)
    assert count == 3
    assert 0.0 < math.exp(-nats) < 1.0
    assert nats == pytest.approx(two_sequences._stepwise(model), abs=1e-12)


def test_each_place_widens_what_it_enters() -> None:
    assert two_sequences._entered("transition")[0] - two_sequences._entered("state")[0] == 6
    assert two_sequences._entered("output")[1] - two_sequences._entered("state")[1] == 6


def test_a_stop_mark_left_out_turns_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    right = translation_report.shifted

    def without_stop(
        target_BT: torch.Tensor, lengths_B: torch.Tensor, boundary_id: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        inputs_BT, answers_BT = right(target_BT, lengths_B, boundary_id)
        return inputs_BT, torch.where(answers_BT == boundary_id, 0, answers_BT)

    monkeypatch.setattr(translation_report, "shifted", without_stop)
    assert verdicts(TWO_SEQUENCES)["000-18"] == "differs"


def test_a_context_that_is_fed_back_turns_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    right = AttendingDecoder.forward

    def fed_back(
        self: AttendingDecoder,
        ids_BT: torch.Tensor,
        state: DecoderState,
        source: SourceView,
        *rest: object,
        **named: object,
    ) -> DecoderSteps:
        steps = right(self, ids_BT, state, source, *rest, **named)  # type: ignore[arg-type]
        assert source.memory is not None
        context_BC = source.memory.values_BSK.mean(dim=1)
        moved = type(steps.state.stack[0])(steps.state.stack[0][0] + context_BC)
        return steps._replace(state=DecoderState((moved,)))

    monkeypatch.setattr(AttendingDecoder, "forward", fed_back)
    assert verdicts(TWO_SEQUENCES)["000-35"] == "differs"
