"""A call of native generation: its ends, its listeners, its mistakes, and what is not packed."""

import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from native_models import (
    GREEDY,
    assert_same_tokens,
    built,
    packed_of,
    small_model,
    written,
)

from elman.decoding import packing
from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import Generation, row_choices, run_together
from elman.decoding.packing import pack_for_generation, rows_of
from elman.errors import RunError, SettingError
from elman.kernels import native_module
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_generation import GeneratorRows
from elman.kernels.native_module import NOT_BUILT


@built
def test_stop_marks_end_rows_one_by_one() -> None:
    model = small_model({"kind": "gru"}, 12, seed=7)
    packed = packed_of(model)
    rows = GeneratorRows(packed.zero_rows(6), [0, 1, 2, 3, 4, 5])
    samplings = [SamplingSettings(seed=n) for n in range(6)]
    plain, _ = packed.generate(rows, row_choices(samplings), 40)
    rows = GeneratorRows(packed.zero_rows(6), [0, 1, 2, 3, 4, 5])
    stopped, counts = packed.generate(rows, row_choices(samplings), 40, stop_ids=[3, 8])
    for row in range(6):
        stops = [n for n, token in enumerate(plain[row].tolist()) if token in (3, 8)]
        length = stops[0] + 1 if stops else 40
        assert counts[row] == length
        assert stopped[row, :length].tolist() == plain[row, :length].tolist()
        assert (stopped[row, length:] == -1).all()
        assert rows.ended[row] == bool(stops)
        assert rows.positions[row] == length
    assert len(set(counts.tolist())) > 1


@built
def test_generations_together_are_each_as_alone_and_end_by_themselves() -> None:
    model = small_model({"kind": "lstm"}, 20, seed=3)
    packed = packed_of(model)
    for used in (packed, None):
        samplings = [SamplingSettings(seed=n) for n in range(5)]
        expected = [written(model, [n + 1], s, 30, used) for n, s in enumerate(samplings)]
        together = [
            Generation(model, s, plan=KernelPlan(), packed=used, stop_ids=[7]) for s in samplings
        ]
        for number, generation in enumerate(together):
            generation.feed([number + 1])
        told: list[list[int]] = [[] for _ in together]

        def take(number: int, token: int, told: list[list[int]] = told) -> bool:
            told[number].append(token)
            return number == 2 and len(told[2]) == 4

        run_together(together, 30, take)
        for number, ids in enumerate(expected):
            whole = ids[: ids.index(7)] if 7 in ids else ids
            assert told[number] == (whole[:4] if number == 2 else whole)
            assert together[number].ended == (7 in ids and (number != 2 or len(whole) < 4))
        rest = list(together[2].tokens(5))
        assert (told[2] + rest)[:9] == expected[2][: len(told[2]) + len(rest)]


@built
def test_the_callback_hears_each_token_in_order_and_can_end_them() -> None:
    packed = packed_of(small_model({"kind": "lstm"}, 20, seed=3))
    choices = row_choices([SamplingSettings(seed=1)])
    expected, _ = packed.generate(GeneratorRows(packed.zero_rows(1), [4]), choices, 23)
    for every in (1, 4, 100):
        rows, out = GeneratorRows(packed.zero_rows(1), [4]), np.empty((1, 23), dtype=np.int32)
        heard: list[tuple[int, int]] = []
        told: list[int] = []

        def hear(first: int, stop: int, out=out, heard=heard, told=told) -> bool:
            heard.append((first, stop))
            told += out[0, first:stop].tolist()
            return stop >= 12

        packed.generate(rows, choices, 23, on_tokens=hear, every=every, out=out)
        assert heard[0] == (0, min(every, 23))
        assert [first for first, _ in heard[1:]] == [stop for _, stop in heard[:-1]]
        assert told == expected[0, : len(told)].tolist()
        assert len(told) == {1: 12, 4: 12, 100: 23}[every]
        assert (out[0, len(told) :] == -1).all()
        tail, _ = packed.generate(rows, choices, 23 - len(told))
        assert told + tail[0].tolist() == expected[0].tolist()


@built
def test_what_a_callback_raises_is_raised_and_nothing_is_lost() -> None:
    model = small_model({"kind": "gru"}, 20, seed=3)
    packed = packed_of(model)
    sampling = SamplingSettings(seed=2)
    expected = written(model, [3], sampling, 30, packed)
    generation = Generation(model, sampling, plan=KernelPlan(), packed=packed)
    generation.feed([3])
    told: list[int] = []

    def fail(token: int) -> bool:
        told.append(token)
        if len(told) == 7:
            raise LookupError("enough")
        return False

    with pytest.raises(LookupError, match="enough"):
        generation.run(30, fail)
    assert generation.num_generated == 7
    assert told + list(generation.tokens(23)) == expected


