"""From files to token arrays: read, split, learn the vocabulary from the training part, encode.

A text is read in pieces, as often as needed, and ids go to files that are mapped into memory, so
that a corpus may be larger than memory. Passes: one to measure and split, one to learn the
vocabulary, one to encode each part.
"""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elman.checkpoints.free_space import require_space
from elman.checkpoints.run_folder import SHARDS
from elman.config.data_settings import DataSettings
from elman.config.settings import Settings
from elman.config.text_settings import TextSettings
from elman.data.splits import LineStarts, split_lines, split_stream
from elman.data.token_array import (
    TokenArray,
    reversed_chunks,
    write_line_array,
    write_token_array,
)
from elman.errors import DataError, SettingError
from elman.recipes.corpus import Corpus, open_corpus
from elman.recipes.prepared_text import PART_NAMES, Part, PartName, PreparedText
from elman.recipes.sharding.large_text import LARGE_CHARACTERS, LargeText
from elman.recipes.tally import TextTally
from elman.recipes.text_notices import few_held_out, learnt_too, oddities, unknown_words
from elman.text.building import build_tokenizer, encode_chunks, learn_and_encode
from elman.text.encodings import holds_surrogate
from elman.text.raw_files import is_standard_input
from elman.text.reading import TextReport
from elman.text.tokenizer import Tokenizer

BYTES_A_CHARACTER = 2
"""Room on the disk that the ids of a large text take, with its shards, for each character."""


@dataclass(frozen=True)
class _Slices:
    """The pieces of text that make one part: characters start to stop of a corpus."""

    corpus: Corpus
    start: int = 0
    stop: int | None = None

    def chunks(self) -> Iterator[str]:
        position = 0
        for chunk in self.corpus.chunks():
            first = max(self.start - position, 0)
            last = len(chunk) if self.stop is None else self.stop - position
            if last <= 0:
                return
            if first < len(chunk):
                yield chunk[first:last]
            position += len(chunk)


@dataclass
class _Passes:
    """What the passes over the files have seen so far."""

    reports: list[TextReport] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def prepare_text(settings: Settings, scratch: Path) -> PreparedText:
    """Read, split, tokenise and encode; ids are written into the folder `scratch`.

    Raises `DataError` for files that cannot be read and for a training part with nothing to
    predict.
    """
    inputs = (*settings.data.train, *settings.data.valid, *settings.data.test)
    for name in inputs:
        if holds_surrogate(name):
            raise DataError(
                "the name of a file must be valid UTF-8, to be written down", got=repr(name)
            )
    times = sum(map(is_standard_input, inputs))
    if times > 1:
        raise SettingError(
            "standard input can be read only once",
            got=f"- named {times} times in data.train, data.valid and data.test",
        )
    corpora = {
        name: open_corpus(
            names,
            encoding=settings.text.encoding,
            repeats=settings.data.repeats,
            scratch=scratch,
        )
        for name in PART_NAMES
        if (names := getattr(settings.data, name))
    }
    if "train" not in corpora:
        raise DataError("there is nothing to learn from", hint="name a text with --data FILE")
    passes = _Passes()
    prepare = _prepare_stream if settings.text.unit == "stream" else _prepare_lines
    tokenizer, parts = prepare(settings, corpora, scratch, passes)
    shutil.rmtree(scratch / SHARDS, ignore_errors=True)
    train = parts["train"]
    same = [name for name, part in parts.items() if part is not train and part.is_same(train)]
    counts: dict[str, int] = {name: part.num_predicted for name, part in parts.items()}
    unknown: dict[str, int] = {name: part.unknown for name, part in parts.items()}
    notices = [*passes.notices, *tokenizer.notices, *oddities(passes.reports), *learnt_too(same)]
    notices += [*few_held_out(counts), *unknown_words(settings.text, unknown, counts)]
    return PreparedText(tokenizer, parts, tuple(passes.reports), tuple(notices))


