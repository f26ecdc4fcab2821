"""The promises of language models: what state, cuts, padding, neighbours and order must not do."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from model_promises import KINDS
from subjects import EXACT_64, assert_close
from torch import Tensor

from elman.checkpoints.belonging import Belonging
from elman.checkpoints.weights import load_weights, map_weights, save_weights
from elman.config.model_settings import ModelSettings
from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import Generation
from elman.decoding.generation_state import GenerationState
from elman.evaluation.language import score_lines, score_stream
from elman.kernels.dispatch import KernelPlan
from elman.layers.context import select_rows
from elman.losses import token_nats
from elman.models.language import LanguageModel
from elman.models.language_models import new_language_model
from elman.models.ngram.counting import count_grams, joined
from elman.models.ngram.smoothing import Smoothing, SmoothingOptions, estimate
from elman.models.ngram_model import NgramLanguageModel

SIZE = 7
LENGTHS = (9, 1, 14, 5, 14)

_LEARNT: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        **{kind: {"kind": kind, "num_layers": 2} for kind in KINDS},
        "window": {"kind": "window", "context_length": 3},
        "window of one": {"kind": "window", "context_length": 1},
        "window, direct": {"kind": "window", "context_length": 4, "direct_connections": True},
        "window, tied": {"kind": "window", "context_length": 3, "tie_weights": True},
        "transformer, rotary": {"kind": "transformer", "context_length": 5, "num_layers": 2},
        "transformer, learned": {
            "kind": "transformer",
            "context_length": 5,
            "num_layers": 2,
            "positions": "learned",
        },
        "transformer of one": {"kind": "transformer", "context_length": 1},
        "transformer, tied": {"kind": "transformer", "context_length": 6, "tie_weights": True},
    }
)
_COUNTED: Mapping[str, tuple[int, Smoothing]] = MappingProxyType(
    {
        "ngram": (3, "kneser_ney"),
        "ngram of one": (1, "kneser_ney"),
        "ngram, back-off": (4, "kneser_ney_backoff"),
        "ngram, add-k": (3, "add_k"),
    }
)


@dataclass(frozen=True)
class LanguageSubject:
    """A language model by name, with random parameters, or counts of a random text."""

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def is_learnt(self) -> bool:
        return self.name in _LEARNT

    @property
    def tolerance(self) -> float:
        return EXACT_64

    def model(self, *, seed: int, dtype: torch.dtype = torch.float64) -> LanguageModel:
        if not self.is_learnt:
            order, method = _COUNTED[self.name]
            text = np.random.default_rng(seed).integers(0, SIZE, 60)
            grams = count_grams(joined([text], SIZE), order=order, vocabulary_size=SIZE)
            tables = estimate(grams, SIZE, SmoothingOptions(method)).tables
            settings = ModelSettings(kind="ngram", order=order, smoothing=method)
            return NgramLanguageModel(settings, tables)
        settings = ModelSettings(
            embedding_size=8, hidden_size=8, dropout=0.5, num_heads=2, **_LEARNT[self.name]
        )
        generator = torch.Generator().manual_seed(seed)
        model = new_language_model(settings, SIZE, generator)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0.0, 0.5, generator=generator)
        return model.to(dtype)


def ids(*shape: int, seed: int) -> Tensor:
    return torch.randint(0, SIZE, shape, generator=torch.Generator().manual_seed(seed))


def logits(
    model: LanguageModel, ids_BT: Tensor, state: Any = None, lengths_B: Tensor | None = None
) -> tuple[Tensor, Any]:
    output = model(ids_BT, state, lengths_B, plan=KernelPlan())
    return output.readout.logits(output.states_BTH), output.state


def no_state_is_zeros(subject: LanguageSubject) -> None:
    model, ids_BT = subject.model(seed=1), ids(3, 8, seed=2)
    none, _ = logits(model, ids_BT)
    zeros, _ = logits(model, ids_BT, model.zero_state(3))
    assert torch.equal(none, zeros)


def a_text_in_pieces_is_the_text(subject: LanguageSubject) -> None:
    model, ids_BT = subject.model(seed=3), ids(2, 17, seed=4)
    whole, after = logits(model, ids_BT)
    for cuts in ((1,), (4, 5, 13), tuple(range(1, 17))):
        state, parts = None, []
        for start, stop in zip((0, *cuts), (*cuts, 17), strict=True):
            part, state = logits(model, ids_BT[:, start:stop], state)
            parts.append(part)
        pieces = torch.cat(parts, dim=1)
        assert_close(pieces.log_softmax(2), whole.log_softmax(2), subject.tolerance, str(cuts))
        for got, want in zip(_leaves(state), _leaves(after), strict=True):
            assert_close(got, want, subject.tolerance, f"the state after {cuts}")


def gradients_reach_back_through_a_carried_state(subject: LanguageSubject) -> None:
    model, ids_BT = subject.model(seed=5), ids(2, 9, seed=6)
    weights = list(model.parameters())
    whole, _ = logits(model, ids_BT)
    want = torch.autograd.grad(whole.square().sum(), weights, materialize_grads=True)
    first, state = logits(model, ids_BT[:, :4])
    second, _ = logits(model, ids_BT[:, 4:], state)
    total = first.square().sum() + second.square().sum()
    got = torch.autograd.grad(total, weights, materialize_grads=True)
    for mine, theirs in zip(got, want, strict=True):
        assert_close(mine, theirs, 1e-10, "gradients")


def padding_and_neighbours_are_invisible(subject: LanguageSubject) -> None:
    model = subject.model(seed=7)
    rows = [ids(1, length, seed=8 + place) for place, length in enumerate(LENGTHS)]
    more = ids(1, 6, seed=30)
    for padding in (0, SIZE - 1):
        batch_BT = torch.full((len(rows), max(LENGTHS) + 2), padding)
        for place, row in enumerate(rows):
            batch_BT[place, : row.shape[1]] = row[0]
        found, state = logits(model, batch_BT, None, torch.tensor(LENGTHS))
        after, _ = logits(model, more.expand(len(rows), -1), state)
        for place, row in enumerate(rows):
            alone, own = logits(model, row)
            assert_close(found[place, : row.shape[1]], alone[0], subject.tolerance, "padded")
            then, _ = logits(model, more, own)
            assert_close(after[place], then[0], subject.tolerance, "what follows a padded row")


def rows_can_be_chosen_in_any_order(subject: LanguageSubject) -> None:
    model, ids_BT, more_BT = subject.model(seed=9), ids(3, 6, seed=10), ids(4, 3, seed=11)
    _, state = logits(model, ids_BT)
    rows_N = torch.tensor([2, 0, 0, 1])
    got, _ = logits(model, more_BT, select_rows(state, rows_N))
    for place, row in enumerate(rows_N.tolist()):
        _, own = logits(model, ids_BT[row : row + 1])
        want, _ = logits(model, more_BT[place : place + 1], own)
        assert_close(got[place], want[0], subject.tolerance, "a chosen row")


def nothing_of_the_future_is_seen(subject: LanguageSubject) -> None:
    model, ids_BT = subject.model(seed=12), ids(1, 10, seed=13)
    found, _ = logits(model, ids_BT)
    for step in range(9):
        other_BT = ids_BT.clone()
        other_BT[:, step + 1 :] = (other_BT[:, step + 1 :] + 1) % SIZE
        changed, _ = logits(model, other_BT)
        assert_close(changed[:, : step + 1], found[:, : step + 1], subject.tolerance, "the past")


def probabilities_sum_to_one_and_are_those_of_the_loss(subject: LanguageSubject) -> None:
    model, ids_BT, targets_BT = subject.model(seed=14), ids(2, 7, seed=15), ids(2, 7, seed=16)
    output = model(ids_BT, plan=KernelPlan())
    log_probs_BTV = output.readout.logits(output.states_BTH).log_softmax(dim=2)
    want_BT = -log_probs_BTV.gather(2, targets_BT.unsqueeze(2)).squeeze(2)
    got_BT = token_nats(output.states_BTH, output.readout, targets_BT, plan=KernelPlan())
    assert_close(got_BT.detach(), want_BT.detach(), 1e-10, "nats")


def scores_depend_on_no_cut_and_no_batch(subject: LanguageSubject) -> None:
    model = subject.model(seed=17)
    stream = ids(1, 60, seed=18)[0].numpy()
    scores = [
        score_stream(model, [stream[:cut], stream[cut:]], plan=KernelPlan(), window=window)
        for cut, window in ((1, 512), (30, 1), (59, 7))
    ]
    assert {score.num_tokens for score in scores} == {59}
    lines = [ids(1, length, seed=19 + place)[0].numpy() for place, length in enumerate(LENGTHS)]
    scored = [
        score_lines(model, lines, plan=KernelPlan(), boundary_id=0, batch_size=size, window=window)
        for size, window in ((1, 256), (2, 3), (5, 1))
    ]
    for group in (scores, scored):
        for other in group[1:]:
            assert abs(other.loss_nats - group[0].loss_nats) <= 1e-10 * abs(group[0].loss_nats)


def saved_and_opened_it_gives_the_same_bits(subject: LanguageSubject) -> None:
    model, ids_BT = subject.model(seed=20, dtype=torch.float32), ids(2, 9, seed=21)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_weights(path, model, update=1, belonging=Belonging("digest", None, {}))
        if subject.is_learnt:
            other = subject.model(seed=22, dtype=torch.float32)
            load_weights(path, other)
        else:
            assert isinstance(model, NgramLanguageModel)
            tensors, _ = map_weights(path)
            other = NgramLanguageModel.from_tensors(model.settings, tensors, SIZE)
        assert torch.equal(logits(model, ids_BT)[0], logits(other, ids_BT)[0])


def a_generation_goes_on_from_its_saved_state(subject: LanguageSubject) -> None:
    model = subject.model(seed=23, dtype=torch.float32)

    def generation() -> Generation:
        sampling = SamplingSettings(temperature=1.0, seed=5)
        return Generation(model, sampling, plan=KernelPlan("reference"))

    one = generation()
    one.feed([1, 2, 3])
    want = [one.step() for _ in range(20)]
    first = generation()
    first.feed([1, 2, 3])
    got = [first.step() for _ in range(8)]
    state = first.state()
    second = generation()
    second.restore(GenerationState.from_parts(state.tensors(), state.facts(), model))
    got += [second.step() for _ in range(12)]
    assert got == want


def _leaves(state: Any) -> list[Tensor]:
    if isinstance(state, Tensor):
        return [state]
    return [leaf for part in state or () for leaf in _leaves(part)]


LANGUAGE_PROMISES: Mapping[str, Callable[[LanguageSubject], None]] = MappingProxyType(
    {
        promise.__name__: promise
        for promise in (
            no_state_is_zeros,
            a_text_in_pieces_is_the_text,
            gradients_reach_back_through_a_carried_state,
            padding_and_neighbours_are_invisible,
            rows_can_be_chosen_in_any_order,
            nothing_of_the_future_is_seen,
            probabilities_sum_to_one_and_are_those_of_the_loss,
            scores_depend_on_no_cut_and_no_batch,
            saved_and_opened_it_gives_the_same_bits,
            a_generation_goes_on_from_its_saved_state,
        )
    }
)


def why_not_for_language(promise: str, subject: LanguageSubject) -> str | None:
    if promise == gradients_reach_back_through_a_carried_state.__name__ and not subject.is_learnt:
        return "counts have no gradients"
    return None


def all_language_models() -> list[LanguageSubject]:
    """Every kind of language model, in the forms that differ in what a state is."""
    return [LanguageSubject(name) for name in (*_LEARNT, *_COUNTED)]
