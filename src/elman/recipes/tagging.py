"""A tagger at work: tags for sentences, figures for tagged ones."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch

from elman.config.settings import Settings
from elman.data.batches import BatchSource
from elman.data.examples import TagBatch
from elman.decoding.in_order import Exchange, decode_in_order
from elman.evaluation.tag_report import TagReport, tag_figures
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.models.tagger import SequenceTagger
from elman.processes import Processes
from elman.recipes.tag_reading import tagged_files
from elman.recipes.tag_vocabulary import TagVocabulary
from elman.recipes.trained import open_members, require_same_text
from elman.seeding import generator

DECODED_AT_ONCE = 64
"""Sentences of one batch, of like lengths; it changes no tag and no number beyond rounding."""


class TaggedTokens(NamedTuple):
    """The tags of a sentence as files spell them, and how probable the model finds each.

    A probability is that of the tag in the scheme learnt, at its token, summed over all sequences
    of tags, also those that the scheme does not allow.
    """

    tags: tuple[str, ...]
    probs: tuple[float, ...]


@dataclass(frozen=True)
class TrainedTagger:
    """What tagging needs of a run."""

    settings: Settings
    vocabulary: TagVocabulary
    model: SequenceTagger
    plan: KernelPlan
    processes: Processes = field(default_factory=Processes)

    def tag(
        self,
        sentences: Iterable[Sequence[str]],
        *,
        batch_size: int = DECODED_AT_ONCE,
    ) -> Iterator[list[str]]:
        """Yield the tags of each sentence as files spell them, in order; [] for one without tokens.

        A sentence has the same tags alone and in every batch.
        """
        for tags in decode_in_order(sentences, self._decode, batch_size=batch_size):
            yield tags or []

    def answers(
        self, sentences: Iterable[Sequence[str]], *, batch_size: int = DECODED_AT_ONCE
    ) -> Iterator[TaggedTokens]:
        """Yield the tags of each sentence with their probabilities, in order."""
        exchange = Exchange(self.processes, list, lambda told: TaggedTokens(*map(tuple, told)))
        for answer in decode_in_order(
            sentences, self._answer, batch_size=batch_size, exchange=exchange
        ):
            yield answer or TaggedTokens((), ())

    def emissions(self, sentences: Sequence[Sequence[str]]) -> tuple[torch.Tensor, TagBatch]:
        """Return emissions_BTC of sentences that all have tokens, and the batch they came from."""
        batch = self.vocabulary.batch(sentences)
        with torch.inference_mode():
            return self.model(batch, plan=self.plan), batch

    def _decode(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        emissions_BTC, batch = self.emissions(sentences)
        return self.best(emissions_BTC, batch)[0]

    def _answer(self, sentences: Sequence[Sequence[str]]) -> list[TaggedTokens]:
        emissions_BTC, batch = self.emissions(sentences)
        tags, best_BT = self.best(emissions_BTC, batch)
        with torch.inference_mode():
            probs_BTC = self.model.tag_probs(emissions_BTC, batch.lengths_B)
            chosen_BT = probs_BTC.gather(2, best_BT.unsqueeze(2)).squeeze(2).tolist()
        rows = zip(tags, chosen_BT, strict=True)
        return [TaggedTokens(tuple(row), tuple(probs[: len(row)])) for row, probs in rows]

    def best(
        self, emissions_BTC: torch.Tensor, batch: TagBatch
    ) -> tuple[list[list[str]], torch.Tensor]:
        """Return the best tags as files spell them, and their ids best_BT in the scheme learnt."""
        tags = self.vocabulary.tags
        with torch.inference_mode():
            best_BT = self.model.best_tags(emissions_BTC, batch.lengths_B, tags.allowed())
        rows = zip(best_BT.tolist(), batch.lengths_B.tolist(), strict=True)
        return [tags.as_written(row[:length]) for row, length in rows], best_BT


def open_tagger(path: str | Path) -> TrainedTagger:
    """Open the run of a tagger at `path` and load its best weights.

    Raises `RunError` where that cannot be, as where it is a run of another task.
    """
    (folder,) = open_members(path, (), task="tag", otherwise="is no tagger")
    settings = folder.settings
    vocabulary = TagVocabulary.of_files(folder.vocabularies)
    require_same_text(settings.text, vocabulary.words, folder.path)
    model = new_tagger(settings, vocabulary, seed=0)
    folder.load_weights(model)
    return TrainedTagger(settings, vocabulary, model, KernelPlan(settings.training.kernels))


def new_tagger(settings: Settings, vocabulary: TagVocabulary, *, seed: int) -> SequenceTagger:
    """Return a tagger of these settings with new weights."""
    return SequenceTagger(
        settings.model,
        len(vocabulary.words),
        len(vocabulary.characters),
        len(vocabulary.tags),
        generator(seed, "initialisation"),
    )


def tag_loss(model: SequenceTagger, source: BatchSource[TagBatch], *, plan: KernelPlan) -> LossSum:
    """Return Σ −log p of the tags of all batches of an epoch, without noise."""
    total = LossSum.zero()
    with torch.inference_mode():
        for index in range(source.batches_per_epoch(0)):
            batch = source.batch(0, index)
            emissions_BTC = model(batch, plan=plan)
            nats = model.tag_nats(emissions_BTC, batch.tags_BT, batch.lengths_B)
            total += LossSum(nats, batch.num_targets)
    return total


def tag_report(
    tagger: TrainedTagger,
    rows: Sequence[tuple[Sequence[str], Sequence[str]]],
    *,
    batch_size: int = DECODED_AT_ONCE,
    on_scored: Callable[[int], None] = lambda num_tokens: None,
) -> TagReport:
    """Return all figures for sentences of tokens and gold tags, beside the words' usual tags."""
    vocabulary = tagger.vocabulary
    normal = [[vocabulary.words.normalise(token) for token in tokens] for tokens, _ in rows]
    gold = [list(tags) for _, tags in rows]
    predicted, loss = _tags_and_loss(tagger, rows, batch_size, on_scored)
    usual = [vocabulary.usual_tags(tokens) for tokens in normal]
    written = vocabulary.tags.written
    known = vocabulary.known_words
    figures = [
        tag_figures(
            gold,
            given,
            words=normal,
            train_words=known,
            tags=tags,
            scheme=None if written == "none" else written,
        )
        for given, tags in (
            (predicted, vocabulary.tags.written_tags),
            (usual, vocabulary.usual.tags),
        )
    ]
    return TagReport(figures[0], figures[1], loss.nats.item(), loss.count)


