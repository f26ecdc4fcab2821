"""Beam and greedy search: the cases with known answers, ties, limits and settings."""

import itertools
import math

import numpy as np
import pytest
import torch
from search_tables import END, START, Prefixes, case_table, random_table, search

from elman.decoding.beam import BeamSettings, beam_search, best_of_rows
from elman.decoding.search import SearchLimits, greedy_search
from elman.errors import SettingError, ShapeError


def spelt(hypothesis):
    return "".join("AB"[token] for token in hypothesis.ids)


def test_the_n_best_list_has_no_string_twice_and_one_end_mark_each():
    """Six strings, .42, .34295, .18, .02, .019, .01805, which sum to 1."""
    found = search(case_table, BeamSettings(beam=6, n_best=6))
    assert [spelt(hypothesis) for hypothesis in found] == ["A", "BBB", "AA", "B", "BB", "BBBB"]
    assert all(hypothesis.ended and END not in hypothesis.ids for hypothesis in found)
    probs = [math.exp(hypothesis.log_prob_nats) for hypothesis in found]
    np.testing.assert_allclose(probs, [0.42, 0.34295, 0.18, 0.02, 0.019, 0.01805], rtol=1e-12)
    assert sum(probs) == pytest.approx(1.0, abs=1e-12)


def test_a_beam_does_not_stop_before_nothing_better_can_come_and_counts_the_end_mark():
    """Sum: A, −0.867501. Divided by length, end mark counted: BBB, −1.070171 / 4 = −0.267543."""
    (by_sum,) = search(case_table, BeamSettings(beam=2))
    assert (spelt(by_sum), round(by_sum.score, 6)) == ("A", -0.867501)
    (by_length,) = search(case_table, BeamSettings(beam=2, normalisation="average"))
    assert spelt(by_length) == "BBB"
    assert by_length.length == 4
    assert by_length.log_prob_nats == pytest.approx(-1.070171, abs=5e-7)
    assert by_length.score == pytest.approx(-0.267543, abs=5e-7)
    both = search(case_table, BeamSettings(beam=2, n_best=2, normalisation="average"))
    assert spelt(both[1]) == "A"
    assert both[1].score == pytest.approx(-0.433750, abs=1e-6)


def test_the_score_says_what_it_is():
    assert BeamSettings().score_name == "sum of log-probabilities, nats"
    assert BeamSettings(normalisation="average").score_name == (
        "log-probability per token, nats, end mark counted"
    )
    assert BeamSettings(normalisation="gnmt", alpha=0.6, coverage=0.2).score_name == (
        "log-probability / ((5 + n) / 6)^0.6, nats, end mark counted, coverage penalty 0.2"
    )


def test_a_search_by_sums_stops_as_soon_as_nothing_can_win():
    """After A has ended at .42, BB at .38 can only fall: two steps; the average needs more."""
    model = Prefixes(case_table)
    limits = SearchLimits(END, (6,))
    beam_search(model.functions(), [()], torch.tensor([START]), limits, BeamSettings(beam=2))
    assert model.calls == 2
    model = Prefixes(case_table)
    settings = BeamSettings(beam=2, normalisation="average")
    beam_search(model.functions(), [()], torch.tensor([START]), limits, settings)
    assert model.calls > 3


def test_equal_candidates_come_in_the_order_of_their_ids():
    uniform = torch.full((4,), 0.25, dtype=torch.float32).log()
    found = search(lambda prefix: uniform, BeamSettings(beam=3, n_best=3), max_length=2, end_id=3)
    # Step 1 keeps ids 0, 1, 2 before the end mark 3; step 2 the continuations of 0; then they end.
    assert [hypothesis.ids for hypothesis in found] == [(0, 0), (0, 1), (0, 2)]


def test_the_best_of_a_row_are_its_lowest_ids_among_equals():
    generator = torch.Generator().manual_seed(1)
    for size in (5, 300, 5000):
        log_probs_NV = torch.randint(0, 6, (7, size), generator=generator).float() - 9.0
        log_probs_NV[3] = -torch.inf
        log_probs_NV[3, 4] = -1.0
        values_NK, ids_NK = best_of_rows(log_probs_NV, 4)
        for row in (0, 1, 2, 4, 5, 6):
            expected = sorted(range(size), key=lambda v: (-float(log_probs_NV[row, v]), v))[:4]
            assert ids_NK[row].tolist() == expected
            assert values_NK[row].tolist() == log_probs_NV[row, expected].tolist()
        assert (ids_NK[3, 0], values_NK[3, 0]) == (4, -1.0)
    assert best_of_rows(log_probs_NV[:, :3], 9)[0].shape == (7, 3)


