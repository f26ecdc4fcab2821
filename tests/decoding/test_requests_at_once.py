"""Requests that run at the same time on one model: each has its own state and its own numbers."""

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from native_models import GREEDY, built, packed_of, small_model

from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import Generation
from elman.decoding.sampling import draw
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_generation import NativeGenerator
from elman.models.recurrent import RecurrentLanguageModel

V, REQUESTS, TOKENS, ROUNDS = 13, 16, 64, 5


@pytest.fixture(scope="module")
def model() -> RecurrentLanguageModel:
    return small_model({"kind": "lstm"}, V, seed=4, scale=2.0)


def answer(
    model: RecurrentLanguageModel,
    prompt: list[int],
    sampling: SamplingSettings,
    packed: NativeGenerator | None,
    *,
    streaming: bool,
) -> list[int]:
    generation = Generation(model, sampling, plan=KernelPlan(), packed=packed)
    generation.feed(prompt)
    if streaming:
        return [generation.step() for _ in range(TOKENS)]
    return list(generation.tokens(TOKENS))


def prompts(seed: int) -> list[list[int]]:
    draws = random.Random(seed)
    return [[draws.randrange(V) for _ in range(1 + 3 * n)] for n in range(REQUESTS)]


@pytest.mark.parametrize("loop", ["readable", pytest.param("native", marks=built)])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_sixteen_requests_at_once_are_answered_as_each_alone(  # case F01
    model: RecurrentLanguageModel, loop: str, temperature: float
) -> None:
    seed = 11
    packed = packed_of(model) if loop == "native" else None
    asked = [
        (prompt, SamplingSettings(temperature=temperature, seed=100 + number))
        for number, prompt in enumerate(prompts(seed))
    ]
    alone = [answer(model, *one, packed, streaming=False) for one in asked]
    assert len({tuple(ids) for ids in alone}) > REQUESTS // 2, f"seed {seed}"
    for round_number in range(ROUNDS):
        together = Barrier(REQUESTS)

        def request(
            number: int, together: Barrier = together, turn: int = round_number
        ) -> list[int]:
            together.wait()
            streaming = (number + turn) % 2 == 0
            return answer(model, *asked[number], packed, streaming=streaming)

        with ThreadPoolExecutor(REQUESTS) as pool:
            assert list(pool.map(request, range(REQUESTS))) == alone, f"seed {seed}"


@pytest.mark.parametrize("loop", ["readable", pytest.param("native", marks=built)])
def test_a_failed_request_beside_others_leaves_them_alone(  # case F01
    model: RecurrentLanguageModel, loop: str
) -> None:
    packed = packed_of(model) if loop == "native" else None
    alone = answer(model, [1, 2, 3], GREEDY, packed, streaming=True)

    def request(number: int) -> list[int]:
        if number % 2:
            with pytest.raises(SettingError, match="outside the vocabulary"):
                answer(model, [1, V], GREEDY, packed, streaming=True)
            return alone
        return answer(model, [1, 2, 3], GREEDY, packed, streaming=True)

    with ThreadPoolExecutor(REQUESTS) as pool:
        assert list(pool.map(request, range(REQUESTS))) == [alone] * REQUESTS
    assert answer(model, [1, 2, 3], GREEDY, packed, streaming=False) == alone


def test_two_symbols_can_be_drawn_from_with_what_is_usual() -> None:  # case D02
    usual = SamplingSettings()
    assert usual.top_k == 0
    drawn = {draw(np.array([0.0, 0.1]), usual, position) for position in range(50)}
    assert drawn == {0, 1}
    tiny = small_model({"kind": "gru"}, 2, seed=5)
    for sampling in (usual, SamplingSettings(top_k=50), SamplingSettings(top_k=2)):
        assert answer(tiny, [0], sampling, None, streaming=False) == answer(
            tiny, [0], usual, None, streaming=False
        )