def _tags_and_loss(
    tagger: TrainedTagger,
    rows: Sequence[tuple[Sequence[str], Sequence[str]]],
    batch_size: int,
    on_scored: Callable[[int], None],
) -> tuple[list[list[str]], LossSum]:
    """Return the predicted tags of each sentence, and the loss over those of known gold tags."""
    losses = [LossSum.zero()]

    def decode(chunk: list[Sequence[tuple[str, int | None]]]) -> list[list[str]]:
        emissions_BTC, batch = tagger.emissions([[token for token, _ in row] for row in chunk])
        losses.append(_loss_of_known(tagger, emissions_BTC, batch, chunk))
        return tagger.best(emissions_BTC, batch)[0]

    with_ids = (
        list(zip(tokens, tagger.vocabulary.tags.ids(tags), strict=True)) for tokens, tags in rows
    )
    predicted, done = list[list[str]](), 0
    exchange = Exchange[list[str]](tagger.processes, list, list)
    for tags in decode_in_order(with_ids, decode, batch_size=batch_size, exchange=exchange):
        predicted.append(tags or [])
        done += len(predicted[-1])
        on_scored(done)
    return predicted, sum(losses[1:], losses[0]).over(tagger.processes)


def _loss_of_known(
    tagger: TrainedTagger,
    emissions_BTC: torch.Tensor,
    batch: TagBatch,
    rows: Sequence[Sequence[tuple[str, int | None]]],
) -> LossSum:
    """Return the loss of the rows of a batch whose tags the tagger all knows."""
    known, tags_BT = list[int](), torch.zeros_like(batch.ids_BT)
    for place, row in enumerate(rows):
        ids = [number for _, number in row if number is not None]
        if len(ids) == len(row):
            known.append(place)
            tags_BT[place, : len(ids)] = torch.tensor(ids)
    if not known:
        return LossSum.zero()
    lengths_B = batch.lengths_B[known]
    with torch.inference_mode():
        nats = tagger.model.tag_nats(emissions_BTC[known], tags_BT[known], lengths_B)
    return LossSum(nats, int(lengths_B.sum()))


def score_tagged(
    tagger: TrainedTagger,
    names: Sequence[str],
    *,
    encoding: str | None = None,
    batch_size: int = DECODED_AT_ONCE,
    on_scored: Callable[[int], None] = lambda num_tokens: None,
) -> tuple[TagReport, tuple[str, ...]]:
    """Return all figures for the tagged files of these names, and lines to show a person.

    Columns are those of the run. Raises `DataError` for files that cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
        files = tagged_files(
            names,
            tagger.settings.data,
            encoding=encoding or tagger.settings.text.encoding,
            scratch=Path(scratch),
        )
        sentences = files.sentences(written=tagger.vocabulary.tags.written)
        rows = [(sentence.tokens, sentence.tags) for sentence in sentences]
    report = tag_report(tagger, rows, batch_size=batch_size, on_scored=on_scored)
    return report, tuple(files.notices())
