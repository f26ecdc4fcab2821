"""The promises of encoder-decoders: every way in which source and decoder can meet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

import pytest
import torch
from subjects import EXACT_64, PARITY_64, assert_close
from torch import Tensor

from elman.config.model_settings import ModelSettings
from elman.decoding.beam import BeamSettings
from elman.decoding.translation_steps import TargetIds, TranslationSearch, search_answers
from elman.errors import DataError
from elman.kernels.dispatch import KernelPlan
from elman.models.encoder_decoder import EncoderDecoder, TargetOutput, shifted

SOURCES, TARGETS = 9, 7
IDS = TargetIds(boundary_id=1, pad_id=0)
LENGTHS = (2, 1, 8, 6, 3)
TARGET_LENGTHS = (3, 5, 0, 2, 4)


@dataclass(frozen=True)
class Meeting:
    """One way in which an encoder and a decoder meet."""

    kind: str
    attention: str
    query: str
    context: str
    coverage: str = "none"

    def __str__(self) -> str:
        covered = ", coverage" if self.coverage != "none" else ""
        return f"{self.kind}, {self.attention}, {self.query}, {self.context}{covered}"

    def settings(self) -> ModelSettings:
        return ModelSettings(
            task="translate",
            kind=self.kind,  # type: ignore[arg-type]
            attention=self.attention,  # type: ignore[arg-type]
            query=self.query,  # type: ignore[arg-type]
            context=self.context,  # type: ignore[arg-type]
            coverage=self.coverage,  # type: ignore[arg-type]
            attention_heads=2,
            embedding_size=4,
            hidden_size=6,
            encoder_size=3,
            bidirectional=True,
            num_layers=2,
        )

    def model(self, seed: int, *, dtype: torch.dtype = torch.float64) -> EncoderDecoder:
        """A model whose parameters, biases too, are normal with deviation 0.4."""
        generator = torch.Generator().manual_seed(seed)
        model = EncoderDecoder(self.settings(), SOURCES, TARGETS, generator)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0.0, 0.4, generator=generator)
        return model.to(dtype)


@dataclass(frozen=True)
class Pairs:
    """A batch; all that follows a row's own length is noise."""

    source_BS: torch.Tensor
    source_lengths_B: torch.Tensor
    target_BT: torch.Tensor
    target_lengths_B: torch.Tensor

    def row(self, number: int) -> "Pairs":
        one = slice(number, number + 1)
        return Pairs(
            self.source_BS[one, : int(self.source_lengths_B[number])],
            self.source_lengths_B[one],
            self.target_BT[one, : int(self.target_lengths_B[number])],
            self.target_lengths_B[one],
        )


def pairs(seed: int, *, noise: int = 0) -> Pairs:
    generator = torch.Generator().manual_seed(seed)
    lengths, targets = torch.tensor(LENGTHS), torch.tensor(TARGET_LENGTHS)
    shape = len(LENGTHS), max(LENGTHS) + 2
    source_BS = torch.randint(2, SOURCES, shape, generator=generator)
    target_BT = torch.randint(2, TARGETS, (len(LENGTHS), 7), generator=generator)
    other = torch.Generator().manual_seed(noise)
    for ids, valid in ((source_BS, lengths), (target_BT, targets)):
        for row, length in enumerate(valid.tolist()):
            ids[row, length:] = torch.randint(2, TARGETS, ids[row, length:].shape, generator=other)
    return Pairs(source_BS, lengths, target_BT, targets)


def output(model: EncoderDecoder, batch: Pairs, plan: KernelPlan | None = None) -> TargetOutput:
    inputs_BT, _ = shifted(batch.target_BT, batch.target_lengths_B, IDS.boundary_id)
    return model(
        batch.source_BS,
        batch.source_lengths_B,
        inputs_BT,
        batch.target_lengths_B + 1,
        plan=plan or KernelPlan("reference"),
    )


def valid_logits(found: TargetOutput, batch: Pairs, row: int) -> torch.Tensor:
    length = int(batch.target_lengths_B[row]) + 1
    return found.readout.logits(found.features_BTF[row, :length])


