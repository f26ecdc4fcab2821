"""Native generation writes what the readable loop writes, whatever stands beside a row."""

import numpy as np
import pytest
import torch
from native_models import (
    CELLS,
    FORMS,
    GREEDY,
    assert_same_tokens,
    built,
    packed_of,
    random_ids,
    random_sampling,
    small_model,
    written,
)

from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import Generation, row_choices
from elman.decoding.generation_state import GenerationState
from elman.decoding.packing import cells_of, pack_for_generation, rows_of
from elman.kernels import native_generation
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_generation import GeneratorRows
from elman.kernels.native_module import LEVEL_VARIABLE, native_levels

PARITY = 2e-5
"""Of a surprisal in nats: float32, sums of some tens of terms in another order, another exp."""


@pytest.fixture(params=native_levels() or ("baseline",))
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One instruction set, forced."""
    monkeypatch.setenv(LEVEL_VARIABLE, request.param)
    return str(request.param)


@built
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("cell", CELLS, ids=str)
@pytest.mark.parametrize("table_bytes", [0, 1 << 24])
def test_surprisals_and_states_are_those_of_the_readable_loop(
    cell: dict[str, object],
    form: dict[str, object],
    table_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native_generation, "TABLE_BYTES", table_bytes)
    settings = cell | form
    if settings.get("tie_weights") or settings.get("residual"):
        settings |= {"embedding_size": settings.get("projection_size", 19)}
    vocabulary_size = 23
    model = small_model(settings, vocabulary_size, seed=5, scale=0.3)
    packed = packed_of(model)
    draws = np.random.default_rng(8)
    ids_BT = draws.integers(0, vocabulary_size, (3, 12))
    targets_BT = draws.integers(0, vocabulary_size, (3, 12))
    lengths = [12, 0, 7]
    rows_BS = packed.zero_rows(3)
    nats_BT = packed.read(rows_BS, ids_BT, lengths, targets_BT=targets_BT)
    with torch.no_grad():
        output = model.double()(
            torch.from_numpy(ids_BT), None, torch.tensor(lengths), plan=KernelPlan("reference")
        )
        log_probs = torch.log_softmax(output.readout.logits(output.states_BTH), 2)
    expected_BT = -log_probs.gather(2, torch.from_numpy(targets_BT).unsqueeze(2))[..., 0].numpy()
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(
            nats_BT[row, :length], expected_BT[row, :length], rtol=PARITY, atol=PARITY
        )
        assert (nats_BT[row, length:] == 0).all()
    bound = PARITY * max(1.0, max(float(p.abs().max()) for c in output.state for p in c))
    np.testing.assert_allclose(rows_BS, rows_of(output.state), rtol=PARITY, atol=bound)


@built
@pytest.mark.parametrize("seed", range(12))
def test_sampled_tokens_are_those_of_the_readable_loop(seed: int, level: str) -> None:
    draws = np.random.default_rng(seed)
    cell = CELLS[int(draws.integers(len(CELLS)))]
    vocabulary_size = int(draws.choice([1, 2, 16, 17, 65, 300, 1500]))
    hidden = int(draws.choice([1, 5, 16, 33, 70]))
    sizes = {"hidden_size": hidden, "embedding_size": int(draws.integers(1, 40))}
    if "projection_size" in cell:
        sizes["projection_size"] = 1 + hidden // 2
    model = small_model(cell | sizes, vocabulary_size, seed)
    packed = packed_of(model)
    for _ in range(6):
        sampling = random_sampling(draws, vocabulary_size)
        prompt = random_ids(draws, vocabulary_size, int(draws.integers(1, 6)))
        told = written(model, prompt, sampling, 25, packed)
        print(seed, cell, sizes, vocabulary_size, sampling, prompt, told)
        assert len(told) == 25
        assert_same_tokens(model, prompt, sampling, told)


@built
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("cell", [CELLS[0], CELLS[3], CELLS[5], CELLS[7], CELLS[12]], ids=str)
def test_rows_have_the_same_bits_whatever_stands_beside_them(
    cell: dict[str, object], precision: str, level: str
) -> None:
    model = small_model(cell | {"hidden_size": 70, "embedding_size": 35}, 300, seed=2)
    packed, _ = pack_for_generation(model, KernelPlan(), precision)  # type: ignore[arg-type]
    assert packed is not None
    draws = np.random.default_rng(3)
    samplings = [random_sampling(draws, 300) for _ in range(9)]
    first = [int(n) for n in draws.integers(0, 300, 9)]
    starts = draws.normal(0, 0.5, (9, packed.state_size)).astype(np.float32)
    alone = []
    for row in range(9):
        rows = GeneratorRows(starts[row : row + 1].copy(), first[row : row + 1])
        tokens, _ = packed.generate(rows, row_choices(samplings[row : row + 1]), 30)
        alone.append((tokens[0].tolist(), rows.state[0].tobytes()))
    threads = torch.get_num_threads()
    try:
        for count, num_threads in ((9, 1), (9, 3), (5, 2), (2, 2), (1, 2), (3, 1), (4, 1)):
            torch.set_num_threads(num_threads)
            order = draws.permutation(9)[:count].tolist()
            rows = GeneratorRows(starts[order].copy(), [first[row] for row in order])
            tokens, _ = packed.generate(rows, row_choices([samplings[r] for r in order]), 30)
            for place, row in enumerate(order):
                assert (tokens[place].tolist(), rows.state[place].tobytes()) == alone[row]
    finally:
        torch.set_num_threads(threads)


@built
def test_work_that_threads_share_gives_the_bits_of_one_thread() -> None:
    model = small_model({"kind": "lstm", "hidden_size": 150, "embedding_size": 90}, 900, seed=1)
    packed = packed_of(model)
    ids_BT = np.random.default_rng(1).integers(0, 900, (2, 40))
    threads, found = torch.get_num_threads(), set()
    try:
        for count in (1, 2, 3, 5):
            torch.set_num_threads(count)
            rows_BS = packed.zero_rows(2)
            nats = packed.read(rows_BS, ids_BT, targets_BT=ids_BT)
            found.add((rows_BS.tobytes(), nats.tobytes()))
    finally:
        torch.set_num_threads(threads)
    assert len(found) == 1


@built
@pytest.mark.parametrize("cell", [CELLS[3], CELLS[7], CELLS[11]], ids=str)
def test_a_generation_in_pieces_is_the_whole_one(cell: dict[str, object]) -> None:
    model = small_model(cell, 30, seed=4)
    packed = packed_of(model)
    sampling = SamplingSettings(temperature=0.9, top_k=12, top_p=0.95, min_p=0.01, seed=6)
    expected = written(model, [1, 2, 3], sampling, 60, packed)
    generation = Generation(model, sampling, plan=KernelPlan(), packed=packed)
    generation.feed([1])
    generation.feed([2, 3])
    told = [generation.step()]
    told += list(generation.tokens(9))
    generation.run(20, lambda token: told.append(token) or False)  # type: ignore[func-returns-value]
    state = generation.state()
    restored = GenerationState.from_parts(state.tensors(), state.facts(), model)
    for again in (packed, None):  # the state is the readable loop's as well
        second = Generation(model, GREEDY, plan=KernelPlan(), packed=again)
        second.restore(restored)
        rest = list(second.tokens(30))
        assert (told + rest == expected) or again is None
    assert_same_tokens(model, [1, 2, 3], sampling, told + rest)
    assert second.num_generated == 60


@built
def test_rows_and_cells_are_two_forms_of_one_state() -> None:
    model = small_model({"kind": "lstm", "projection_size": 5}, 9, seed=1)
    rows_BS = np.random.default_rng(0).normal(size=(3, 2 * (5 + 19))).astype(np.float32)
    np.testing.assert_array_equal(rows_of(cells_of(rows_BS, model)), rows_BS)
    assert packed_of(model).state_size == rows_BS.shape[1]
