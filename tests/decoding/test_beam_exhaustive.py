"""Beam and greedy search against exhaustive search and a plain beam, on tables and on a model."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from search_tables import END, START, Prefixes, random_table, search

from elman.config.model_settings import ModelSettings
from elman.decoding.beam import BeamSettings, beam_search
from elman.decoding.model_steps import language_steps
from elman.decoding.search import SearchLimits, greedy_search
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel


def every_string(table, vocabulary_size, end_id, max_length, min_length=0, prefix=()):
    """All strings that end within the limits, with their log-probabilities."""
    for length in range(min_length, max_length + 1):
        others = [token for token in range(vocabulary_size) if token != end_id]
        for ids in itertools.product(others, repeat=length):
            read, total = prefix, 0.0
            for token in (*ids, end_id):
                total += float(table(read)[token])
                read = (*read, token)
            yield ids, total


def normalised(total, length, settings):
    """The formulas, written again: the length counts the end mark."""
    if settings.normalisation == "average":
        return total / length
    if settings.normalisation == "gnmt":
        return total / ((5.0 + length) ** settings.alpha / 6.0**settings.alpha)
    return total


@given(
    seed=st.integers(0, 10_000),
    normalisation=st.sampled_from(["none", "average", "gnmt"]),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    n_best=st.integers(1, 5),
    min_length=st.integers(0, 2),
)
def test_a_wide_beam_is_exhaustive_search(seed, normalisation, alpha, n_best, min_length):
    vocabulary_size, max_length = 3, 3
    table = random_table(seed, vocabulary_size)
    settings = BeamSettings(
        beam=vocabulary_size ** (max_length + 1),
        n_best=n_best,
        normalisation=normalisation,
        alpha=alpha,
    )
    found = search(table, settings, max_length=max_length, min_length=min_length)
    expected = sorted(
        (-normalised(total, len(ids) + 1, settings), ids, total)
        for ids, total in every_string(table, vocabulary_size, END, max_length, min_length)
    )[:n_best]
    assert [hypothesis.ids for hypothesis in found] == [ids for _, ids, _ in expected]
    for hypothesis, (score, _, total) in zip(found, expected, strict=True):
        assert hypothesis.score == pytest.approx(-score, abs=1e-12)
        assert hypothesis.log_prob_nats == pytest.approx(total, abs=1e-12)
        assert hypothesis.ended


@given(
    seed=st.integers(0, 10_000),
    normalisation=st.sampled_from(["none", "average", "gnmt"]),
    min_length=st.integers(0, 3),
    at_limit=st.sampled_from(["end", "cut"]),
    forbidden=st.sampled_from([(), (0,), (1, 3)]),
)
def test_a_beam_of_one_is_greedy(seed, normalisation, min_length, at_limit, forbidden):
    table = random_table(seed, 5)
    limits = SearchLimits(END, (5, 3, 5), min_length, forbidden, at_limit)
    states, start_ids_B = [(100,), (101,), (102,)], torch.full((3,), START)
    settings = BeamSettings(beam=1, normalisation=normalisation)
    wide = beam_search(Prefixes(table).functions(), states, start_ids_B, limits, settings)
    greedy = greedy_search(Prefixes(table).functions(), states, start_ids_B, limits)
    for (one,), other in zip(wide, greedy, strict=True):
        assert (one.ids, one.ended, one.log_prob_nats) == (
            other.ids,
            other.ended,
            other.log_prob_nats,
        )


@given(
    seed=st.integers(0, 10_000),
    beam=st.integers(1, 4),
    num_sources=st.integers(2, 5),
    normalisation=st.sampled_from(["none", "average", "gnmt"]),
    at_limit=st.sampled_from(["end", "cut"]),
)
def test_a_source_finds_the_same_alone_and_in_any_batch(
    seed, beam, num_sources, normalisation, at_limit
):
    table = random_table(seed, 4)
    lengths = [1 + (seed + 3 * source) % 6 for source in range(num_sources)]
    settings = BeamSettings(beam=beam, n_best=beam, normalisation=normalisation)

    def run(sources):
        limits = SearchLimits(END, tuple(lengths[s] for s in sources), at_limit=at_limit)
        states = [(100 + source,) for source in sources]
        start_ids_B = torch.full((len(sources),), START)
        return beam_search(Prefixes(table).functions(), states, start_ids_B, limits, settings)

    together = run(range(num_sources))
    assert [run([source])[0] for source in range(num_sources)] == together
    assert run(range(num_sources - 1, -1, -1)) == together[::-1]
    for hypotheses, length in zip(together, lengths, strict=True):
        ids = [(hypothesis.ids, hypothesis.ended) for hypothesis in hypotheses]
        assert len(set(ids)) == len(ids)
        assert all(len(hypothesis.ids) <= length for hypothesis in hypotheses)
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)


def plain_beam(table, vocabulary_size, settings, max_length):
    """The same search with lists and no early stop: the best `beam` candidates of every step."""
    live, finished = [((), 0.0)], []
    for length in range(max_length + 1):
        candidates = [
            ((*ids, token), total + float(table(ids)[token]))
            for ids, total in live
            for token in range(vocabulary_size)
            if length < max_length or token == END
        ]
        candidates.sort(key=lambda candidate: -candidate[1])
        best = candidates[: settings.beam]
        finished += [(ids[:-1], total) for ids, total in best if ids[-1] == END]
        live = [(ids, total) for ids, total in best if ids[-1] != END]
    finished.sort(key=lambda one: -normalised(one[1], len(one[0]) + 1, settings))
    return finished[: settings.n_best]


@given(
    seed=st.integers(0, 10_000),
    beam=st.integers(1, 5),
    normalisation=st.sampled_from(["none", "average", "gnmt"]),
    alpha=st.sampled_from([0.0, 0.6, 2.0]),
    data=st.data(),
)
def test_stopping_early_never_changes_what_is_found(seed, beam, normalisation, alpha, data):
    n_best = data.draw(st.integers(1, beam))
    settings = BeamSettings(beam, n_best, normalisation, alpha)
    table = random_table(seed, 4)
    found = search(table, settings, max_length=8)
    expected = plain_beam(table, 4, settings, 8)
    assert [hypothesis.ids for hypothesis in found] == [ids for ids, _ in expected]
    for hypothesis, (_, total) in zip(found, expected, strict=True):
        assert hypothesis.log_prob_nats == pytest.approx(total, abs=1e-12)


@given(seed=st.integers(0, 10_000), beam=st.integers(1, 4))
def test_every_score_is_its_teacher_forced_one(seed, beam):
    table = random_table(seed, 5, dtype=torch.float32)
    for hypothesis in search(table, BeamSettings(beam=beam, n_best=beam), max_length=7):
        read, total = (), 0.0
        for token in (*hypothesis.ids, END):
            total += float(table(read)[token])
            read = (*read, token)
        assert hypothesis.log_prob_nats == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_recurrent_language_model_is_searched_by_the_same_code(kind):
    """A wide beam finds the likeliest of all strings; batch and scores are those of forcing."""
    settings = ModelSettings(kind=kind, embedding_size=4, hidden_size=6, num_layers=2)
    model = RecurrentLanguageModel(settings, 4, torch.Generator().manual_seed(2)).double()
    with torch.no_grad():
        model.readout.weight.mul_(6.0)
    plan, start_id, end_id, max_length = KernelPlan("reference"), 3, 3, 3

    def forced(ids):
        with torch.no_grad():
            inputs_BT, targets = torch.tensor([[start_id, *ids]]), [*ids, end_id]
            output = model(inputs_BT, plan=plan)
            log_probs_TV = output.readout.logits(output.states_BTH[0]).log_softmax(dim=1)
            return sum(float(log_probs_TV[t, token]) for t, token in enumerate(targets))

    strings = {
        ids: forced(ids)
        for length in range(max_length + 1)
        for ids in itertools.product(range(3), repeat=length)
    }
    functions = language_steps(model, plan)
    limits = SearchLimits(end_id, (max_length, max_length))
    found = beam_search(
        functions,
        model.zero_state(2),
        torch.tensor([start_id, start_id]),
        limits,
        BeamSettings(beam=81, n_best=5),
    )
    best = sorted(strings, key=strings.get, reverse=True)[:5]
    for hypotheses in found:
        assert [hypothesis.ids for hypothesis in hypotheses] == best
        for hypothesis in hypotheses:
            assert hypothesis.log_prob_nats == pytest.approx(strings[hypothesis.ids], abs=1e-10)