def _prepare_stream(
    settings: Settings, corpora: dict[PartName, Corpus], scratch: Path, passes: _Passes
) -> tuple[Tokenizer, dict[PartName, Part]]:
    slices = _stream_slices(settings.data, corpora, passes)
    train = slices["train"]
    large = _large_text(settings, scratch, (train.stop or 0) - train.start)
    tally = TextTally()
    tokenizer, learnt = _learn(settings.text, tally, train, large)
    parts: dict[PartName, Part] = {}
    for name, piece in slices.items():
        if name == "train" and learnt is not None:
            encoded: Iterable[npt.NDArray[np.int32]] = learnt
        else:
            tally = TextTally()
            text = tally.text(piece.chunks())
            encoded = large.ids(tokenizer, text) if large else encode_chunks(tokenizer, text)
        ids = _written(settings.text, tokenizer, scratch, name, tally.ids(tokenizer, encoded))
        parts[name] = Part(ids, tally.characters, tally.utf8_bytes, tally.unknown)
    return tokenizer, parts


def _large_text(settings: Settings, scratch: Path, characters: int) -> LargeText | None:
    """Return what makes ids shard by shard where a text is large, and tokens are to be found.

    Characters and bytes are made in one go: to hand a shard over takes longer. Raises `RunError`
    where a large text's ids have no room.
    """
    if characters < LARGE_CHARACTERS:
        return None
    require_space(scratch, characters * BYTES_A_CHARACTER, "the ids of so large a text")
    if settings.text.level not in ("word", "bpe"):
        return None
    return LargeText(scratch / SHARDS, settings.text, workers=settings.data.workers)


def _learn(
    settings: TextSettings, tally: TextTally, piece: _Slices, large: LargeText | None
) -> tuple[Tokenizer, list[npt.NDArray[np.int32]] | None]:
    """Return the tokenizer of the training text, and its ids where they came at the same time.

    Words of a text that fits into memory are split once for both, which takes half the time.
    """
    if large:
        return large.tokenizer(piece.chunks), None
    if settings.level == "word":
        return learn_and_encode(tally.text(piece.chunks()), settings)
    return build_tokenizer(piece.chunks(), settings), None


def _written(
    settings: TextSettings,
    tokenizer: Tokenizer,
    scratch: Path,
    name: PartName,
    pieces: Iterable[npt.NDArray[np.int32]],
) -> TokenArray:
    """Write the ids of a stream as it is read: backward they are written, turned and taken away."""
    path, size = scratch / f"{name}.ids.npy", len(tokenizer.vocabulary)
    if settings.direction == "forward":
        return write_token_array(path, pieces, size)
    forward = scratch / f"{name}.forward.npy"
    turned = write_token_array(
        path, reversed_chunks(write_token_array(forward, pieces, size)), size
    )
    forward.unlink()
    return turned


