import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.errors import ShapeError
from elman.evaluation.units import (
    NOTHING_KNOWN_WARNING,
    LanguageScore,
    LanguageTally,
    bits_to_nats,
    log10_to_nats,
    nats_to_bits,
    nats_to_log10,
    perplexity_of_nats,
)


def score_of(nats: list[float], targets: list[int], unk_id: int | None = None) -> LanguageScore:
    tally = LanguageTally(unk_id=unk_id)
    tally.add(np.array(nats, dtype=np.float64), np.array(targets))
    return tally.score()


def test_a_base_is_changed_and_named() -> None:
    logs = [-0.30103, -0.60206, -0.60206]
    assert math.isclose(sum(logs), -1.50515, rel_tol=1e-12)
    assert log10_to_nats(sum(logs)) == pytest.approx(-3.465736, abs=5e-7)
    assert math.exp(log10_to_nats(sum(logs))) == pytest.approx(1 / 32, rel=1e-5)
    assert nats_to_log10(log10_to_nats(-1.50515)) == pytest.approx(-1.50515, rel=1e-14)
    assert perplexity_of_nats(-log10_to_nats(-1.50515) / 3) == pytest.approx(3.174802, abs=5e-7)
    assert perplexity_of_nats(-log10_to_nats(-1.50515) / 2) == pytest.approx(5.656854, abs=5e-6)
    assert nats_to_bits(6.907755) == pytest.approx(9.965784, abs=5e-7)
    assert bits_to_nats(nats_to_bits(6.907755)) == pytest.approx(6.907755, rel=1e-14)
    assert perplexity_of_nats(6.907755) == pytest.approx(1000, rel=1e-6)


def test_a_small_last_batch_does_not_weigh_as_much_as_a_full_one() -> None:
    tally = LanguageTally(unk_id=None)
    for nats in ([1.0] * 4, [1.0] * 4, [4.0]):
        tally.add(np.array(nats), np.zeros(len(nats), dtype=np.int64))
    score = tally.score()
    assert (score.loss_nats, score.num_tokens) == (12.0, 9)
    assert score.nats_per_token == pytest.approx(1.333333, abs=5e-7)
    assert score.perplexity == pytest.approx(3.793668, abs=5e-7)


def test_unknown_tokens_are_reported_both_ways() -> None:
    score = score_of([-math.log(0.5), -math.log(0.1), -math.log(0.25)], [0, 9, 1], unk_id=9)
    report = score.to_json()
    assert report["perplexity"] == pytest.approx(4.308869, abs=5e-7)
    assert report["perplexity_excluding_unknown"] == pytest.approx(2.828427, abs=5e-7)
    assert (report["num_tokens"], report["num_tokens_excluding_unknown"]) == (3, 2)
    assert report["unknown_rate"] == pytest.approx(1 / 3)
    assert str(report["warning"]).startswith("33 % of the tokens are unknown")


def test_skipped_symbols_carry_a_warning_and_a_few_unknown_ones_none() -> None:
    whole = score_of([1.0] * 200, [9] + [1] * 199, unk_id=9)
    assert whole.warning == ""
    cut = whole.with_text(characters=203, utf8_bytes=203, num_skipped=3)
    assert cut.coverage == pytest.approx(200 / 203)
    assert cut.warning.startswith("3 symbols were skipped")


def test_a_perplexity_of_one_over_unknown_tokens_only_carries_a_warning() -> None:
    report = score_of([0.0, 0.0], [3, 3], unk_id=3).to_json()
    assert (report["perplexity"], report["unknown_rate"]) == (1.0, 1.0)
    assert report["perplexity_excluding_unknown"] is None
    assert report["perplexity_excluding_unknown_is_infinite"] is False
    assert report["warning"] == NOTHING_KNOWN_WARNING


def test_perplexity_above_the_range_of_a_float_is_infinite_and_never_raises() -> None:
    report = score_of([1e4, 1e4], [0, 0]).to_json()
    assert report["perplexity"] is None
    assert report["perplexity_is_infinite"] is True
    assert report["nats_per_token"] == 1e4
    assert report["loss_is_infinite"] is False
    json.dumps(report, allow_nan=False)
    assert perplexity_of_nats(math.inf) == math.inf
    assert math.isnan(perplexity_of_nats(math.nan))


