"""Listeners that look at a generation, keep it, or change it: natively as in the readable loop."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from native_models import built, packed_of, small_model

from elman.config.settings import Settings
from elman.config.text_settings import TextSettings
from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import TOKENS_AT_ONCE, Generation, run_together
from elman.decoding.generation_state import GenerationState
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_generation import GeneratorRows, NativeGenerator, RowChoices
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.generating import Writer, WriteRequest
from elman.recipes.trained import TrainedModel
from elman.text.building import build_tokenizer

V = 20
MODEL = small_model({"kind": "lstm"}, V, seed=3)
Used = NativeGenerator | None


def begun(
    used: Used, seed: int = 0, stop_ids: tuple[int, ...] = (), model: RecurrentLanguageModel = MODEL
) -> Generation:
    sampling = SamplingSettings(seed=seed)
    generation = Generation(model, sampling, plan=KernelPlan(), packed=used, stop_ids=stop_ids)
    generation.feed([1, 2])
    return generation


def numbers_of(state: GenerationState) -> list[float]:
    return [float(n) for part in state.tensors().values() for n in part.flatten()]


@built
def test_a_state_taken_at_each_token_is_that_of_the_loop_and_goes_on_alike() -> None:
    taken: list[list[GenerationState]] = []
    whole: list[list[int]] = []
    for used in (packed_of(MODEL), None):
        generation, states, told = begun(used, seed=5), list[GenerationState](), list[int]()

        def keep(token: int, g=generation, states=states, told=told) -> bool:
            told.append(token)
            states.append(g.state())
            assert g.num_generated == len(told)
            assert not g.ended
            return False

        generation.run(30, keep)
        taken.append(states)
        whole.append(told)
    assert whole[0] == whole[1]
    for place, (mine, loops) in enumerate(zip(*taken, strict=True)):
        assert replace(mine, model_state=None) == replace(loops, model_state=None)
        assert (mine.last_id, mine.num_generated) == (whole[0][place], place + 1)
        np.testing.assert_allclose(numbers_of(mine), numbers_of(loops), rtol=0, atol=1e-5)
        again = begun(packed_of(MODEL))
        again.restore(mine)
        assert list(again.tokens(29 - place)) == whole[0][place + 1 :]


Change = Callable[[Generation, GenerationState], object]
CHANGES: dict[str, Change] = {
    "feed": lambda g, first: g.feed([7, 8, 9]),
    "step": lambda g, first: None if g.ended else g.step(),
    "run": lambda g, first: g.run(3, lambda token: False),
    "tokens": lambda g, first: list(g.tokens(2)),
    "back": lambda g, first: g.restore(first),
    "another seed": lambda g, first: g.restore(
        replace(g.state(), sampling=SamplingSettings(temperature=0.7, top_k=5, seed=11))
    ),
    "state": lambda g, first: g.state(),
}


@built
@pytest.mark.parametrize("seed", range(20))
def test_a_listener_that_changes_its_generation_does_what_it_does_in_the_loop(seed: int) -> None:
    print(seed)
    told: list[list[object]] = []
    for used in (packed_of(MODEL), None):
        draws, heard = np.random.default_rng(seed), list[object]()
        generation = begun(used, seed, stop_ids=(7,) if seed % 3 == 0 else ())
        first = generation.state()

        def change(token: int, g=generation, first=first, draws=draws, heard=heard) -> bool:
            name = str(draws.choice([*CHANGES, *["nothing"] * 6]))
            heard.append((token, name))
            if name in CHANGES:
                CHANGES[name](g, first)
            heard.append((g.num_generated, g.ended, g.seed))
            return bool(draws.random() < 0.02)

        generation.run(60, change)
        state = generation.state()
        heard.append((state.last_id, state.position, state.num_generated, state.ended))
        told.append([*heard, *generation.tokens(5)])
    assert told[0] == told[1]


@built
def test_a_listener_that_changes_one_of_several_leaves_the_others_alone() -> None:
    packed = packed_of(MODEL)
    plain = [begun(packed, seed) for seed in range(3)]
    expected: list[list[int]] = [[], [], []]
    run_together(plain, 20, lambda number, token: expected[number].append(token))  # type: ignore[func-returns-value]
    together, told = [begun(packed, seed) for seed in range(3)], list[list[int]]([[], [], []])

    def hear(number: int, token: int) -> bool:
        told[number].append(token)
        if number == 1 and len(told[1]) == 4:
            together[1].feed([7, 8])
        return number == 2 and len(told[2]) == 9

    run_together(together, 20, hear)
    assert told[0] == expected[0]
    assert told[2] == expected[2][:9]
    loop = begun(packed, 1)
    own = [loop.step() for _ in range(4)]
    loop.feed([7, 8])
    assert told[1] == own + list(loop.tokens(16))
    assert [one.num_generated for one in together] == [20, 20, 9]


@built
def test_what_is_raised_after_a_change_leaves_what_the_change_made() -> None:
    for used in (packed_of(MODEL), None):
        generation = begun(used)

        def fail(token: int, g: Generation = generation) -> bool:
            if g.num_generated == 4:
                g.feed([5, 6])
                raise LookupError("enough")
            return False

        with pytest.raises(LookupError):
            generation.run(9, fail)
        want = begun(used)
        assert len([want.step() for _ in range(4)]) == 4
        want.feed([5, 6])
        assert generation.num_generated == 4
        assert generation.state().position == want.state().position
        assert list(generation.tokens(6)) == list(want.tokens(6))


@built
def test_more_tokens_than_one_call_writes_are_counted_on_over_changes() -> None:
    generation, told = begun(packed_of(MODEL)), list[int]()

    def hear(token: int) -> bool:
        told.append(token)
        if len(told) % 500 == 0:
            generation.feed([3])
        return False

    generation.run(2 * TOKENS_AT_ONCE + 5, hear)
    assert len(told) == generation.num_generated == 2 * TOKENS_AT_ONCE + 5


@built
@pytest.mark.parametrize("used", ["packed", "loop"])
def test_generations_that_do_not_belong_together_are_refused(used: str) -> None:
    other = small_model({"kind": "gru"}, V, seed=4)
    mine, others = (packed_of(MODEL), packed_of(other)) if used == "packed" else (None, None)
    same = begun(mine)
    for bad, what in (
        (begun(others, model=other), "another model"),
        (begun(mine, stop_ids=(3,)), "other stop"),
        (begun(packed_of(MODEL)), "another packing"),
        (same, "the same generation again"),
    ):
        with pytest.raises(SettingError, match=f"{what}.* as number 1"):
            run_together([same, bad], 3, lambda number, token: False)
    assert same.num_generated == 0
    run_together([], 3, lambda number, token: False)


@built
@pytest.mark.parametrize("used", ["packed", "loop"])
def test_a_writer_saved_while_it_shows_text_goes_on_with_the_next_character(
    used: str, tmp_path: Path
) -> None:
    tokenizer = build_tokenizer(["a quick brown fox"], TextSettings())
    model = small_model({"kind": "gru"}, len(tokenizer.vocabulary), seed=6)
    trained = TrainedModel(tmp_path, Settings(), tokenizer, model, KernelPlan(), "digest")
    sampling, packed = SamplingSettings(seed=2), packed_of(model) if used == "packed" else None
    request = WriteRequest(prompt="fox", max_tokens=40, sampling=sampling)
    writer, shown = Writer(trained, request, packed=packed), list[str]()
    writer.begin()

    def show(piece: str) -> bool:
        shown.append(piece)
        writer.save(tmp_path / str(writer.num_tokens))
        return False

    writer.write(show)
    assert len(shown) == 40
    for done in (1, 2, 17, 39):
        rest = replace(request, prompt="", max_tokens=40 - done)
        again, more = Writer(trained, rest, packed=packed), list[str]()
        again.resume(tmp_path / str(done), sampling=sampling, seed=None)
        again.write(lambda piece, more=more: more.append(piece) or False)  # type: ignore[misc]
        assert more == shown[done:]


@built
def test_the_answer_of_a_listener_is_taken_as_python_takes_it() -> None:
    packed, choices = packed_of(MODEL), RowChoices([1.0], [0], [1.0], [0.0], [1])

    class Odd:
        def __bool__(self) -> bool:
            raise LookupError("neither")

    for answer, count in (
        (None, 9), (0, 9), ("", 9), (np.False_, 9), (1, 1), ("yes", 1), (np.True_, 1), ([0], 1)
    ):  # fmt: skip
        rows = GeneratorRows(packed.zero_rows(1), [4])
        _, counts = packed.generate(rows, choices, 9, on_tokens=lambda a, b, answer=answer: answer)
        assert counts.tolist() == [count], answer
    rows = GeneratorRows(packed.zero_rows(1), [4])
    with pytest.raises(LookupError, match="neither"):
        packed.generate(rows, choices, 9, on_tokens=lambda a, b: Odd())
    assert rows.positions.tolist() == [1]


@built
def test_ids_that_are_no_whole_numbers_are_refused() -> None:
    packed, choices = packed_of(MODEL), RowChoices([1.0], [0], [1.0], [0.0], [1])
    zeros = packed.zero_rows(1)
    for bad in ([[1.7, 2.0]], [[1.0, 2.0]], [[True, False]], [["1", "2"]]):
        with pytest.raises(TypeError, match="ids_BT must be whole numbers"):
            packed.read(zeros, bad)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="targets_BT must be whole numbers"):
            packed.read(zeros, np.array([[1, 2]]), targets_BT=bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="lengths_B must be whole numbers"):
        packed.read(zeros, np.array([[1, 2]]), [1.5])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="last_ids must be whole numbers"):
        GeneratorRows(zeros, [1.5])  # type: ignore[list-item]
    for name in ("forbidden_ids", "stop_ids"):
        with pytest.raises(TypeError, match=f"{name} must be whole numbers"):
            packed.generate(GeneratorRows(zeros, [1]), choices, 3, **{name: [2.5]})  # type: ignore[arg-type]
    assert not zeros.any()
    small = np.array([[1, 2]], dtype=np.uint8)
    assert packed.read(zeros, small, targets_BT=small) is not None
    packed.read(zeros, np.zeros((1, 0)))
