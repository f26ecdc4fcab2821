r"""Tokens are words: runs of characters that are not whitespace, and in a stream the line end.

The normal form of a text at this level is its words joined by one blank, without blanks beside \n;
decode(encode(x)) is that form, and encoding it again gives the same ids.
"""

import re
from collections.abc import Iterator
from itertools import chain
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from elman.config.text_settings import Level, TextSettings, Unit, UnknownPolicy
from elman.errors import SettingError
from elman.text.tokenizer import REPLACEMENT, Ids, Positions, Tokenizer, refuse_unknown
from elman.text.vocabulary import UNK, Vocabulary

LINE_END = "\n"
MISSING_WORD = -1
# \S is the complement of what str.split() cuts at.
WORD_OR_LINE_END = re.compile(r"\S+|\n")
# What str.split() cuts at, apart from \n, as a class of the `tokenizers` library's expressions.
BLANKS = (
    r"\x09\x0b-\x0d\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}"
    r"\x{205f}\x{3000}"
)


class WordTokenizer(Tokenizer):
    r"""One token for each run of characters without whitespace; in a stream each \n is one too.

    The spelling text.literal_unknown, where set, is [ UNK ] under every policy.
    """

    level: ClassVar[Level] = "word"
    token_separator: bytes = b" "

    def __init__(
        self, vocabulary: Vocabulary, settings: TextSettings, *, notices: tuple[str, ...] = ()
    ) -> None:
        super().__init__(vocabulary, settings, notices=notices)
        check_literal_unknown(settings)
        first = self._first_id
        ids = _Numbered(zip(vocabulary.symbols[first:], range(first, len(vocabulary)), strict=True))
        if settings.literal_unknown and vocabulary.unk_id is not None:
            ids[settings.literal_unknown] = vocabulary.unk_id
        self._ids = ids

    def safe_cut(self, text: str) -> int:
        """Return the place after the last whitespace."""
        return cut_after_blank(text)

    def id_of_word(self, word: str) -> int:
        """Return the id of a word, [ UNK ] for text.literal_unknown, and -1 for an unknown word."""
        return self._ids[word]

    def _encode(self, text: str, policy: UnknownPolicy) -> Ids:
        ids = number_words(text, self.settings.unit, self._ids)
        if ids.min(initial=0) != MISSING_WORD:
            return ids
        words = list(chain.from_iterable(split_words(text, self.settings.unit)))
        return self._settle(words, ids, policy)[0]

    def _locate(self, text: str, policy: UnknownPolicy) -> tuple[Ids, Positions, Positions]:
        with_line_ends = self.settings.unit == "stream"
        found = [m for m in WORD_OR_LINE_END.finditer(text) if with_line_ends or m[0] != LINE_END]
        words = [m[0] for m in found]
        ids, kept = self._settle(
            words, np.fromiter(map(self._ids.__getitem__, words), np.int32, len(words)), policy
        )
        spans = np.array([m.span() for m in found], dtype=np.int64).reshape(-1, 2)[kept]
        return ids, spans[:, 0].copy(), spans[:, 1].copy()

    def _settle(self, words: list[str], ids: Ids, policy: UnknownPolicy) -> tuple[Ids, Any]:
        """Return the ids of the words that the policy keeps, and an index of which those are."""
        known = ids != MISSING_WORD
        if policy == "refuse" and not known.all():
            missing = dict.fromkeys(words[n] for n in np.flatnonzero(~known))
            refuse_unknown(missing, self.settings.min_count)
        if policy == "skip":
            return ids[known], known
        if not known.all():
            ids[~known] = self._replacing_id
        return ids, slice(None)

    def _decode(self, ids_N: Positions) -> str:
        symbols, unk_id = self.vocabulary.symbols, self.vocabulary.unk_id
        shown = ids_N[(ids_N >= self._first_id) | (ids_N == unk_id)].tolist()
        words = (REPLACEMENT if n == unk_id else symbols[n] for n in shown)
        return " ".join(words).replace(" \n", "\n").replace("\n ", "\n")

    def _symbol_bytes(self, token_id: int) -> bytes:
        return self.vocabulary.symbols[token_id].encode("utf-8")

    def _library_parts(self) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]:
        model = {"type": "WordLevel", "vocab": self._numbered_symbols(), "unk_token": UNK}
        lines = self.settings.unit == "line"
        blanks = f"[{BLANKS}\\n]+" if lines else f"[{BLANKS}]+"
        cuts = [_library_split({"Regex": blanks}, "Removed")]
        if not lines:
            cuts.append(_library_split({"String": LINE_END}, "Isolated"))
        # No word begins with this prefix: the decoder then puts a blank before each but the first.
        join = {"type": "WordPiece", "prefix": " ", "cleanup": False}
        steps = [join, {"type": "Fuse"}, _library_replace(" \n"), _library_replace("\n ")]
        return (
            model,
            {"type": "Sequence", "pretokenizers": cuts},
            {"type": "Sequence", "decoders": steps},
        )


class _Numbered(dict[str, int]):
    """Ids of words; a word that is not there has the id MISSING_WORD."""

    def __missing__(self, word: str) -> int:
        return MISSING_WORD


def _library_split(pattern: dict[str, str], behavior: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}


def _library_replace(pattern: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": LINE_END}


def check_literal_unknown(settings: TextSettings) -> None:
    """Raise `SettingError` where text.literal_unknown is no word, or there is no [ UNK ] for it."""
    literal = settings.literal_unknown
    if literal and literal.split() != [literal]:
        raise SettingError(
            "text.literal_unknown must be one word without blanks", got=repr(literal)
        )
    if literal and settings.unknown != "replace":
        raise SettingError(
            'text.literal_unknown needs text.unknown = "replace"', got=repr(settings.unknown)
        )


def cut_after_blank(text: str) -> int:
    """Return the place after the last whitespace of `text`, 0 without one."""
    if text[-1:].isspace():
        return len(text)
    tail = text.rsplit(maxsplit=1)[-1:]
    return len(text) - len(tail[0]) if tail else 0


def split_words(text: str, unit: Unit) -> Iterator[list[str]]:
    r"""Yield the words of each line of `text`; in a stream each \n is a word at the end of its own.

    Line by line, so that a word is looked up while it is still in the cache, and its memory taken
    again by the next: faster than splitting the text as a whole.
    """
    lines = text.split(LINE_END)
    last = lines.pop()
    for line in lines:
        words = line.split()
        if unit == "stream":
            words.append(LINE_END)
        yield words
    yield last.split()


def number_words(text: str, unit: Unit, number_of: dict[str, int]) -> Ids:
    """Return the number of each word of `text`, in order.

    `number_of` answers for words that it does not have. `itemgetter` looks up all words of a line
    in one call, a little faster than one call a word.
    """
    numbers: list[int] = []
    for words in split_words(text, unit):
        if len(words) > 1:
            numbers += itemgetter(*words)(number_of)
        elif words:
            numbers.append(number_of[words[0]])
    return np.fromiter(numbers, np.int32, len(numbers))
