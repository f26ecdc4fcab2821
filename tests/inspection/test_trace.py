"""A trace against the model itself: probabilities, ranks, states, whatever the window."""

import math
import tracemalloc

import numpy as np
import pytest
import torch
from chance_cells import random_model

import elman.inspection.trace as tracing
from elman.inspection.trace import diverge, trace
from elman.kernels.dispatch import KernelPlan

IDS = np.array([1, 5, 3, 2, 7, 4, 9, 9, 0, 6], dtype=np.int32)


@pytest.mark.parametrize("window", [1, 3, 100])
@pytest.mark.parametrize("kind", ["elman", "gru", "lstm"])
def test_a_trace_says_what_the_model_says(
    kind: str, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "WINDOW", window)
    model = random_model(kind)
    with torch.no_grad():
        output = model(torch.from_numpy(IDS.astype(np.int64))[None], plan=KernelPlan())
        log_probs = output.readout.logits(output.states_BTH)[0].log_softmax(dim=1)
    steps = list(trace(model, IDS, top=3))
    assert [step.token_id for step in steps] == IDS.tolist()
    for place, step in enumerate(steps):
        best = log_probs[place].topk(3)
        assert [one.token_id for one in step.top] == best.indices.tolist()
        probabilities = [one.probability for one in step.top]
        assert probabilities == pytest.approx(best.values.exp().tolist(), rel=1e-9)
        torch.testing.assert_close(
            step.cells[-1].after[0][0], output.states_BTH[0, place], rtol=1e-9, atol=1e-12
        )
        if place + 1 == len(IDS):
            assert step.following is None
            assert not step.greedy_differs
            continue
        wanted = int(IDS[place + 1])
        assert step.following is not None
        assert step.following.choice.token_id == wanted
        assert step.following.nats == pytest.approx(-log_probs[place, wanted].item(), rel=1e-9)
        ordered = log_probs[place].argsort(descending=True).tolist()
        assert step.following.rank == 1 + ordered.index(wanted)
        assert step.greedy_differs == (ordered[0] != wanted)


def test_equal_logits_share_the_best_rank_and_the_lowest_id_is_greedy() -> None:
    model = random_model("lstm")
    with torch.no_grad():
        model.readout.weight.zero_()
        model.readout.bias.zero_()
    step = next(trace(model, IDS, top=2))
    assert [one.token_id for one in step.top] == [0, 1]
    assert step.following is not None
    assert step.following.rank == 1
    assert step.following.nats == pytest.approx(math.log(11))


def test_a_long_text_is_traced_in_bounded_memory() -> None:
    model, ids = random_model("gru"), np.arange(4000) % 11
    sum(1 for _ in trace(model, ids[:300]))
    tracemalloc.start()
    for number, _ in enumerate(trace(model, ids)):
        if number == 1000:
            tracemalloc.reset_peak()
            begun = tracemalloc.get_traced_memory()[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - begun < 5_000_000


def test_texts_that_differ_in_one_token_part_there_and_not_before() -> None:
    model = random_model("gru")
    other = IDS.copy()
    other[4] = 8
    found = list(diverge(model, IDS, other))
    assert [one.token_ids for one in found][4] == (7, 8)
    assert all(one.distances_L == (0.0, 0.0) and one.nats_apart == 0.0 for one in found[:4])
    assert all(min(one.distances_L) > 0.0 for one in found[4:])
    with torch.no_grad():
        states = [
            model(torch.from_numpy(ids.astype(np.int64))[None], plan=KernelPlan()).state
            for ids in (IDS, other)
        ]
    want = [(one[0] - two[0]).norm().item() for one, two in zip(*states, strict=True)]
    assert found[-1].distances_L == pytest.approx(want, rel=1e-9)


def test_texts_of_other_lengths_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="10 and 9"):
        list(diverge(random_model(), IDS, IDS[:-1]))
