"""Greedy and beam search with an encoder, a bridge and attention: any batch, the same answers."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell
from elman.decoding.beam import COVERAGE_FLOOR, BeamSettings, beam_search
from elman.decoding.search import SearchLimits, StepFunctions, greedy_search
from elman.errors import DataError, SettingError
from elman.kernels.dispatch import KernelPlan
from elman.layers.attention import SourceMemory, build_attention
from elman.layers.context import StateBridge, select_rows
from elman.layers.masks import valid_positions
from elman.layers.stack import RecurrentStack, StackState

LENGTHS = (2, 1, 8, 6, 3)
V, E, H = 7, 5, 6
START, END = 5, 6
PLAN = KernelPlan("reference")


class Between(NamedTuple):
    """What a decoder keeps between two tokens."""

    state: StackState
    memory: SourceMemory
    weights_NS: Tensor
    coverage_NS: Tensor | None


class Translator:
    """A bidirectional encoder and an attending decoder with random weights, context fed back."""

    def __init__(self, cell_class, kind, seed, dtype=torch.float32):
        key_size = 2 * H
        query_size = key_size if kind == "dot" else H
        self.encoder = RecurrentStack([cell_class(E, H) for _ in range(2)], num_directions=2)
        self.decoder = RecurrentStack([cell_class(E + key_size, query_size)])
        self.bridge = StateBridge(self.encoder, self.decoder, "tanh")
        name, coverage = ("additive", "vector") if kind == "covered" else (kind, "none")
        heads = 2 if kind == "multi_head" else 1
        self.attention = build_attention(
            name, query_size, key_size, num_heads=heads, coverage=coverage
        )
        generator = torch.Generator().manual_seed(seed)
        for part in (self.encoder, self.decoder, self.bridge, self.attention):
            part.requires_grad_(False)
            for parameter in part.parameters():
                parameter.normal_(0.0, 0.4, generator=generator)
            part.to(dtype)
        self.embedding_VE = torch.randn(V, E, generator=generator).to(dtype)
        self.output_VF = torch.randn(V, query_size + key_size, generator=generator).to(dtype)

    def start(self, ids_BS, lengths_B):
        states_BSK, state = self.encoder(self.embedding_VE[ids_BS], None, lengths_B, plan=PLAN)
        valid_BS = valid_positions(lengths_B, ids_BS.shape[1])
        memory = self.attention.prepare(states_BSK, valid_BS)
        return Between(self.bridge(state, self.decoder), memory, valid_BS * 0.0, None)

    def step(self, before, last_ids_N):
        query_NH = before.state[0][0]
        context_NK, weights_NS, coverage_NS = self.attention.attend(
            query_NH, before.memory, before.coverage_NS
        )
        x_N1E = torch.cat((self.embedding_VE[last_ids_N], context_NK), dim=1).unsqueeze(1)
        states_N1H, state = self.decoder(x_N1E, before.state, None, plan=PLAN)
        logits_NV = torch.cat((states_N1H[:, 0], context_NK), dim=1) @ self.output_VF.T
        return logits_NV.log_softmax(dim=1), Between(state, before.memory, weights_NS, coverage_NS)

    def reorder(self, before, rows_N):
        coverage_NS = before.coverage_NS
        return Between(
            select_rows(before.state, rows_N),
            before.memory.rows(rows_N),
            before.weights_NS.index_select(0, rows_N),
            None if coverage_NS is None else coverage_NS.index_select(0, rows_N),
        )

    def functions(self):
        return StepFunctions(self.step, self.reorder, lambda between: between.weights_NS)

    def search(self, sources, settings=None):
        lengths = [len(source) for source in sources]
        ids_BS = torch.zeros(len(sources), max(lengths), dtype=torch.long)
        for row, source in enumerate(sources):
            ids_BS[row, : len(source)] = torch.tensor(source)
        state = self.start(ids_BS, torch.tensor(lengths))
        start_ids_B = torch.full((len(sources),), START)
        limits = SearchLimits(END, tuple(2 * n + 3 for n in lengths), forbidden_ids=(START,))
        arguments = (self.functions(), state, start_ids_B, limits)
        if settings is None:
            return [[one] for one in greedy_search(*arguments, source_lengths=lengths)]
        return beam_search(*arguments, settings, source_lengths=lengths)


def sources(seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 5, (n,), generator=generator).tolist() for n in LENGTHS]


SEARCHES = {
    "greedy": None,
    "beam 3": BeamSettings(beam=3, n_best=3),
    "average": BeamSettings(beam=3, n_best=2, normalisation="average"),
    "gnmt, coverage": BeamSettings(beam=4, n_best=3, normalisation="gnmt", coverage=0.3),
}


@pytest.mark.parametrize("kind", ["dot", "projected", "additive", "covered", "multi_head"])
@pytest.mark.parametrize("how", SEARCHES)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_a_batch_of_sources_is_decoded_as_each_one_alone(kind, how, dtype, atol):
    """Lengths 2, 1, 8, 6, 3 in this order: the same strings, log-probabilities within 1e-5."""
    for seed in range(3):
        for cell_class in (GRUCell, LSTMCell):
            model = Translator(cell_class, kind, seed, dtype)
            batch = sources(seed)
            together = model.search(batch, SEARCHES[how])
            for source, hypotheses in zip(batch, together, strict=True):
                (alone,) = model.search([source], SEARCHES[how])
                assert [one.ids for one in hypotheses] == [one.ids for one in alone], seed
                for one, other in zip(hypotheses, alone, strict=True):
                    assert one.log_prob_nats == pytest.approx(other.log_prob_nats, abs=atol)
                    assert one.score == pytest.approx(other.score, abs=atol)
                    assert one.weights_TS.shape == (one.length, len(source))
                    np.testing.assert_allclose(one.weights_TS, other.weights_TS, atol=1e-5)
                    np.testing.assert_allclose(one.weights_TS.sum(axis=1), 1.0, atol=1e-5)


def test_weights_of_a_step_are_exactly_zero_on_padding_and_an_empty_source_is_refused():
    model = Translator(GRUCell, "additive", 1)
    ids_BS = torch.zeros(3, 4, dtype=torch.long)
    state = model.start(ids_BS, torch.tensor([4, 1, 2]))
    _, after = model.step(state, torch.tensor([START] * 3))
    assert (after.weights_NS[1, 1:] == 0).all()
    assert (after.weights_NS[2, 2:] == 0).all()
    torch.testing.assert_close(after.weights_NS.sum(dim=1), torch.ones(3))
    with pytest.raises(DataError, match="row 1"):
        model.start(ids_BS, torch.tensor([4, 0, 2]))


def test_every_score_and_every_weight_is_that_of_teacher_forcing():
    model = Translator(LSTMCell, "covered", 4)
    batch = sources(4)
    settings = BeamSettings(beam=3, n_best=3, normalisation="gnmt", alpha=0.6, coverage=0.4)
    for source, hypotheses in zip(batch, model.search(batch, settings), strict=True):
        for one in hypotheses:
            state = model.start(torch.tensor([source]), torch.tensor([len(source)]))
            total, last, rows = 0.0, START, []
            targets = (*one.ids, END) if one.ended else one.ids
            for token in targets:
                log_probs_NV, state = model.step(state, torch.tensor([last]))
                total += float(log_probs_NV[0, token])
                rows.append(state.weights_NS[0].numpy())
                last = token
            assert one.log_prob_nats == pytest.approx(total, abs=1e-5)
            np.testing.assert_allclose(one.weights_TS, np.stack(rows), atol=1e-5)
            covered_S = np.stack(rows).sum(axis=0).clip(COVERAGE_FLOOR, 1.0)
            expected = total / ((5 + len(targets)) / 6) ** 0.6 + 0.4 * np.log(covered_S).sum()
            assert one.score == pytest.approx(expected, abs=1e-5)


def test_coverage_ranks_a_translation_of_the_whole_source_first():
    """Two strings of almost equal probability: one reads position 0 twice, the other reads both."""
    probs = {(): [0.5, 0.48, 0.02], (0,): [0.0, 0.0, 1.0], (1,): [0.0, 0.0, 1.0]}
    weights = {(): [0.5, 0.5], (0,): [1.0, 0.0], (1,): [0.0, 1.0]}

    def step(state, last_ids_N):
        after = [
            (ids, weights[ids])
            for ids in (
                prefix if token == 9 else (*prefix, token)
                for (prefix, _), token in zip(state, last_ids_N.tolist(), strict=True)
            )
        ]
        return torch.tensor([probs[ids] for ids, _ in after]).log(), after

    functions = StepFunctions(
        step,
        lambda state, rows_N: [state[row] for row in rows_N.tolist()],
        lambda state: torch.tensor([row for _, row in state]) * torch.tensor([1.5, 0.5]),
    )
    arguments = (functions, [((), None)], torch.tensor([9]), SearchLimits(2, (3,)))
    (plain,) = beam_search(*arguments, BeamSettings(beam=2), source_lengths=[2])
    covering = BeamSettings(beam=2, coverage=1.0)
    (covered,) = beam_search(*arguments, covering, source_lengths=[2])
    assert plain[0].ids == (0,)
    assert covered[0].ids == (1,)
    # Position 0 has 0.75, position 1 has 0.25 + 0.5.
    assert covered[0].score == pytest.approx(np.log(0.48) + np.log(0.75) + np.log(0.75), abs=1e-6)


def test_a_search_with_attention_needs_the_lengths_of_the_sources():
    model = Translator(GRUCell, "additive", 1)
    state = model.start(torch.zeros(1, 2, dtype=torch.long), torch.tensor([2]))
    arguments = (model.functions(), state, torch.tensor([START]), SearchLimits(END, (3,)))
    with pytest.raises(SettingError, match="length of each source"):
        beam_search(*arguments, BeamSettings())
    with pytest.raises(SettingError, match="length of each source"):
        greedy_search(*arguments, source_lengths=[1, 2])


def test_searching_leaves_the_models_tensors_and_modes_alone():
    model = Translator(GRUCell, "covered", 2)
    batch = sources(2)
    ids_BS = torch.zeros(1, 2, dtype=torch.long)
    state = model.start(ids_BS, torch.tensor([2]))
    before = [part.clone() for part in (state.state[0][0], *state.memory[:2])]
    first = model.search(batch, SEARCHES["beam 3"])
    again = model.search(batch, SEARCHES["beam 3"])
    for one, other in zip(first, again, strict=True):
        assert [(h.ids, h.log_prob_nats) for h in one] == [(h.ids, h.log_prob_nats) for h in other]
    for part, copy in zip((state.state[0][0], *state.memory[:2]), before, strict=True):
        assert torch.equal(part, copy)
