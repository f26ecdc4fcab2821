"""Beyond a window exactly nothing changes, and each distance has weights of its own."""

import numpy as np
import pytest
import torch

from elman.models.window import WindowLanguageModel
from elman.recipes.lab import checking, fixed_window


def verdicts() -> dict[str, str]:
    report = checking.run_experiments([fixed_window.FIXED_WINDOW])
    return {finding.claim.name: finding.verdict for finding in report.findings}


def test_a_change_beyond_the_window_changes_no_bit_and_one_within_it_does() -> None:
    ids = np.random.default_rng(3).integers(0, 6, 12)
    changes = fixed_window._changes(fixed_window._window(5), ids)
    assert bool((changes[:5] > 0.0).all())
    assert bool((changes[5:] == 0.0).all())


def test_a_recurrent_model_sees_every_token() -> None:
    assert fixed_window._farthest(fixed_window._learnt("lstm", 0), 20) == 20


def test_the_words_between_subject_and_verb_are_those_of_a_hand_count() -> None:
    between = "that I left on the kitchen counter yesterday afternoon next to the mail"
    assert fixed_window._SENTENCE.format("").split()[2:] == between.split()
    assert len(between.split()) == 13


def test_a_window_that_sees_one_token_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = WindowLanguageModel.forward

    def forward(self, ids_BT, *others, **named):  # type: ignore[no-untyped-def]
        output = whole(self, ids_BT, *others, **named)
        seen = torch.arange(ids_BT.shape[1]).double() @ ids_BT[0].double()
        return output._replace(states_BTH=output.states_BTH + 1e-3 * seen)

    assert verdicts()["004-02"] == "holds as corrected"
    monkeypatch.setattr(WindowLanguageModel, "forward", forward)
    assert verdicts()["004-02"] == "differs"
