"""The exact score of files under a trained model, and the surprisal of each of their tokens."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from elman.atomic_files import writing_atomically
from elman.config.text_settings import UnknownPolicy
from elman.errors import DataError, SettingError
from elman.evaluation.language import score_lines, score_stream
from elman.evaluation.scorers import ModelScorer, TokenScorer
from elman.evaluation.surprisal import (
    RowSink,
    SurprisalTable,
    TokenRows,
    in_parts,
    in_reading_order,
    score_line_rows,
    score_stream_rows,
    turned_rows,
)
from elman.evaluation.units import LanguageScore
from elman.processes import Processes
from elman.recipes.corpus import Corpus, open_corpus
from elman.recipes.held_out import stream_boundary
from elman.recipes.tally import TextTally
from elman.recipes.text_notices import oddities
from elman.recipes.trained import TrainedModel
from elman.text.building import pieces_of
from elman.text.normalising import normalised_chunks
from elman.text.reading import TextReport
from elman.text.vocabulary import BOUNDARY

TOKENS_AT_ONCE = 4096
"""Tokens handed on at once, after which progress is told."""


@dataclass(frozen=True)
class ScoreRequest:
    """What to score and how; None means: as the run says. No size changes a number.

    ensemble: runs whose probabilities are averaged with those of the run, for rows and sequences.
    processes: each of several scores a share of the rows, and all know all of it.
    """

    names: tuple[str, ...]
    encoding: str | None = None
    unknown: UnknownPolicy | None = None
    per_token: Path | None = None
    batch_size: int = 64
    window: int = 1024
    ensemble: tuple[Path, ...] = ()
    processes: Processes = field(default_factory=Processes)


@dataclass
class _Rows:
    """Text as rows of tokens, with the counts that a score needs."""

    trained: TrainedModel
    policy: UnknownPolicy | None
    on_scored: Callable[[int], None]
    tally: TextTally = field(default_factory=TextTally)
    reports: list[TextReport] = field(default_factory=list)
    num_skipped: int = 0
    num_read: int = 0

    def of_stream(self, chunks: Iterable[str]) -> Iterator[TokenRows]:
        """Yield the tokens of a stream as it is read; backward it is held as a whole."""
        rows = self._of_stream(chunks)
        if self.trained.settings.text.direction == "forward":
            return rows
        return (turned_rows(piece) for piece in reversed(list(rows)))

    def _of_stream(self, chunks: Iterable[str]) -> Iterator[TokenRows]:
        """Yield the tokens of a stream with their offsets in its normalised text."""
        tokenizer = self.trained.tokenizer
        form = tokenizer.settings.normal_form
        position = 0
        normal = normalised_chunks(self.tally.text(chunks), form)
        for piece in pieces_of(normal, tokenizer.safe_cut):
            for rows in in_parts(self._rows(piece, position), TOKENS_AT_ONCE):
                yield rows
                self._count(rows)
            position += len(piece)

    def of_lines(self, corpus: Corpus) -> Iterator[TokenRows]:
        """Yield the tokens of each line that is not blank, with their offsets in the whole text."""
        position = 0
        for line in corpus.lines(self.reports):
            text = self.trained.tokenizer.normalise(line)
            if text.strip():
                # The line's end is a character of the text: the stop mark predicts it.
                self.tally.characters += len(line) + 1
                self.tally.utf8_bytes += len(line.encode("utf-8", "surrogatepass")) + 1
                rows = self._rows(text, position)
                backward = self.trained.settings.text.direction == "backward"
                yield turned_rows(rows) if backward else rows
                self._count(rows)
            else:
                self.tally.blank_lines += 1
            position += len(text) + 1

    def _count(self, rows: TokenRows) -> None:
        self.num_read += len(rows.ids)
        self.on_scored(self.num_read)

    def _rows(self, text: str, position: int) -> TokenRows:
        tokenizer = self.trained.tokenizer
        ids, starts, ends = tokenizer.encode_with_offsets(text, policy=self.policy)
        if tokenizer.checked_policy(self.policy) == "skip":
            self.num_skipped += _num_symbols(self.trained, text) - len(ids)
        texts = [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return TokenRows(ids, starts + position, ends + position, texts)


def score_files(
    trained: TrainedModel,
    request: ScoreRequest,
    *,
    scorer: TokenScorer | None = None,
    sink: RowSink | None = None,
    on_scored: Callable[[int], None] = lambda num_tokens: None,
) -> tuple[LanguageScore, tuple[str, ...]]:
    """Score the text of the files named, in constant memory; write its surprisals where asked.

    `scorer` takes the place of the model alone (`elman.recipes.mixing`); `sink` is told of each
    token where no table is asked for.

    Also returned are lines to show: what is odd about the files. Raises `DataError` for what cannot
    be read and where there is nothing to predict, and `UnknownSymbolError` under the policy refuse.
    """
    for name, value in (("--batch-size", request.batch_size), ("--window", request.window)):
        if value < 1:
            raise SettingError(f"{name} must be an int >= 1", got=str(value))
    rows = _Rows(trained, request.unknown, on_scored)
    by = ModelScorer(trained.model, trained.plan) if scorer is None else scorer
    with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
        corpus = open_corpus(
            request.names,
            encoding=request.encoding or trained.settings.text.encoding,
            repeats="keep",
            scratch=Path(scratch),
        )
        if request.per_token is None:
            score = _score(trained, by, rows, corpus, request, sink)
        else:
            with writing_atomically(request.per_token) as table:
                own = SurprisalTable(table, trained.tokenizer.vocabulary.unk_id)
                with in_reading_order(own, trained.settings.text.direction) as told:
                    score = _score(trained, by, rows, corpus, request, told)
    if not score.num_tokens:
        raise DataError(
            "there is nothing to predict in the text",
            got=f"{rows.tally.characters} character{'s'[: rows.tally.characters != 1]}",
            allowed="a text of two tokens or more",
        )
    whole = score.with_text(
        characters=rows.tally.characters,
        utf8_bytes=rows.tally.utf8_bytes,
        num_skipped=rows.num_skipped,
    )
    blank = rows.tally.blank_lines
    notices = [f"{blank:,} blank line{'s'[: blank != 1]} left out"] if blank else []
    return whole, (*notices, *oddities(rows.reports))


def score_sentences(
    trained: TrainedModel, sentences: Sequence[str], *, policy: UnknownPolicy | None = None
) -> list[float]:
    """Return -ln p of each sentence as a whole, in nats, each by itself.

    Lines have their start and stop marks. Sentences of a stream follow a line end (or the start
    mark, where the run has one), as if each were the first of a paragraph.
    """
    tokenizer, vocabulary = trained.tokenizer, trained.tokenizer.vocabulary
    step = -1 if trained.settings.text.direction == "backward" else 1
    encoded = [tokenizer.encode(sentence, policy=policy)[::step] for sentence in sentences]
    if trained.settings.text.unit == "line":
        assert vocabulary.boundary_id is not None
        totals: dict[int, float] = {}
        score_lines(
            trained.model,
            encoded,
            plan=trained.plan,
            boundary_id=vocabulary.boundary_id,
            on_line=lambda number, nats_N, _: totals.__setitem__(number, float(nats_N.sum())),
        )
        return [totals[number] for number in range(len(encoded))]
    before = trained.tokenizer.first_context
    return [
        score_stream(
            trained.model,
            [np.concatenate([[before], ids])],
            plan=trained.plan,
        ).loss_nats
        for ids in encoded
    ]


def _score(
    trained: TrainedModel,
    scorer: TokenScorer,
    rows: _Rows,
    corpus: Corpus,
    request: ScoreRequest,
    sink: RowSink | None,
) -> LanguageScore:
    vocabulary = trained.tokenizer.vocabulary
    if trained.settings.text.unit == "line":
        assert vocabulary.boundary_id is not None
        return score_line_rows(
            scorer,
            rows.of_lines(corpus),
            sink,
            boundary_id=vocabulary.boundary_id,
            boundary_text=BOUNDARY,
            batch_size=request.batch_size,
            unk_id=vocabulary.unk_id,
            processes=request.processes,
        )
    if request.processes.size > 1:
        raise SettingError(
            "a stream is read from its beginning to its end, which one process does",
            got=f"{request.processes.size} processes for a run with text.unit = stream",
            hint="leave torchrun out; a run of lines is scored by several",
        )
    return score_stream_rows(
        scorer,
        rows.of_stream(corpus.chunks(rows.reports)),
        sink,
        window=request.window,
        boundary_id=stream_boundary(trained.settings, vocabulary),
        unk_id=vocabulary.unk_id,
    )


def _num_symbols(trained: TrainedModel, text: str) -> int:
    """Return how many tokens `text` has when none is skipped (char and word: others skip none)."""
    if trained.tokenizer.level == "char":
        return len(text)
    line_ends = text.count("\n") if trained.settings.text.unit == "stream" else 0
    return len(text.split()) + line_ends