def test_a_probability_of_zero_is_reported_with_its_position() -> None:
    tally = LanguageTally(unk_id=None)
    tally.add(np.array([1.0, 1.0]), np.array([0, 0]))
    tally.add(np.array([1.0, np.inf, np.inf]), np.array([0, 0, 0]))
    score = tally.score()
    report = score.with_text(characters=5, utf8_bytes=5).to_json()
    assert report["first_infinite_token"] == 3
    assert report["loss_is_infinite"] is True
    assert report["loss_nats"] is report["bits_per_byte"] is report["perplexity"] is None
    json.dumps(report, allow_nan=False)
    assert (score_of([1.0], [0]) + score).first_infinite == 4


def test_a_loss_that_is_not_a_number_is_null_beside_its_own_flag() -> None:
    report = score_of([math.nan], [0]).to_json()
    assert report["loss_is_nan"] is True
    assert report["perplexity"] is None
    json.dumps(report, allow_nan=False)


def test_an_unknown_token_of_probability_zero_leaves_the_known_figures_finite() -> None:
    score = score_of([1.0, math.inf], [0, 1], unk_id=1)
    assert score.loss_nats == math.inf
    assert score.nats_per_token_excluding_unknown == 1.0


def test_nothing_predicted_gives_null_and_not_zero() -> None:
    report = score_of([], []).to_json()
    assert (report["loss_nats"], report["num_tokens"]) == (0.0, 0)
    for name in ("nats_per_token", "perplexity", "unknown_rate", "coverage", "bits_per_byte"):
        assert report[name] is None


def test_bits_divide_by_the_characters_and_bytes_of_the_whole_text() -> None:
    text = "né\n"
    score = score_of([math.log(2.0)] * 2, [0, 0])
    score = score.with_text(characters=len(text), utf8_bytes=len(text.encode()))
    assert score.bits_per_character == pytest.approx(2 / 3)
    assert score.bits_per_byte == pytest.approx(2 / 4)
    assert score.coverage == 1.0


def test_tokens_left_out_lower_the_coverage() -> None:
    score = score_of([1.0] * 20, [0] * 20)
    assert score.with_text(characters=22, utf8_bytes=22, num_skipped=2).coverage == 20 / 22


def test_scores_of_two_texts_add_up() -> None:
    first = score_of([1.0, 2.0], [0, 7], unk_id=7).with_text(characters=3, utf8_bytes=4)
    second = score_of([4.0], [0], unk_id=7).with_text(characters=2, utf8_bytes=2, num_skipped=1)
    both = first + second
    assert (both.loss_nats, both.num_tokens, both.num_unknown) == (7.0, 3, 1)
    assert (both.characters, both.utf8_bytes, both.coverage) == (5, 6, 3 / 4)
    assert (first + score_of([1.0], [0])).characters is None


def test_every_figure_that_others_rely_on_is_in_the_json() -> None:
    report = score_of([1.0], [0]).to_json()
    assert {
        "loss_nats",
        "num_tokens",
        "nats_per_token",
        "perplexity",
        "bits_per_character",
        "bits_per_byte",
        "num_unknown",
        "unknown_rate",
        "coverage",
    } <= report.keys()


def test_losses_and_targets_of_different_lengths_are_refused() -> None:
    with pytest.raises(ShapeError, match="one length"):
        LanguageTally(unk_id=None).add(np.zeros(2), np.zeros(3, dtype=np.int64))


@settings(derandomize=True, max_examples=100)
@given(
    st.lists(st.tuples(st.floats(0.0, 50.0), st.integers(0, 3)), min_size=1, max_size=60),
    st.integers(1, 17),
)
def test_how_predictions_are_cut_changes_nothing(rows: list[tuple[float, int]], size: int) -> None:
    nats = np.array([nats for nats, _ in rows])
    targets = np.array([target for _, target in rows])
    tally = LanguageTally(unk_id=2)
    for start in range(0, len(rows), size):
        tally.add(nats[start : start + size], targets[start : start + size])
    score = tally.score()
    known = math.fsum(n for n, t in rows if t != 2)
    unknown = math.fsum(n for n, t in rows if t == 2)
    assert score.known_nats == pytest.approx(known, rel=1e-12)
    assert score.unknown_nats == pytest.approx(unknown, rel=1e-12)
    assert (score.num_tokens, score.num_unknown) == (len(rows), int((targets == 2).sum()))
