"""The promises of a tagger: every head, with and without a reader of spellings, several cells."""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from independent import ROWS
from subjects import EXACT_32, EXACT_64, PARITY_64, assert_close

from elman.config.model_settings import ModelSettings
from elman.data.examples import TagBatch
from elman.kernels.dispatch import KernelPlan
from elman.models.tagger import SequenceTagger
from elman.text.tag_schemes import allowed_transitions

WORDS, CHARACTERS = 9, 7
TAGS = ("O", "B-X", "I-X", "E-X", "S-X")
SENTENCES = ([2, 3, 4], [5], [2, 2, 6, 7, 8], [3, 8])
SPELLINGS = {2: [2, 3], 3: [4], 4: [2, 5, 6, 3], 5: [6, 6, 6], 6: [3, 2], 7: [5], 8: [2, 3, 4, 5]}
"""Word id → the ids of its characters."""


@dataclass(frozen=True)
class TaggerSubject:
    """A small tagger of one kind of cell."""

    kind: str
    head: str
    character_units: int
    build: Callable[..., SequenceTagger] = SequenceTagger

    def __str__(self) -> str:
        return f"{self.kind}, {self.head}, {self.character_units} units for spellings"

    def tagger(self, *, seed: int, dtype: torch.dtype = torch.float64) -> SequenceTagger:
        """A tagger whose parameters, biases and chain too, are normal with deviation 0.5."""
        settings = ModelSettings(
            task="tag",
            kind=self.kind,  # type: ignore[arg-type]
            head=self.head,  # type: ignore[arg-type]
            bidirectional=True,
            embedding_size=3,
            hidden_size=4,
            character_size=2,
            character_units=self.character_units,
        )
        generator = torch.Generator().manual_seed(seed)
        tagger = self.build(settings, WORDS, CHARACTERS, len(TAGS), generator)
        with torch.no_grad():
            for parameter in tagger.parameters():
                parameter.normal_(0.0, 0.5, generator=generator)
        return tagger.to(dtype)


def batch_of(sentences, *, extra: int = 0, garbage: int = 0) -> TagBatch:
    """Sentences as a batch, `extra` steps wider than needed, `garbage` at all padding."""
    words = sorted({word for sentence in sentences for word in sentence})
    shape = (len(sentences), max(map(len, sentences)) + extra)
    ids_BT = torch.full(shape, garbage)
    words_BT = torch.full(shape, 0 if not garbage else len(words) - 1)
    tags_BT = torch.full(shape, garbage % len(TAGS))
    for row, sentence in enumerate(sentences):
        ids_BT[row, : len(sentence)] = torch.tensor(sentence)
        words_BT[row, : len(sentence)] = torch.tensor([words.index(word) for word in sentence])
        tags_BT[row, : len(sentence)] = torch.tensor(sentence) % len(TAGS)
    spelled = [SPELLINGS[word] for word in words]
    spellings_WK = torch.full((len(words), max(map(len, spelled)) + extra), garbage % CHARACTERS)
    for row, spelling in enumerate(spelled):
        spellings_WK[row, : len(spelling)] = torch.tensor(spelling)
    return TagBatch(
        ids_BT,
        torch.tensor([len(sentence) for sentence in sentences]),
        words_BT,
        spellings_WK,
        torch.tensor([len(spelling) for spelling in spelled]),
        tags_BT,
    )


def emissions_of(tagger: SequenceTagger, batch: TagBatch) -> torch.Tensor:
    with torch.no_grad():
        return tagger(batch, plan=KernelPlan())


