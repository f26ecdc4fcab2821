"""From files to token arrays: read, split, learn the vocabulary from the training part, encode.

A text is read in pieces, as often as needed, and ids go to files that are mapped into memory, so
that a corpus may be larger than memory. Passes: one to measure and split, one to learn the
vocabulary, one to encode each part.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from elman.checkpoints.run_folder import TOKENIZER
from elman.config.data_settings import DataSettings
from elman.config.settings import Settings
from elman.config.text_settings import TextSettings
from elman.data.splits import split_lines, split_stream
from elman.data.token_array import (
    LineArray,
    TokenArray,
    open_line_array,
    open_token_array,
    write_line_array,
    write_token_array,
)
from elman.errors import DataError, RunError, SettingError
from elman.recipes.corpus import Corpus, open_corpus
from elman.recipes.tally import TextTally
from elman.recipes.text_notices import few_held_out, learnt_too, oddities, unknown_words
from elman.text.building import build_tokenizer, encode_chunks, learn_and_encode
from elman.text.encodings import holds_surrogate
from elman.text.raw_files import is_standard_input
from elman.text.reading import TextReport
from elman.text.tokenizer import Tokenizer

PartName = Literal["train", "valid", "test"]
MOST_CHARACTERS_AT_ONCE = 500_000_000
PART_NAMES: tuple[PartName, ...] = ("train", "valid", "test")


@dataclass(frozen=True)
class Part:
    """One part of the data, encoded: what `sequences` holds is a stream or lines."""

    ids: TokenArray | LineArray
    characters: int
    utf8_bytes: int
    unknown: int

    @property
    def num_tokens(self) -> int:
        """Tokens of text, boundary marks not counted."""
        return len(self.ids.ids) if isinstance(self.ids, LineArray) else len(self.ids)

    @property
    def num_lines(self) -> int:
        """Lines, each of which ends with a stop mark; 0 for a stream."""
        return len(self.ids) if isinstance(self.ids, LineArray) else 0

    @property
    def num_predicted(self) -> int:
        """Tokens of text and stop marks: all that a score counts, but for a stream's first."""
        return self.num_tokens + self.num_lines

    def is_same(self, other: "Part") -> bool:
        """Return whether both have the same ids; a digest is made only of parts of one size."""
        sizes = self.num_tokens, self.num_lines
        return sizes == (other.num_tokens, other.num_lines) and (
            self.ids.digest() == other.ids.digest()
        )

    def facts(self) -> dict[str, object]:
        """Return what the manifest records of this part."""
        return {
            "tokens": self.num_tokens,
            "sequences": self.num_lines or 1,
            "characters": self.characters,
            "utf8_bytes": self.utf8_bytes,
            "unknown": self.unknown,
            "ids_sha256": self.ids.digest(),
        }


@dataclass(frozen=True)
class PreparedText:
    """A tokenizer and the parts it encoded. `notices` are lines a person should see."""

    tokenizer: Tokenizer
    parts: dict[PartName, Part]
    reports: tuple[TextReport, ...]
    notices: tuple[str, ...]

    @property
    def num_targets(self) -> int:
        """Tokens to learn from."""
        return self.parts["train"].num_tokens

    def vocabularies(self) -> dict[str, str]:
        """Return the tokenizer as a run folder keeps it."""
        return {TOKENIZER: self.tokenizer.to_json()}

    def sizes(self) -> dict[str, int]:
        """Return the counts that the manifest records."""
        tokens = {f"{name}_tokens": part.num_tokens for name, part in self.parts.items()}
        return {"vocabulary": len(self.tokenizer.vocabulary), **tokens}

    def facts(self) -> dict[str, object]:
        """Return what the manifest records of the data, which `reopen_prepared` compares."""
        return {
            "parts": {name: part.facts() for name, part in self.parts.items()},
            "files": [asdict(report) for report in self.reports],
        }


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
    tally = TextTally()
    tokenizer, learnt = _learn(settings.text, tally, slices["train"])
    parts: dict[PartName, Part] = {}
    for name, piece in slices.items():
        if name == "train" and learnt is not None:
            encoded: Iterable[npt.NDArray[np.int32]] = learnt
        else:
            tally = TextTally()
            encoded = encode_chunks(tokenizer, tally.text(piece.chunks()))
        ids = write_token_array(
            scratch / f"{name}.ids.npy",
            in_direction(tally.ids(tokenizer, encoded), settings.text),
            len(tokenizer.vocabulary),
        )
        parts[name] = Part(ids, tally.characters, tally.utf8_bytes, tally.unknown)
    return tokenizer, parts


def _learn(
    settings: TextSettings, tally: TextTally, piece: _Slices
) -> tuple[Tokenizer, list[npt.NDArray[np.int32]] | None]:
    """Return the tokenizer of the training text, and its ids where they came at the same time.

    Words of a text that fits into memory are split once for both, which takes half the time.
    """
    small = piece.stop is not None and piece.stop - piece.start <= MOST_CHARACTERS_AT_ONCE
    if settings.level == "word" and small:
        return learn_and_encode(tally.text(piece.chunks()), settings)
    return build_tokenizer(piece.chunks(), settings), None