def _stream_slices(
    data: DataSettings, corpora: dict[PartName, Corpus], passes: _Passes
) -> dict[PartName, _Slices]:
    """Measure the training text once and cut the parts that have no files of their own."""
    length = 0
    line_starts = LineStarts()
    for chunk in corpora["train"].chunks(passes.reports):
        points_N = np.frombuffer(chunk.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        ends_N = np.flatnonzero(points_N == ord("\n")).astype(np.int64)
        line_starts.add(ends_N + length + 1)
        length += len(chunk)
    split = split_stream(
        length,
        valid_fraction=0.0 if "valid" in corpora else data.valid_fraction,
        test_fraction=0.0 if "test" in corpora else data.test_fraction,
        line_starts_N=line_starts.positions(),
    )
    passes.notices.extend(split.notices)
    slices: dict[PartName, _Slices] = {}
    for name, cut in zip(PART_NAMES, (split.train, split.valid, split.test), strict=True):
        if name != "train" and name in corpora:
            slices[name] = _Slices(corpora[name])
        elif cut.stop > cut.start or name == "train":
            slices[name] = _Slices(corpora["train"], cut.start, cut.stop)
    return slices


def _prepare_lines(
    settings: Settings, corpora: dict[PartName, Corpus], scratch: Path, passes: _Passes
) -> tuple[Tokenizer, dict[PartName, Part]]:
    num_lines = characters = 0
    for line in corpora["train"].lines(passes.reports):
        num_lines += bool(line.strip())
        characters += len(line)
    if num_lines == 0:
        raise DataError("the text has no line to learn from", got="only blank lines")
    split = split_lines(
        num_lines,
        valid_fraction=0.0 if "valid" in corpora else settings.data.valid_fraction,
        test_fraction=0.0 if "test" in corpora else settings.data.test_fraction,
        seed=settings.training.seed,
        mode="tail" if settings.data.split == "tail" else "shuffled",
    )
    passes.notices.extend(split.notices)
    chosen = dict(zip(PART_NAMES, (split.train_N, split.valid_N, split.test_N), strict=True))
    learnt_from_N = np.zeros(num_lines, dtype=bool)
    learnt_from_N[chosen["train"]] = True
    large = _large_text(settings, scratch, characters)

    def learnt_from() -> Iterator[str]:
        lines = zip(_full_lines(corpora["train"]), learnt_from_N, strict=True)
        return (line for line, use in lines if use)

    if large:
        tokenizer = large.tokenizer(learnt_from)
    else:
        tokenizer = build_tokenizer((f"{line}\n" for line in learnt_from()), settings.text)
    parts: dict[PartName, Part] = {}
    for name in PART_NAMES:
        if name != "train" and name in corpora:
            kept_N = None
        elif len(chosen[name]):
            kept_N = chosen[name]
        else:
            continue
        corpus = corpora[name] if kept_N is None else corpora["train"]
        encoder = _LineEncoder(settings.text, tokenizer, large, scratch, passes)
        parts[name] = encoder.part(name, corpus, kept_N)
    return tokenizer, parts


def _full_lines(corpus: Corpus) -> Iterator[str]:
    """Yield the lines that are not blank; a line is a sequence, and a blank one says nothing."""
    return (line for line in corpus.lines() if line.strip())


@dataclass(frozen=True)
class _LineEncoder:
    """Writes the ids of the chosen lines of a corpus."""

    settings: TextSettings
    tokenizer: Tokenizer
    large: LargeText | None
    scratch: Path
    passes: _Passes

    def part(self, name: PartName, corpus: Corpus, kept_N: npt.NDArray[np.int64] | None) -> Part:
        """Return the part of the lines numbered `kept_N` (ascending, blank ones not counted)."""
        tally = TextTally()
        lines = tally.text(_chosen_lines(corpus, kept_N, tally))
        step = -1 if self.settings.direction == "backward" else 1
        if self.large:
            rows: Iterable[npt.NDArray[np.int32]] = self.large.ids(self.tokenizer, lines)
        else:
            rows = map(self.tokenizer.encode, lines)
        encoded = tally.ids(self.tokenizer, (row[::step] for row in rows))
        written = write_line_array(self.scratch, name, encoded, len(self.tokenizer.vocabulary))
        if tally.blank_lines and (kept_N is None or name == "train"):
            self.passes.notices.append(f"{tally.blank_lines:,} blank lines are left out")
        # Each line's end is a character of the file, predicted as the stop mark.
        ends = len(written)
        return Part(written, tally.characters + ends, tally.utf8_bytes + ends, tally.unknown)


def _chosen_lines(
    corpus: Corpus, kept_N: npt.NDArray[np.int64] | None, tally: TextTally
) -> Iterator[str]:
    wanted = None if kept_N is None else iter([*kept_N.tolist(), -1])
    following = -1 if wanted is None else next(wanted)
    number = 0
    for line in corpus.lines():
        if not line.strip():
            tally.blank_lines += 1
            continue
        if wanted is None:
            yield line
        elif number == following:
            yield line
            following = next(wanted)
        number += 1
