"""The linear-chain field against a sum over every path, one by one."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elman.errors import DataError, ShapeError
from elman.layers.crf import ChainScores, LinearChainCRF, best_paths, log_partition
from elman.text.tag_schemes import allowed_transitions, first_invalid_tag


def make(num_tags, seed):
    crf = LinearChainCRF(num_tags).double()
    crf.initialise(torch.Generator().manual_seed(seed), bound=1.5)
    return crf


def random_emissions(lengths, num_tags, seed, *, extra=0):
    generator = torch.Generator().manual_seed(seed)
    num_steps = max(lengths) + extra
    return 2.0 * torch.randn(len(lengths), num_steps, num_tags, generator=generator).double()


def all_paths(crf, emissions_TC):
    """Every path of one row with its score, by the definition."""
    start, between, end = (part.numpy(force=True) for part in crf.chain)
    num_steps, num_tags = emissions_TC.shape
    for path in itertools.product(range(num_tags), repeat=num_steps):
        if not path:
            yield path, 0.0
            continue
        score = start[path[0]] + end[path[-1]]
        score += sum(emissions_TC[t, tag] for t, tag in enumerate(path))
        score += sum(between[a, b] for a, b in itertools.pairwise(path))
        yield path, float(score)


def brute(crf, emissions_TC):
    paths = list(all_paths(crf, emissions_TC))
    highest = max(score for _, score in paths)
    log_z = highest + math.log(sum(math.exp(score - highest) for _, score in paths))
    return paths, log_z


RAGGED = st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any)


@given(lengths=RAGGED, num_tags=st.integers(1, 4), seed=st.integers(0, 500))
def test_likelihood_best_path_and_marginals_are_those_over_all_paths(lengths, num_tags, seed):
    crf = make(num_tags, seed)
    emissions_BTC = random_emissions(lengths, num_tags, seed, extra=1)
    generator = torch.Generator().manual_seed(seed)
    tags_BT = torch.randint(0, num_tags, emissions_BTC.shape[:2], generator=generator)
    lengths_B = torch.tensor(lengths)
    likelihood = crf.log_likelihood(emissions_BTC, tags_BT, lengths_B)
    best = crf.best_path(emissions_BTC, lengths_B)
    probs_BTC = crf.marginals(emissions_BTC, lengths_B)
    expected = 0.0
    for row, length in enumerate(lengths):
        paths, log_z = brute(crf, emissions_BTC[row, :length].numpy())
        scores = dict(paths)
        expected += scores[tuple(tags_BT[row, :length].tolist())] - log_z
        found = tuple(best.tags_BT[row, :length].tolist())
        assert scores[found] == pytest.approx(max(scores.values()), abs=1e-10)
        assert best.scores_B[row].item() == pytest.approx(scores[found], abs=1e-10)
        assert (best.tags_BT[row, length:] == 0).all()
        sums_TC = np.zeros((length, num_tags))
        for path, score in paths:
            for t, tag in enumerate(path):
                sums_TC[t, tag] += math.exp(score - log_z)
        np.testing.assert_allclose(probs_BTC[row, :length].numpy(force=True), sums_TC, atol=1e-10)
        assert (probs_BTC[row, length:] == 0).all()
    assert likelihood.log_likelihood_nats.item() == pytest.approx(expected, abs=1e-10)
    assert likelihood.log_likelihood_nats.dtype == torch.float64
    assert likelihood.num_tags == sum(lengths)


@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "IOB1"])
def test_constrained_decoding_is_the_best_valid_path(scheme):
    prefixes = "BIES" if scheme == "BIOES" else "BI"
    tags = ["O", *(f"{prefix}-{label}" for prefix in prefixes for label in "XY")]
    allowed = allowed_transitions(tags, scheme)
    for seed in range(8):
        crf = make(len(tags), seed)
        emissions_BTC = random_emissions([3, 2, 1], len(tags), seed)
        best = crf.best_path(emissions_BTC, torch.tensor([3, 2, 1]), allowed)
        for row, length in enumerate((3, 2, 1)):
            valid = {
                path: score
                for path, score in all_paths(crf, emissions_BTC[row, :length].numpy())
                if first_invalid_tag([tags[tag] for tag in path], scheme) is None
            }
            found = tuple(best.tags_BT[row, :length].tolist())
            assert found == max(valid, key=valid.get)
            assert best.scores_B[row].item() == pytest.approx(valid[found], abs=1e-10)


def test_no_allowed_path_is_refused_by_row():
    allowed = allowed_transitions(["B-X", "E-X"], "BIOES")
    crf = make(2, 1)
    emissions_BTC = random_emissions([2, 3], 2, 1)
    assert crf.best_path(emissions_BTC[:1, :2], torch.tensor([2]), allowed).tags_BT.tolist() == [
        [0, 1]
    ]
    with pytest.raises(DataError, match="row 1 of length 3"):
        crf.best_path(emissions_BTC, torch.tensor([2, 3]), allowed)


def test_equal_paths_are_decided_from_the_last_tag_by_the_lowest():
    zeros = ChainScores(torch.zeros(3), torch.zeros(3, 3), torch.zeros(3))
    best = best_paths(torch.zeros(1, 4, 3), torch.tensor([4]), zeros)
    assert best.tags_BT.tolist() == [[0, 0, 0, 0]]
    # Two best paths, 0 2 and 2 1: the second has the lower last tag.
    emissions_BTC = torch.tensor([[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]])
    between_CC = torch.full((3, 3), -5.0)
    between_CC[0, 2] = between_CC[2, 1] = 0.0
    chain = ChainScores(torch.zeros(3), between_CC, torch.zeros(3))
    assert best_paths(emissions_BTC, torch.tensor([2]), chain).tags_BT.tolist() == [[2, 1]]


def test_marginals_are_the_gradient_of_the_partition():
    crf = make(5, 3)
    emissions_BTC = random_emissions([7, 2, 4], 5, 3).requires_grad_()
    lengths_B = torch.tensor([7, 2, 4])
    (gradient_BTC,) = torch.autograd.grad(
        log_partition(emissions_BTC, lengths_B, crf.chain).sum(), emissions_BTC
    )
    probs_BTC = crf.marginals(emissions_BTC, lengths_B)
    torch.testing.assert_close(probs_BTC, gradient_BTC, atol=1e-10, rtol=0)


def test_gradients_are_those_of_finite_differences():
    crf = make(3, 2)
    emissions_BTC = random_emissions([3, 0, 2], 3, 2, extra=1).requires_grad_()
    tags_BT = torch.tensor([[0, 2, 1, 9], [9, 9, 9, 9], [1, 1, -100, -100]])
    lengths_B = torch.tensor([3, 0, 2])

    def nats(emissions_BTC, *parameters):
        module = torch.nn.utils.stateless._reparametrize_module
        with module(crf, dict(zip(("start", "between", "end"), parameters, strict=True))):
            return crf.log_likelihood(emissions_BTC, tags_BT, lengths_B).log_likelihood_nats

    inputs = [emissions_BTC, *(p.data.clone().requires_grad_() for p in crf.parameters())]
    assert torch.autograd.gradcheck(nats, inputs)


def test_padding_has_no_influence_be_it_nan():
    crf = make(4, 7)
    emissions_BTC = random_emissions([5, 2], 4, 7)
    emissions_BTC[1, 2:] = math.nan
    emissions_BTC.requires_grad_()
    tags_BT = torch.tensor([[0, 1, 2, 3, 0], [3, 2, -1, 77, 0]])
    lengths_B = torch.tensor([5, 2])
    whole = crf.log_likelihood(emissions_BTC, tags_BT, lengths_B)
    alone = [
        crf.log_likelihood(
            emissions_BTC[row : row + 1, :length], tags_BT[row : row + 1, :length], lengths
        ).log_likelihood_nats
        for row, (length, lengths) in enumerate(((5, lengths_B[:1]), (2, lengths_B[1:])))
    ]
    assert whole.log_likelihood_nats.item() == pytest.approx(sum(alone).item(), abs=1e-12)
    whole.log_likelihood_nats.backward()
    assert torch.isfinite(emissions_BTC.grad).all()
    assert (emissions_BTC.grad[1, 2:] == 0).all()
    best = crf.best_path(emissions_BTC, lengths_B)
    assert torch.equal(
        best.tags_BT[1:, :2], crf.best_path(emissions_BTC[1:, :2], lengths_B[1:]).tags_BT
    )


def test_without_transitions_it_is_a_softmax_at_each_step():
    crf = LinearChainCRF(4)
    emissions_BTC = random_emissions([4, 3], 4, 5)
    tags_BT = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0]])
    lengths_B = torch.tensor([4, 3])
    log_probs_BTC = emissions_BTC.log_softmax(dim=2)
    expected = sum(
        log_probs_BTC[row, t, tags_BT[row, t]].item()
        for row, length in enumerate((4, 3))
        for t in range(length)
    )
    likelihood = crf.log_likelihood(emissions_BTC.float(), tags_BT, lengths_B)
    # Emissions were rounded to float32 on the way in.
    assert likelihood.log_likelihood_nats.item() == pytest.approx(expected, rel=1e-6)
    best = crf.best_path(emissions_BTC, lengths_B)
    assert best.tags_BT[0].tolist() == emissions_BTC[0].argmax(dim=1).tolist()


def test_large_scores_overflow_nothing():
    crf = make(3, 1)
    emissions_BTC = 1e4 * random_emissions([6], 3, 1)
    tags_BT = crf.best_path(emissions_BTC, torch.tensor([6])).tags_BT
    likelihood = crf.log_likelihood(emissions_BTC, tags_BT, torch.tensor([6]))
    assert -1e-6 < likelihood.log_likelihood_nats.item() <= 1e-9


def test_what_does_not_fit_is_refused():
    crf = make(3, 1)
    emissions_BTC = random_emissions([2], 3, 1)
    with pytest.raises(ShapeError, match="0 to 2"):
        crf.log_likelihood(emissions_BTC, torch.tensor([[0, 3]]), torch.tensor([2]))
    with pytest.raises(ShapeError, match="emissions_BTC"):
        crf.best_path(emissions_BTC[:, :, :2], torch.tensor([2]))


def test_no_step_at_all_is_the_empty_path():
    crf = make(3, 1)
    empty_BTC = torch.zeros(2, 0, 3)
    lengths_B = torch.tensor([0, 0])
    likelihood = crf.log_likelihood(empty_BTC, torch.zeros(2, 0, dtype=torch.long), lengths_B)
    assert likelihood == (0.0, 0)
    assert crf.best_path(empty_BTC, lengths_B).tags_BT.shape == (2, 0)
    assert crf.marginals(empty_BTC, lengths_B).shape == (2, 0, 3)