def test_the_limit_ends_a_hypothesis_or_cuts_it():
    never = torch.tensor([0.5, 0.4999, 0.0001]).log()
    (ended,) = search(lambda prefix: never, BeamSettings(beam=2), max_length=3)
    assert (len(ended.ids), ended.ended, ended.length) == (3, True, 4)
    assert ended.log_prob_nats == pytest.approx(3 * math.log(0.5) + math.log(0.0001), rel=1e-6)
    (cut,) = search(lambda prefix: never, BeamSettings(beam=2), max_length=3, at_limit="cut")
    assert (cut.ids, cut.ended, cut.length) == ((0, 0, 0), False, 3)
    assert cut.log_prob_nats == pytest.approx(3 * math.log(0.5), rel=1e-6)
    (nothing,) = search(lambda prefix: never, BeamSettings(beam=2), max_length=0)
    assert (nothing.ids, nothing.ended) == ((), True)
    (none_at_all,) = search(lambda prefix: never, BeamSettings(), max_length=0, at_limit="cut")
    assert (none_at_all.ids, none_at_all.ended, none_at_all.log_prob_nats) == ((), False, 0.0)


def test_where_nothing_is_possible_any_more_what_lives_is_cut():
    def table(prefix):
        return (
            torch.tensor([1.0, 0.0, 0.0]).log() if len(prefix) < 2 else torch.full((3,), -torch.inf)
        )

    (found,) = search(table, BeamSettings(beam=3))
    assert (found.ids, found.ended, found.log_prob_nats) == ((0, 0), False, 0.0)
    model = Prefixes(table)
    (greedy,) = greedy_search(
        model.functions(), [()], torch.tensor([START]), SearchLimits(END, (6,))
    )
    assert (greedy.ids, greedy.ended) == ((0, 0), False)


def test_without_an_end_mark_everything_has_the_greatest_length():
    found = search(
        random_table(5, 3),
        BeamSettings(beam=27, n_best=3),
        max_length=3,
        end_id=None,
        at_limit="cut",
    )
    table = random_table(5, 3)
    totals = {}
    for ids in itertools.product(range(3), repeat=3):
        totals[ids] = sum(float(table(ids[:place])[token]) for place, token in enumerate(ids))
    best = sorted(totals, key=totals.get, reverse=True)[:3]
    assert [hypothesis.ids for hypothesis in found] == best
    assert not any(hypothesis.ended for hypothesis in found)


def test_no_source_calls_no_model_and_finished_sources_are_not_stepped():
    model = Prefixes(case_table)
    limits = SearchLimits(END, ())
    empty = torch.zeros(0, dtype=torch.long)
    assert beam_search(model.functions(), [], empty, limits, BeamSettings()) == []
    assert greedy_search(model.functions(), [], empty, limits) == []
    assert model.calls == 0
    limits = SearchLimits(None, (0, 5), at_limit="cut")
    table = random_table(1, 3)
    for run in (
        lambda m: greedy_search(m, [(100,), (101,)], torch.full((2,), START), limits),
        lambda m: beam_search(
            m, [(100,), (101,)], torch.full((2,), START), limits, BeamSettings(1)
        ),
    ):
        model = Prefixes(table)
        run(model.functions())
        assert model.rows_stepped == 5


def test_settings_that_cannot_be_are_refused():
    for wrong in (
        {"beam": 0},
        {"beam": 2, "n_best": 3},
        {"n_best": 0},
        {"normalisation": "length"},
        {"alpha": -0.1},
        {"alpha": math.nan},
        {"coverage": math.inf},
    ):
        with pytest.raises(SettingError):
            BeamSettings(**wrong)
    for wrong in (
        {"at_limit": "stop"},
        {"end_id": None},
        {"forbidden_ids": (END,)},
        {"min_length": -1},
        {"min_length": 4},
    ):
        with pytest.raises(SettingError):
            SearchLimits(**{"end_id": END, "max_lengths": (3,), **wrong})
    model = Prefixes(case_table).functions()
    with pytest.raises(ShapeError, match="greatest length"):
        beam_search(model, [()], torch.tensor([START]), SearchLimits(END, (3, 3)), BeamSettings())
    settings = BeamSettings(coverage=0.2)
    with pytest.raises(SettingError, match="needs attention"):
        beam_search(model, [()], torch.tensor([START]), SearchLimits(END, (3,)), settings)