def a_pair_is_answered_alone_as_in_any_batch(meeting: Meeting) -> None:
    """Padding of the source and the target, both directions: no influence on any logit."""
    for seed in range(2):
        model, batch = meeting.model(seed), pairs(seed)
        together = output(model, batch)
        for row in range(len(LENGTHS)):
            alone = output(model, batch.row(row))
            want = alone.readout.logits(alone.features_BTF[0])
            assert_close(valid_logits(together, batch, row), want, PARITY_64, f"{seed}, {row}")


def what_stands_at_padding_changes_no_bit(meeting: Meeting) -> None:
    model = meeting.model(3)
    one, other = output(model, pairs(3, noise=1)), output(model, pairs(3, noise=2))
    for row in range(len(LENGTHS)):
        first = valid_logits(one, pairs(3), row)
        assert torch.equal(first, valid_logits(other, pairs(3), row)), row


def all_steps_at_once_are_those_of_one_by_one(meeting: Meeting) -> None:
    """The fast way and the readable one: features, weights and the gradients of both."""
    for plan in (KernelPlan("reference"), KernelPlan("torch")):
        model, batch = meeting.model(4), pairs(4)
        inputs_BT, _ = shifted(batch.target_BT, batch.target_lengths_B, IDS.boundary_id)
        results = []
        for read_steps in (model.decoder, model.decoder.read_stepwise):
            read = model.read(batch.source_BS, batch.source_lengths_B, plan=plan)
            steps = read_steps(inputs_BT, read.state, read.view, plan=plan)
            total = steps.features_BTF.sin().sum()
            grads = torch.autograd.grad(total, list(model.parameters()), materialize_grads=True)
            results.append((steps, grads))
        (fast, fast_grads), (slow, slow_grads) = results
        assert_close(fast.features_BTF, slow.features_BTF, PARITY_64, "features")
        if slow.weights_BTS is not None:
            assert_close(fast.weights_BTS, slow.weights_BTS, PARITY_64, "weights")
        for got, want in zip(fast_grads, slow_grads, strict=True):
            assert_close(got, want, PARITY_64, "gradient")


def weights_sum_to_one_and_are_exactly_zero_on_padding(meeting: Meeting) -> None:
    found = output(meeting.model(5), pairs(5))
    if meeting.attention == "none":
        assert found.weights_BTS is None
        return
    for row, length in enumerate(LENGTHS):
        assert (found.weights_BTS[row, :, length:] == 0).all()
        sums_T = found.weights_BTS[row].sum(dim=1)
        assert_close(sums_T, torch.ones_like(sums_T), EXACT_64, "sum of weights")


def a_source_of_nothing_is_an_error(meeting: Meeting) -> None:
    model, batch = meeting.model(6), pairs(6)
    lengths_B = batch.source_lengths_B.clone()
    lengths_B[1] = 0
    with pytest.raises(DataError, match="row 1"):
        model.read(batch.source_BS, lengths_B, plan=KernelPlan("reference"))


def a_search_finds_the_same_in_any_company(meeting: Meeting) -> None:
    """Greedy and beam 3; a beam of one is greedy; every score is that of teacher forcing."""
    model = meeting.model(7, dtype=torch.float32)
    plan = KernelPlan("reference")
    generator = torch.Generator().manual_seed(7)
    sources = [torch.randint(2, SOURCES, (n,), generator=generator).tolist() for n in LENGTHS]
    greedy, beam = TranslationSearch(), TranslationSearch(beam=BeamSettings(beam=3, n_best=2))
    one = TranslationSearch(beam=BeamSettings(beam=1))
    for search in (greedy, beam):
        together = search_answers([model], sources, IDS, search, plan=plan)
        for source, hypotheses in zip(sources, together, strict=True):
            (alone,) = search_answers([model], [source], IDS, search, plan=plan)
            assert [each.ids for each in hypotheses] == [each.ids for each in alone]
            for each, other in zip(hypotheses, alone, strict=True):
                assert abs(each.log_prob_nats - other.log_prob_nats) <= 1e-5
                forced = forced_nats(model, source, each.ids, plan).sum().item()
                assert abs(each.log_prob_nats + forced) <= 1e-5
                assert IDS.boundary_id not in each.ids
            assert len({each.ids for each in hypotheses}) == len(hypotheses)
            assert all(each.weights_TS is None for each in hypotheses)  # nobody asked for them
    first = [each[0].ids for each in search_answers([model], sources, IDS, greedy, plan=plan)]
    assert first == [each[0].ids for each in search_answers([model], sources, IDS, one, plan=plan)]