def _stream_slices(
    data: DataSettings, corpora: dict[PartName, Corpus], passes: _Passes
) -> dict[PartName, _Slices]:
    """Measure the training text once and cut the parts that have no files of their own."""
    length = 0
    line_starts = array("q")
    for chunk in corpora["train"].chunks(passes.reports):
        points_N = np.frombuffer(chunk.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        ends_N = np.flatnonzero(points_N == ord("\n")).astype(np.int64)
        line_starts.frombytes((ends_N + length + 1).tobytes())
        length += len(chunk)
    split = split_stream(
        length,
        valid_fraction=0.0 if "valid" in corpora else data.valid_fraction,
        test_fraction=0.0 if "test" in corpora else data.test_fraction,
        line_starts_N=np.frombuffer(line_starts, dtype=np.int64),
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
    num_lines = sum(1 for line in corpora["train"].lines(passes.reports) if line.strip())
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
    tokenizer = build_tokenizer(
        (
            f"{line}\n"
            for line, use in zip(_full_lines(corpora["train"]), learnt_from_N, strict=True)
            if use
        ),
        settings.text,
    )
    parts: dict[PartName, Part] = {}
    for name in PART_NAMES:
        if name != "train" and name in corpora:
            kept_N = None
        elif len(chosen[name]):
            kept_N = chosen[name]
        else:
            continue
        corpus = corpora[name] if kept_N is None else corpora["train"]
        parts[name] = _encode_lines(settings.text, tokenizer, corpus, kept_N, scratch, name, passes)
    return tokenizer, parts


def _full_lines(corpus: Corpus) -> Iterator[str]:
    """Yield the lines that are not blank; a line is a sequence, and a blank one says nothing."""
    return (line for line in corpus.lines() if line.strip())


def _encode_lines(
    settings: TextSettings,
    tokenizer: Tokenizer,
    corpus: Corpus,
    kept_N: npt.NDArray[np.int64] | None,
    scratch: Path,
    name: PartName,
    passes: _Passes,
) -> Part:
    tally = TextTally()

    def chosen_lines() -> Iterator[str]:
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

    step = -1 if settings.direction == "backward" else 1
    encoded = (tokenizer.encode(line)[::step] for line in tally.text(chosen_lines()))
    lines = write_line_array(
        scratch, name, tally.ids(tokenizer, encoded), len(tokenizer.vocabulary)
    )
    if tally.blank_lines and (kept_N is None or name == "train"):
        passes.notices.append(f"{tally.blank_lines:,} blank lines are left out")
    return Part(
        lines,
        # Each line's end is a character of the file, predicted as the stop mark.
        tally.characters + len(lines),
        tally.utf8_bytes + len(lines),
        tally.unknown,
    )


def in_direction(
    pieces: Iterable[npt.NDArray[np.int32]], settings: TextSettings
) -> Iterable[npt.NDArray[np.int32]]:
    """Return the pieces of a stream as it is read; backward it is held as a whole, and turned."""
    if settings.direction == "forward":
        return pieces
    return (piece[::-1] for piece in reversed(list(pieces)))


def reopen_prepared(
    settings: Settings, tokenizer: Tokenizer, scratch: Path, recorded: Mapping[str, object]
) -> PreparedText:
    """Return what `prepare_text` made for a run, from its arrays or else from the files again.

    `recorded` is the section `data` of the manifest. Raises `RunError` where the ids are no longer
    those that the run began with.
    """
    try:
        facts = cast(dict[PartName, dict[str, Any]], recorded["parts"])
        _check_facts(facts)
        parts = {
            name: _reopen_part(settings, scratch, name, facts[name])
            for name in PART_NAMES
            if name in facts
        }
        return PreparedText(tokenizer, parts, (), ())
    except DataError:
        scratch.mkdir(exist_ok=True)
    except (KeyError, TypeError, AttributeError):
        raise RunError(
            "the manifest of the run does not tell what its text was",
            got="another section data than was written",
            hint="put manifest.json back as it was",
        ) from None
    prepared = prepare_text(settings, scratch)
    for name, part in prepared.parts.items():
        if name not in facts or part.ids.digest() != facts[name]["ids_sha256"]:
            raise RunError(
                f"the {name} text is not the one that the run began with",
                got="other ids from the files that config.toml names",
                hint="put the files back as they were, or train anew",
            )
    return prepared


def _check_facts(facts: Mapping[PartName, Mapping[str, Any]]) -> None:
    """Raise `KeyError` or `TypeError` unless every part is known and its counts are integers."""
    if "train" not in facts or not set(facts) <= set(PART_NAMES):
        raise KeyError("train")
    for part in facts.values():
        if not all(isinstance(part[name], int) for name in ("characters", "utf8_bytes", "unknown")):
            raise TypeError("a count")


def _reopen_part(
    settings: Settings, scratch: Path, name: PartName, facts: Mapping[str, Any]
) -> Part:
    ids: TokenArray | LineArray
    if settings.text.unit == "line":
        ids = open_line_array(scratch, name)
    else:
        ids = open_token_array(scratch / f"{name}.ids.npy")
    if ids.digest() != facts["ids_sha256"]:
        raise DataError(f"the cached ids of the {name} text were altered")
    return Part(ids, facts["characters"], facts["utf8_bytes"], facts["unknown"])
