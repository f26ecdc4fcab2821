"""A text too large to be held: its tokenizer, and its ids as they come out of its shards."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from elman.atomic_files import read_utf8, write_atomically
from elman.config.text_settings import TextSettings
from elman.processes import usable_cores
from elman.recipes.sharding.shard import NAME_LENGTH, Shard, depends_on
from elman.recipes.sharding.team import made_shards
from elman.text.building import build_tokenizer, pieces_of
from elman.text.normalising import normalise, normalised_chunks
from elman.text.subwords import cut_before_blank
from elman.text.tokenizer import Ids, Tokenizer, checked_text
from elman.text.tokenizer_file import tokenizer_from_json
from elman.text.word_count import WordCount, ids_of_words, known_ids
from elman.text.words import WordTokenizer, cut_after_blank

SHARD_CHARACTERS = 1 << 24
MOST_WORKERS = 64
LARGE_CHARACTERS = 1 << 26
"""Texts of fewer characters are read at once: starting processes would take longer."""


class LargeText:
    """Makes ids of texts at word and subword level, in `folder`, by `workers` processes (0: all).

    Words are numbered in each shard, and the numbers become ids once all are counted, so that a
    text is split once. Subwords are learnt from the whole text, and encoded shard by shard.
    A text is what may be asked for again and again: pieces of a stream, or lines without ends.
    """

    def __init__(
        self,
        folder: Path,
        settings: TextSettings,
        *,
        workers: int = 0,
        shard_characters: int = SHARD_CHARACTERS,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._settings = folder, settings
        self._workers = min(workers or usable_cores(), MOST_WORKERS)
        self._size = shard_characters

    def tokenizer(self, text: Callable[[], Iterable[str]]) -> Tokenizer:
        """Return `build_tokenizer` of the text; what was learnt from it before is read again."""
        if self._settings.level == "word":
            count = WordCount(self._settings)
            for shard in self._shards(text(), None):
                count.add(shard.words, shard.counts_W)
            return count.tokenizer()
        digest = hashlib.sha256(depends_on(self._settings, None).encode())
        for piece in self._with_ends(text()):
            digest.update(checked_text(piece).encode("utf-8"))
        learnt = self._folder / f"learnt-{digest.hexdigest()[:NAME_LENGTH]}.json"
        if learnt.exists():
            return tokenizer_from_json(read_utf8(learnt))
        tokenizer = build_tokenizer(self._with_ends(text()), self._settings)
        write_atomically(learnt, tokenizer.to_json().encode("ascii"))
        return tokenizer

    def ids(self, tokenizer: Tokenizer, text: Iterable[str]) -> Iterator[Ids]:
        """Yield ids whose join is `tokenizer.encode` of a stream; of lines, those of each."""
        lines = self._settings.unit == "line"
        if not isinstance(tokenizer, WordTokenizer):
            for shard in self._shards(text, tokenizer):
                yield from _rows(shard, shard.ids_N) if lines else (shard.ids_N,)
            return
        for shard in self._shards(text, None):
            ids_N = ids_of_words(shard.words, tokenizer).take(shard.ids_N)
            rows = _rows(shard, ids_N) if lines else (ids_N,)
            yield from map(known_ids, rows)

    def _with_ends(self, text: Iterable[str]) -> Iterable[str]:
        return text if self._settings.unit == "stream" else (f"{line}\n" for line in text)

    def _shards(self, text: Iterable[str], tokenizer: Tokenizer | None) -> Iterator[Shard]:
        form, checked = self._settings.normal_form, map(checked_text, text)
        if self._settings.unit == "stream":
            word = self._settings.level == "word"
            cut = cut_after_blank if word else cut_before_blank
            texts = grouped(pieces_of(normalised_chunks(checked, form), cut), self._size, "")
        else:
            texts = grouped((normalise(line, form) for line in checked), self._size, "\n")
        return made_shards(texts, self._folder, self._settings, tokenizer, workers=self._workers)


def grouped(pieces: Iterable[str], size: int, between: str) -> Iterator[str]:
    """Yield the pieces joined into texts of at least `size` characters, but for the last."""
    held: list[str] = []
    length = 0
    for piece in pieces:
        held.append(piece)
        length += len(piece) + len(between)
        if length >= size:
            yield between.join(held)
            held, length = [], 0
    if held:
        yield between.join(held)


def _rows(shard: Shard, ids_N: Ids) -> list[Ids]:
    return np.split(ids_N, np.cumsum(shard.lengths_L)[:-1]) if len(shard.lengths_L) else []
