"""Tokens are subwords: bytes joined by byte-pair encoding, as the `tokenizers` library does it."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import decoders, models, pre_tokenizers, trainers

from elman.config.text_settings import Level, TextSettings, UnknownPolicy
from elman.errors import DataError
from elman.text.byte_values import (
    byte_names,
    byte_vocabulary,
    character_of_each_byte,
    library_byte_level,
    library_pair_model,
)
from elman.text.tokenizer import Ids, Positions, Tokenizer
from elman.text.vocabulary import Vocabulary

DEFAULT_SIZE = 2048
MEMO_PIECES = 1 << 20
QUICK_LENGTH = 2000
# Whitespace here is what Python and the library both hold for it: not U+001C … U+001F. A piece is
# whitespace and what follows it up to the next whitespace; the library's own cuts refine these.
PIECES = re.compile(r"[^\S\x1c-\x1f]*[\S\x1c-\x1f]+|[^\S\x1c-\x1f]+")
CUT = re.compile(r"[\S\x1c-\x1f](?=[ \n])")
CUT_WINDOW = 4096
LONGEST_UNCUT = 1 << 24
"""Characters in a row without a place to cut: pairs of neighbours take forty bytes for each."""

Merges = tuple[tuple[str, str], ...]


class SubwordTokenizer(Tokenizer):
    """Byte-level byte-pair encoding: decode(encode(x)) == x for every text.

    The text is first cut as GPT-2 cuts it (words with the blank before them, numbers, punctuation,
    whitespace), then bytes are joined by the merges, the earliest learnt first. Source: Sennrich,
    Haddow and Birch 2016; Radford et al. 2019 for bytes.
    """

    level: ClassVar[Level] = "bpe"

    def __init__(
        self,
        vocabulary: Vocabulary,
        settings: TextSettings,
        *,
        merges: Merges,
        notices: tuple[str, ...] = (),
    ) -> None:
        super().__init__(vocabulary, settings, notices=notices)
        self.merges = merges
        self._bytes = tuple(
            _bytes_of(symbol) for symbol in vocabulary.symbols[len(vocabulary.specials) :]
        )
        self._byte_lengths = np.array([len(b) for b in self._bytes], dtype=np.int64)
        self._library = _library_tokenizer(self._numbered_symbols(), merges)

    def safe_cut(self, text: str) -> int:
        """Return the last place before a blank or line end that follows another character."""
        return cut_before_blank(text)

    def stream_encoder(self) -> Callable[[str, UnknownPolicy], Ids]:
        """Return an encoder that remembers the pieces of text it has seen, up to a million."""
        memo = _Memo(self._library)
        return lambda text, policy: memo.encode(text)

    def _encode(self, text: str, policy: UnknownPolicy) -> Ids:
        if len(text) > QUICK_LENGTH:
            return _Memo(self._library).encode(text)
        return np.array(self._library.encode(text, add_special_tokens=False).ids, dtype=np.int32)

    def _locate(self, text: str, policy: UnknownPolicy) -> tuple[Ids, Positions, Positions]:
        ids = self._encode(text, policy)
        characters = character_of_each_byte(text)
        ends = np.cumsum(self._byte_lengths[ids - self._first_id])
        starts = ends - self._byte_lengths[ids - self._first_id]
        return ids, characters[starts], characters[ends - 1] + 1

    def _decode(self, ids_N: Positions) -> str:
        numbers = (ids_N[ids_N >= self._first_id] - self._first_id).tolist()
        return b"".join(map(self._bytes.__getitem__, numbers)).decode("utf-8", errors="replace")

    def _symbol_bytes(self, token_id: int) -> bytes:
        return self._bytes[token_id - self._first_id]

    def _library_parts(self) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]:
        whole = library_byte_level(regular_expression=True)
        return library_pair_model(self._numbered_symbols(), self.merges), whole, whole


class _Memo:
    """Encodes text through a memory of its pieces: most pieces of a text come again."""

    def __init__(self, library: LibraryTokenizer) -> None:
        self._library = library
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[str, int] = {}
        self._starts = np.zeros(1, dtype=np.int64)
        self._ids = np.empty(0, dtype=np.int32)

    def encode(self, text: str) -> Ids:
        """Return the ids of a text that is cut where no token can be changed.

        Raises `DataError` where one piece of it is longer than `LONGEST_UNCUT`.
        """
        _short_enough(text)
        if len(self._numbers) > MEMO_PIECES:
            self._forget()
        pieces = PIECES.findall(text)
        self._learn([piece for piece in dict.fromkeys(pieces) if piece not in self._numbers])
        numbers = np.fromiter(map(self._numbers.__getitem__, pieces), np.int64, len(pieces))
        starts, lengths = self._starts[numbers], np.diff(self._starts)[numbers]
        ends = np.cumsum(lengths)
        # Position of each id within all: that within its piece, moved to where the piece is kept.
        shift = np.repeat(starts - (ends - lengths), lengths)
        return self._ids[shift + np.arange(len(shift))]

    def _learn(self, pieces: list[str]) -> None:
        if not pieces:
            return
        first = len(self._numbers)
        self._numbers.update((piece, first + n) for n, piece in enumerate(pieces))
        found = self._library.encode_batch_fast(pieces, add_special_tokens=False)
        rows = [row.ids for row in found]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        new = np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum()))
        self._ids = np.concatenate([self._ids, new])
        self._starts = np.concatenate([self._starts, self._starts[-1] + np.cumsum(lengths)])


def learn_subwords(texts: Iterable[str], settings: TextSettings) -> SubwordTokenizer:
    """Learn merges from `texts`, each on its own, and return the tokenizer.

    The most frequent pair of neighbours is merged first. Of equally frequent pairs it is the one
    whose left, then right part is older; bytes are as old as the code points of their names, before
    all merges. Pairs seen less often than text.min_count are not merged. A text that allows fewer
    merges than asked for gives a smaller vocabulary and a notice. Raises `SettingError` where
    text.vocabulary_size does not hold all bytes, `DataError` for a text of nothing.
    """
    base = byte_vocabulary(settings)
    wanted = settings.vocabulary_size or max(DEFAULT_SIZE, len(base))
    seen = 0

    def counted() -> Iterable[str]:
        nonlocal seen
        for text in texts:
            seen += len(text)
            yield _short_enough(text)

    library = _library_tokenizer({}, ())
    trainer = trainers.BpeTrainer(
        vocab_size=wanted - len(base.specials),
        min_frequency=settings.min_count,
        show_progress=False,
        special_tokens=[],
        initial_alphabet=list(byte_names()),
    )
    library.train_from_iterator(counted(), trainer)
    if not seen:
        raise DataError("the text to learn from holds no symbol", hint="give a longer text")
    merges = merges_of(library)
    joined = dict.fromkeys(left + right for left, right in merges)
    vocabulary = Vocabulary(base.symbols + tuple(joined), base.specials)
    notices: tuple[str, ...] = ()
    if len(vocabulary) < wanted:
        notices = (
            f"the text allows {len(merges)} merges: the vocabulary has {len(vocabulary)} entries, "
            f"not {wanted}",
        )
    return SubwordTokenizer(vocabulary, settings, merges=merges, notices=notices)


def subword_tokenizer(
    vocabulary: Vocabulary, settings: TextSettings, merges: Merges, *, notices: tuple[str, ...]
) -> SubwordTokenizer:
    """Return the tokenizer of a vocabulary and merges that were read from a file.

    The symbols must be the bytes and what the merges make, in the order of the merges; no merge
    stands twice, and each joins two symbols. Else `DataError`.
    """
    base = byte_vocabulary(replace(settings, vocabulary_size=0))
    made = dict.fromkeys(left + right for left, right in merges)
    if vocabulary.symbols != base.symbols + tuple(made) or len(set(merges)) != len(merges):
        raise DataError("the symbols are not the bytes and what the merges make of them")
    for left, right in merges:
        if vocabulary.id_of(left) is None or vocabulary.id_of(right) is None:
            raise DataError("a merge joins what is no symbol", got=f"{left!r} and {right!r}")
    return SubwordTokenizer(vocabulary, settings, merges=merges, notices=notices)


def merges_of(library: LibraryTokenizer) -> Merges:
    """Return the merges of a byte-pair tokenizer of the library, in the order they were learnt."""
    found = json.loads(library.to_str())["model"]["merges"]
    # Older versions write a pair as one text with a blank, which no name of a byte holds.
    return tuple(
        (pair.split(" ")[0], pair.split(" ")[1]) if isinstance(pair, str) else (pair[0], pair[1])
        for pair in found
    )


def cut_before_blank(text: str) -> int:
    """Return the last place before a blank or line end that follows another character, or 0.

    No token holds whitespace after another character, and how the text is cut up to there does not
    depend on what follows.
    """
    end = len(text)
    while end > 0:
        start = max(0, end - CUT_WINDOW)
        # One character more, so that a pair on the border of two windows is seen.
        places = [found.end() for found in CUT.finditer(text, start, min(end + 1, len(text)))]
        if places:
            return places[-1]
        end = start
    return 0


def _short_enough(text: str) -> str:
    """Return `text`; raise `DataError` where a piece in it has more than `LONGEST_UNCUT`."""
    if len(text) > LONGEST_UNCUT:
        longest = max(map(len, PIECES.findall(text)), default=0)
        if longest > LONGEST_UNCUT:
            raise DataError(
                "a part of the text has too many characters in a row without a blank for subwords",
                got=f"{longest:,}",
                allowed=f"at most {LONGEST_UNCUT:,}",
                hint="read it with text.level = char or byte, which cut anywhere",
            )
    return text


def _library_tokenizer(symbols: dict[str, int], merges: Merges) -> LibraryTokenizer:
    library = LibraryTokenizer(models.BPE(symbols, list(merges)))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    library.decoder = decoders.ByteLevel()
    return library


def _bytes_of(symbol: str) -> bytes:
    byte_of_name = {name: byte for byte, name in enumerate(byte_names())}
    return bytes(byte_of_name[name] for name in symbol)