@built
def test_an_interrupt_ends_a_long_call_and_the_rows_go_on() -> None:
    packed = packed_of(small_model({"kind": "lstm"}, 20, seed=3))
    choices = row_choices([SamplingSettings(seed=1)])
    rows = GeneratorRows(packed.zero_rows(1), [4])
    out = np.empty((1, 4_000_000), dtype=np.int32)

    def interrupt(number: int, frame: object) -> None:
        if rows.positions[0] > 0:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        with pytest.raises(KeyboardInterrupt):
            packed.generate(rows, choices, 4_000_000, out=out)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    done = int(rows.positions[0])
    assert 0 < done < 4_000_000
    again = GeneratorRows(packed.zero_rows(1), [4])
    tokens, _ = packed.generate(again, choices, done)
    np.testing.assert_array_equal(tokens[0], out[0, :done])
    np.testing.assert_array_equal(again.state, rows.state)


@built
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_are_refused_and_the_row_stands_still(bad: float) -> None:
    model = small_model({"kind": "lstm"}, 20, seed=3)
    with torch.no_grad():
        model.readout.bias[5] = bad
    packed = packed_of(model)
    generation = Generation(model, SamplingSettings(), plan=KernelPlan(), packed=packed)
    generation.feed([1, 2])
    before = generation.state()
    with pytest.raises(RunError, match="not finite numbers"):
        generation.step()
    after = generation.state()
    assert (after.last_id, after.position, after.num_generated) == (2, 0, 0)
    np.testing.assert_array_equal(rows_of(after.model_state), rows_of(before.model_state))
    with torch.no_grad():
        model.readout.bias[5] = -float("inf")  # an id of probability 0 is none of these
    healthy = packed_of(model)
    assert 5 not in written(model, [1], SamplingSettings(seed=3), 300, healthy)


@built
def test_forbidden_ids_are_never_written() -> None:
    model = small_model({"kind": "lstm"}, 20, seed=3)
    packed = packed_of(model)
    generation = Generation(
        model, SamplingSettings(), plan=KernelPlan(), packed=packed, forbidden_ids=range(15)
    )
    generation.feed([0])
    assert set(generation.tokens(300)) == set(range(15, 20))
    rows = GeneratorRows(packed.zero_rows(1), [4])
    with pytest.raises(SettingError, match="every token is forbidden"):
        packed.generate(rows, row_choices([GREEDY]), 3, forbidden_ids=range(20))


@built
def test_extreme_choices_do_what_they_say() -> None:
    model = small_model({"kind": "lstm"}, 300, seed=3)
    packed = packed_of(model)
    greedy = written(model, [1], GREEDY, 40, packed)
    for sampling in (
        SamplingSettings(top_k=1),
        SamplingSettings(temperature=5e-324),
        SamplingSettings(temperature=1e-30, top_p=0.5),
        SamplingSettings(top_p=5e-324),
        SamplingSettings(min_p=1.0),
        SamplingSettings(top_k=1, top_p=0.9, min_p=0.5, seed=2**63 - 1),
    ):
        assert written(model, [1], sampling, 40, packed) == greedy, sampling
    plain = written(model, [1], SamplingSettings(seed=4), 40, packed)
    for sampling in (SamplingSettings(top_k=10**30, seed=4), SamplingSettings(top_k=300, seed=4)):
        assert written(model, [1], sampling, 40, packed) == plain
    flat = SamplingSettings(temperature=1e300, seed=4)
    assert len(set(written(model, [1], flat, 300, packed))) > 150


def test_without_the_module_the_loop_writes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model({"kind": "gru"}, 30, seed=9)
    sampling = SamplingSettings(temperature=0.8, top_k=9, seed=3)
    packed, _ = pack_for_generation(model, KernelPlan())
    told = written(model, [1, 2], sampling, 40, packed)
    monkeypatch.setattr(native_module, "native", None)
    packed, how = pack_for_generation(model, KernelPlan())
    assert packed is None
    assert how == f"reference: {NOT_BUILT}"
    assert_same_tokens(model, [1, 2], sampling, told)


def test_what_cannot_be_packed_is_told() -> None:
    plan = KernelPlan()
    for model, reason in (
        (small_model({"kind": "lstm", "layer_norm": "cell"}, 9, seed=1), "normalisation within"),
        (small_model({"kind": "lstm"}, 9, seed=1).double(), "float32 weights"),
        (
            small_model({"kind": "gru", "input": "one-hot", "residual": True}, 19, seed=1),
            "one-hot input that is added",
        ),
    ):
        packed, how = pack_for_generation(model, plan)
        assert packed is None
        if native_module.native is not None:
            assert reason in how
    for choice in ("reference", "torch"):
        packed, how = pack_for_generation(small_model({}, 9, seed=1), KernelPlan(choice))  # type: ignore[arg-type]
        assert packed is None
        assert choice in how


@built
def test_weights_are_packed_as_they_are_and_stay_so() -> None:
    model = small_model({"kind": "lstm"}, 30, seed=9)
    sampling = SamplingSettings(seed=3)
    packed = packed_of(model)
    told = written(model, [1, 2], sampling, 40, packed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    assert written(model, [1, 2], sampling, 40, packed) == told
    assert written(model, [1, 2], sampling, 40, packed_of(model)) != told
    assert packing.pack_for_generation(model, KernelPlan())[1].startswith("native: ")
    assert replace(sampling, seed=4) != sampling
