"""Scores of streams and lines, against a step-by-step computation in NumPy float64."""

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import torch

from elman.config.model_settings import ModelSettings
from elman.data.streams import StreamBatches, fit_stream
from elman.errors import SettingError
from elman.evaluation.language import score_lines, score_stream, validation_loss
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel
from elman.seeding import generator

V = 8
BOUNDARY, UNK = 0, 1
UNIFORM_NATS = 2.0794415
FLOAT32 = 1e-6  # relative, for sums of float32 losses
FLOAT64 = 1e-12


def random_model(
    *, seed: int = 3, kind: str = "lstm", dropout: float = 0.0, size: int = V
) -> RecurrentLanguageModel:
    shape = ModelSettings(
        kind=kind,  # type: ignore[arg-type]
        embedding_size=5,
        hidden_size=7,
        num_layers=2,
        dropout=dropout,
    )
    model = RecurrentLanguageModel(shape, size, generator(seed, "initialisation"))
    draws = generator(seed, "order")
    with torch.no_grad():  # the readout's bias starts at zero: make every parameter count
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draws) * 0.3)
    return model


def uniform_model(size: int = V) -> RecurrentLanguageModel:
    model = random_model(size=size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model


def random_ids(count: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(2, V, count)


def surprisals_by_hand(model: RecurrentLanguageModel, ids: list[int]) -> np.ndarray:
    """-ln p of ids[1:], LSTM equations in NumPy float64, one token at a time."""
    w = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    layers = [tuple(cell.weights) for cell in (model.stack.cell(0), model.stack.cell(1))]
    weights = [[part.detach().double().numpy() for part in layer] for layer in layers]
    h, c = [np.zeros(7), np.zeros(7)], [np.zeros(7), np.zeros(7)]
    losses = []
    for token, target in pairwise(ids):
        x = w["embedding.weight"][token]
        for layer, (w_ih, w_hh, b_ih, b_hh) in enumerate(weights):
            i, f, g, o = np.split(w_ih @ x + b_ih + w_hh @ h[layer] + b_hh, 4)
            sigmoid = lambda a: 1 / (1 + np.exp(-a))  # noqa: E731
            c[layer] = sigmoid(f) * c[layer] + sigmoid(i) * np.tanh(g)
            x = h[layer] = sigmoid(o) * np.tanh(c[layer])
        logits = w["readout.weight"] @ x + w["readout.bias"]
        losses.append(math.log(np.exp(logits).sum()) - logits[target])
    return np.array(losses)


@pytest.mark.parametrize("length", [11, 23, 1000])
@pytest.mark.parametrize("window", [5, 35])
def test_a_uniform_model_has_the_perplexity_of_its_vocabulary(length: int, window: int) -> None:
    model, ids = uniform_model(), random_ids(length)
    score = score_stream(model, [ids], plan=KernelPlan(), window=window)
    assert score.num_tokens == length - 1
    assert score.perplexity == pytest.approx(8.0, abs=5e-7)
    assert score.nats_per_token == pytest.approx(UNIFORM_NATS, abs=1e-7)
    for batch_size in (1, 2, 10):
        source = StreamBatches(ids, batch_size=batch_size, window=window)
        loss = validation_loss(model, source, plan=KernelPlan())
        assert loss.count == length - 1
        assert math.exp(loss.mean().item()) == pytest.approx(8.0, abs=5e-7)


def test_stop_marks_are_predicted_and_counted_and_start_marks_are_not() -> None:
    model = uniform_model(4)
    a, b = np.array([2, 3]), np.array([2])
    score = score_lines(model, [a, b], plan=KernelPlan(), boundary_id=BOUNDARY)
    assert score.num_tokens == 5
    assert score.loss_nats == pytest.approx(5 * math.log(4), rel=FLOAT32)
    assert score.perplexity == pytest.approx(4.0, rel=FLOAT32)


def test_the_loss_of_a_line_has_one_term_more_than_its_tokens() -> None:
    told: list[np.ndarray] = []
    model = random_model()
    line = np.array([3, 4, 3])
    score_lines(
        model,
        [line],
        plan=KernelPlan(),
        boundary_id=BOUNDARY,
        on_line=lambda number, nats, targets: told.extend([nats, targets]),
    )
    assert told[1].tolist() == [3, 4, 3, BOUNDARY]
    by_hand = surprisals_by_hand(model, [BOUNDARY, 3, 4, 3, BOUNDARY])
    np.testing.assert_allclose(told[0], by_hand, rtol=2e-6)


@pytest.mark.parametrize("boundary_id", [None, BOUNDARY])
def test_a_stream_is_scored_as_if_by_hand(boundary_id: int | None) -> None:
    model = random_model().double()
    ids = random_ids(23)
    pieces: list[np.ndarray] = []
    score = score_stream(
        model,
        [ids],
        plan=KernelPlan(),
        boundary_id=boundary_id,
        on_tokens=lambda nats, targets: pieces.append(nats),
    )
    read = ids.tolist() if boundary_id is None else [boundary_id, *ids.tolist()]
    by_hand = surprisals_by_hand(model, read)
    assert score.num_tokens == (22 if boundary_id is None else 23)
    np.testing.assert_allclose(np.concatenate(pieces), by_hand, rtol=1e-10)
    assert score.loss_nats == pytest.approx(by_hand.sum(), rel=FLOAT64)


@pytest.mark.parametrize("kind", ["elman", "gru", "lstm"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", FLOAT32), ("float64", FLOAT64)])
def test_window_and_chunks_change_no_number_of_a_stream(
    kind: str, dtype: str, tolerance: float
) -> None:
    model = random_model(kind=kind).to(getattr(torch, dtype))
    ids = random_ids(203)
    whole = score_stream(model, [ids], plan=KernelPlan(), unk_id=UNK)
    assert whole.num_tokens == 202
    for window in (1, 5, 100, 202, 203):
        for cut in (1, 7, 101, 500):
            chunks = [ids[start : start + cut] for start in range(0, 203, cut)]
            score = score_stream(model, chunks, plan=KernelPlan(), window=window, unk_id=UNK)
            assert score.num_tokens == 202
            assert score.loss_nats == pytest.approx(whole.loss_nats, rel=tolerance)


@pytest.mark.parametrize("boundary_id", [None, BOUNDARY])
def test_twenty_three_tokens_cost_the_same_at_every_window(  # case C07
    boundary_id: int | None,
) -> None:
    model, ids = random_model(), random_ids(23)
    predicted = 22 if boundary_id is None else 23
    whole = score_stream(model, [ids], plan=KernelPlan(), boundary_id=boundary_id)
    for window in (1, 5, 100):
        score = score_stream(
            model, [ids], plan=KernelPlan(), window=window, boundary_id=boundary_id
        )
        assert score.num_tokens == predicted
        assert score.loss_nats == pytest.approx(whole.loss_nats, rel=FLOAT32)
        for batch_size in (1, 2, 3, 7, 64):  # lanes are for choosing; they leave nothing out
            fitted = fit_stream(23, batch_size=batch_size, window=window, boundary_id=boundary_id)
            source = StreamBatches(
                ids, batch_size=fitted.batch_size, window=fitted.window, boundary_id=boundary_id
            )
            assert validation_loss(model, source, plan=KernelPlan()).count == predicted


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", FLOAT32), ("float64", FLOAT64)])
def test_batch_size_and_window_change_no_number_of_lines(dtype: str, tolerance: float) -> None:
    model = random_model().to(getattr(torch, dtype))
    lengths = (4, 1, 9, 0, 3, 3, 12)
    lines = [random_ids(length, seed=length) for length in lengths]
    alone = [
        score_lines(model, [line], plan=KernelPlan(), boundary_id=BOUNDARY).loss_nats
        for line in lines
    ]
    for batch_size in (1, 2, 3, 7, 64):
        for window in (1, 5, 100):
            told: list[tuple[int, float, int]] = []
            score = score_lines(
                model,
                lines,
                plan=KernelPlan(),
                boundary_id=BOUNDARY,
                batch_size=batch_size,
                window=window,
                on_line=lambda n, nats, targets, told=told: told.append(
                    (n, float(nats.sum()), len(targets))
                ),
            )
            assert score.num_tokens == sum(lengths) + 7
            assert score.loss_nats == pytest.approx(sum(alone), rel=tolerance)
            assert [number for number, _, _ in told] == list(range(7))
            assert [count - 1 for _, _, count in told] == list(lengths)
            assert [nats for _, nats, _ in told] == pytest.approx(alone, rel=tolerance)


def test_more_lines_than_fit_a_pool_keep_their_order() -> None:
    model = uniform_model()
    lines = [random_ids(n % 5, seed=n) for n in range(150)]
    told: list[list[int]] = []
    score_lines(
        model,
        iter(lines),
        plan=KernelPlan(),
        boundary_id=BOUNDARY,
        batch_size=2,
        on_line=lambda number, nats, targets: told.append(targets[:-1].tolist()),
    )
    assert told == [line.tolist() for line in lines]


def test_a_line_knows_nothing_of_the_line_before() -> None:
    model = random_model()
    first, second = random_ids(6, seed=1), random_ids(6, seed=2)
    plan = KernelPlan()
    both = score_lines(model, [first, second], plan=plan, boundary_id=BOUNDARY, batch_size=1)
    swapped = score_lines(model, [second, first], plan=plan, boundary_id=BOUNDARY, batch_size=1)
    assert both.loss_nats == pytest.approx(swapped.loss_nats, rel=FLOAT32)
    as_stream = score_stream(
        model, [first, [BOUNDARY], second, [BOUNDARY]], plan=plan, boundary_id=BOUNDARY
    )
    assert as_stream.num_tokens == both.num_tokens
    assert as_stream.loss_nats != pytest.approx(both.loss_nats, rel=1e-4)


def test_unknown_targets_are_counted_apart() -> None:
    model = random_model()
    ids = np.array([2, UNK, 3, UNK, 4])
    nats = surprisals_by_hand(model, ids.tolist())
    score = score_stream(model, [ids], plan=KernelPlan(), unk_id=UNK)
    assert (score.num_tokens, score.num_unknown) == (4, 2)
    assert score.unknown_nats == pytest.approx(nats[0] + nats[2], rel=FLOAT32)
    assert score.known_nats == pytest.approx(nats[1] + nats[3], rel=FLOAT32)


def test_a_stream_of_one_token_predicts_nothing_unless_it_is_marked() -> None:
    model = uniform_model()
    one = [np.array([3])]
    assert score_stream(model, one, plan=KernelPlan()).num_tokens == 0
    assert score_stream(model, one, plan=KernelPlan(), boundary_id=BOUNDARY).num_tokens == 1
    assert score_stream(model, [], plan=KernelPlan()).perplexity is None


def test_a_stream_is_read_as_it_is_scored() -> None:
    unscored: list[int] = []
    scored = 0

    def chunks() -> Iterator[np.ndarray]:
        for number in range(40):
            unscored.append(number * 10 - scored)
            yield random_ids(10)

    def count(nats: np.ndarray, targets: np.ndarray) -> None:
        nonlocal scored
        scored += len(nats)

    score_stream(uniform_model(), chunks(), plan=KernelPlan(), window=16, on_tokens=count)
    assert scored == 399
    assert max(unscored) <= 16 + 10


def test_scoring_uses_no_dropout_and_leaves_the_model_as_it_is() -> None:
    model = random_model(dropout=0.5)
    model.train()
    ids = random_ids(50)
    first = score_stream(model, [ids], plan=KernelPlan())
    source = StreamBatches(ids, batch_size=1, window=7)
    loss = validation_loss(model, source, plan=KernelPlan())
    assert score_stream(model, [ids], plan=KernelPlan()) == first
    assert model.training
    assert not loss.nats.requires_grad
    assert loss.nats.item() == pytest.approx(first.loss_nats, rel=FLOAT32)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(SettingError, match="window must be an int >= 1; got 0"):
        score_stream(uniform_model(), [], plan=KernelPlan(), window=0)
    with pytest.raises(SettingError, match="batch_size"):
        score_lines(uniform_model(), [], plan=KernelPlan(), boundary_id=0, batch_size=0)