def an_ensemble_says_the_mean_of_what_its_models_say(meeting: Meeting) -> None:
    """Alone and in company; the score of an answer is that of the mean under teacher forcing."""
    models = [meeting.model(seed) for seed in (8, 9, 10)]
    plan = KernelPlan("reference")
    search = TranslationSearch(beam=BeamSettings(beam=3, n_best=2), keep_attention=True)
    generator = torch.Generator().manual_seed(8)
    sources = [torch.randint(2, SOURCES, (n,), generator=generator).tolist() for n in LENGTHS]
    together = search_answers(models, sources, IDS, search, plan=plan)
    backwards = search_answers(models[::-1], sources, IDS, search, plan=plan)
    for source, hypotheses, others in zip(sources, together, backwards, strict=True):
        (alone,) = search_answers(models, [source], IDS, search, plan=plan)
        for each, *same in zip(hypotheses, alone, others, strict=True):
            assert {one.ids for one in same} == {each.ids}
            by_token = [forced_nats(model, source, each.ids, plan) for model in models]
            mean = torch.stack(by_token).neg().exp().mean(dim=0).log().sum().item()
            assert abs(each.log_prob_nats - mean) <= PARITY_64
            assert (each.weights_TS is None) == (meeting.attention == "none")
    (first,) = search_answers(models[:1], sources[:1], IDS, search, plan=plan)
    (twice,) = search_answers(models[:1] * 2, sources[:1], IDS, search, plan=plan)
    assert [one.ids for one in first] == [one.ids for one in twice]


def forced_nats(
    model: EncoderDecoder, source: list[int], answer: tuple[int, ...], plan: KernelPlan
) -> Tensor:
    """The loss of each token of an answer and of its stop mark, nats_T."""
    target_BT = torch.tensor([answer], dtype=torch.int64).reshape(1, len(answer))
    batch = Pairs(
        torch.tensor([source]),
        torch.tensor([len(source)]),
        target_BT,
        torch.tensor([len(answer)]),
    )
    _, answers_BT = shifted(target_BT, batch.target_lengths_B, IDS.boundary_id)
    logits_TV = valid_logits(output(model, batch, plan), batch, 0)
    return torch.nn.functional.cross_entropy(logits_TV, answers_BT[0], reduction="none")


TRANSLATION_PROMISES: Mapping[str, Callable[[Meeting], None]] = MappingProxyType(
    {
        promise.__name__: promise
        for promise in (
            a_pair_is_answered_alone_as_in_any_batch,
            what_stands_at_padding_changes_no_bit,
            all_steps_at_once_are_those_of_one_by_one,
            weights_sum_to_one_and_are_exactly_zero_on_padding,
            a_source_of_nothing_is_an_error,
            a_search_finds_the_same_in_any_company,
            an_ensemble_says_the_mean_of_what_its_models_say,
        )
    }
)


def all_meetings() -> list[Meeting]:
    """Every kind of attention, query and place of the context; GRU and LSTM."""
    kinds = ("dot", "scaled_dot", "projected", "additive", "multi_head")
    places = ("transition", "output", "both")
    attending = [
        Meeting(kind, attention, query, context)
        for kind, attention, query, context in product(
            ("gru", "lstm"), kinds, ("previous", "current"), places
        )
    ]
    fixed = [
        Meeting(kind, "none", "current", context)
        for kind, context in product(("gru", "lstm"), ("state", *places))
    ]
    covered = [
        Meeting("gru", "additive", query, context, "vector")
        for query, context in product(("previous", "current"), places)
    ]
    return [*fixed, *attending, *covered]
