"""Counts of evaluations and depths of graphs, and a model that is run too often is found."""

import pytest
import torch

from elman.decoding.generation import Generation
from elman.recipes.lab import checking, generation_cost


def verdicts() -> dict[str, str]:
    report = checking.run_experiments([generation_cost.GENERATION_COST])
    return {finding.claim.name: finding.verdict for finding in report.findings}


def test_the_parabola_through_three_counts_goes_on_as_its_formula() -> None:
    lengths = generation_cost._LENGTHS
    assert generation_cost._at(1000, [3 * n * n - 2 * n + 1 for n in lengths]) == 2_998_001


def test_a_count_is_of_every_token_of_every_call() -> None:
    model = generation_cost._model("elman")
    count, written = generation_cost._evaluated(generation_cost._from_prefix, model, 6)
    assert count == 1 + 2 + 3 + 4 + 5 + 6
    assert written == generation_cost._from_state(model, 6)


def test_the_depth_of_a_graph_is_0_where_nothing_is_recorded() -> None:
    with torch.no_grad():
        state = generation_cost._recorded_state(4)
    assert generation_cost._graph_depth(state) == 0
    assert generation_cost._graph_depth(generation_cost._recorded_state(4)) == 4


def test_a_generation_that_runs_its_model_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Generation.step

    def step(self):  # type: ignore[no-untyped-def]
        with torch.inference_mode():
            self._model(torch.tensor([[self._last_id]]), self._model_state, plan=self._plan)
        return whole(self)

    assert set(verdicts().values()) == {"holds"}
    monkeypatch.setattr(Generation, "step", step)
    found = verdicts()
    assert found["004-19"] == found["004-35"] == found["004-41"] == "differs"