def numpy_emissions(tagger: SequenceTagger, key: str, sentence) -> np.ndarray:
    """Emissions of one sentence, word by word and step by step, in NumPy alone."""
    weights = {name: value.numpy(force=True) for name, value in tagger.named_parameters()}

    def read(prefix: str, x_TE: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        halves = []
        for way in (0, 1):
            start = f"{prefix}stack.cells.{way}."
            own = {n.removeprefix(start): w for n, w in weights.items() if n.startswith(start)}
            size = own["weight_hh"].shape[1]
            state = tuple(np.zeros(size) for _ in range(2 if key.startswith("lstm") else 1))
            turn = slice(None, None, -1 if way else 1)
            out_TH, _ = ROWS[key](x_TE[turn], state, own)
            halves.append(out_TH[turn])
        return halves[0], halves[1]

    vectors = []
    for word in sentence:
        vector = weights["encoder.embedding.weight"][word]
        if tagger.spelling is not None:
            table = weights["spelling.reader.embedding.weight"]
            forward, backward = read("spelling.reader.", table[SPELLINGS[word]])
            vector = np.concatenate([vector, forward[-1], backward[0]])
        vectors.append(vector)
    states = np.concatenate(read("encoder.", np.array(vectors)), axis=1)
    return states @ weights["weight"].T + weights["bias"]


def path_scores(tagger: SequenceTagger, emissions_TC: np.ndarray) -> dict[tuple[int, ...], float]:
    """The log-score of every sequence of tags, normalised by none."""
    num_steps, num_tags = emissions_TC.shape
    start, between, end = np.zeros(num_tags), np.zeros((num_tags, num_tags)), np.zeros(num_tags)
    if tagger.crf is not None:
        start, between, end = (part.numpy(force=True) for part in tagger.crf.chain)
    return {
        path: start[path[0]]
        + end[path[-1]]
        + sum(emissions_TC[t, tag] for t, tag in enumerate(path))
        + sum(between[a, b] for a, b in itertools.pairwise(path))
        for path in itertools.product(range(num_tags), repeat=num_steps)
    }


def equals_numpy_sentence_by_sentence(subject: TaggerSubject) -> None:
    tagger = subject.tagger(seed=1)
    key = {"lstm": "lstm", "gru": "gru/after/keep", "elman": "elman/tanh"}[subject.kind]
    emissions_BTC = emissions_of(tagger, batch_of(SENTENCES))
    for row, sentence in enumerate(SENTENCES):
        want = torch.from_numpy(numpy_emissions(tagger, key, sentence))
        assert_close(emissions_BTC[row, : len(sentence)], want, PARITY_64, f"row {row}")


def padding_is_invisible_to_the_tags(subject: TaggerSubject) -> None:
    tagger = subject.tagger(seed=2)
    allowed = allowed_transitions(TAGS, "BIOES")
    clean, dirty = batch_of(SENTENCES), batch_of(SENTENCES, extra=3, garbage=5)
    one, other = emissions_of(tagger, clean), emissions_of(tagger, dirty)
    nats = [
        tagger.tag_nats(emissions, batch.tags_BT, batch.lengths_B)
        for emissions, batch in ((one, clean), (other, dirty))
    ]
    assert_close(nats[1], nats[0], EXACT_64, "nats")
    for rule in (None, allowed):
        left = tagger.best_tags(one, clean.lengths_B, rule)
        right = tagger.best_tags(other, dirty.lengths_B, rule)
        assert torch.equal(left, right[:, : left.shape[1]])
        assert right[:, left.shape[1] :].eq(0).all()
    for row, sentence in enumerate(SENTENCES):
        width = len(sentence)
        assert_close(other[row, :width], one[row, :width], EXACT_64, f"row {row}")


def a_sentence_is_the_same_alone_and_in_any_batch(subject: TaggerSubject) -> None:
    for dtype, tolerance in ((torch.float64, EXACT_64), (torch.float32, EXACT_32)):
        tagger = subject.tagger(seed=3, dtype=dtype)
        whole = emissions_of(tagger, batch_of(SENTENCES))
        turned = emissions_of(tagger, batch_of(SENTENCES[::-1]))
        for row, sentence in enumerate(SENTENCES):
            width = len(sentence)
            alone = emissions_of(tagger, batch_of([sentence]))[0]
            assert_close(alone, whole[row, :width], tolerance, f"row {row} alone")
            assert_close(turned[-1 - row, :width], whole[row, :width], tolerance, f"row {row}")


def loss_is_a_sum_over_sentences(subject: TaggerSubject) -> None:
    tagger = subject.tagger(seed=4)
    batch = batch_of(SENTENCES)
    emissions_BTC = emissions_of(tagger, batch)
    whole = tagger.tag_nats(emissions_BTC, batch.tags_BT, batch.lengths_B)
    want = 0.0
    for row, sentence in enumerate(SENTENCES):
        scores = path_scores(tagger, emissions_BTC[row, : len(sentence)].numpy())
        log_z = math.log(sum(math.exp(score) for score in scores.values()))
        want += log_z - scores[tuple(batch.tags_BT[row, : len(sentence)].tolist())]
    assert whole.dtype == torch.float64
    assert_close(whole, torch.tensor(want, dtype=torch.float64), PARITY_64, "nats")


def best_tags_are_the_best_of_all_that_are_allowed(subject: TaggerSubject) -> None:
    tagger = subject.tagger(seed=5)
    allowed = allowed_transitions(TAGS, "BIOES")
    batch = batch_of(SENTENCES)
    emissions_BTC = emissions_of(tagger, batch)
    for rule in (None, allowed):
        best_BT = tagger.best_tags(emissions_BTC, batch.lengths_B, rule).tolist()
        for row, sentence in enumerate(SENTENCES):
            scores = path_scores(tagger, emissions_BTC[row, : len(sentence)].numpy())
            if rule is not None:
                scores = {path: score for path, score in scores.items() if follows(path, rule)}
            found = tuple(best_BT[row][: len(sentence)])
            assert found in scores, "a sequence that is not allowed"
            assert abs(scores[found] - max(scores.values())) < PARITY_64


def follows(path, allowed) -> bool:
    inside = all(allowed.between_CC[a, b] for a, b in itertools.pairwise(path))
    return bool(allowed.start_C[path[0]] and allowed.end_C[path[-1]] and inside)


TAGGER_PROMISES: Mapping[str, Callable[[TaggerSubject], None]] = MappingProxyType(
    {
        promise.__name__: promise
        for promise in (
            equals_numpy_sentence_by_sentence,
            padding_is_invisible_to_the_tags,
            a_sentence_is_the_same_alone_and_in_any_batch,
            loss_is_a_sum_over_sentences,
            best_tags_are_the_best_of_all_that_are_allowed,
        )
    }
)


def all_taggers() -> list[TaggerSubject]:
    """Three cells, both heads, with and without spellings."""
    return [
        TaggerSubject(kind, head, units)
        for kind in ("lstm", "gru", "elman")
        for head in ("softmax", "crf")
        for units in (0, 3)
    ]
