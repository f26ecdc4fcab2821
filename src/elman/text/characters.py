"""Tokens are characters: Unicode code points, looked up in a table."""

from typing import Any, ClassVar

import numpy as np

from elman.config.text_settings import Level, TextSettings, UnknownPolicy
from elman.text.tokenizer import REPLACEMENT, Ids, Positions, Tokenizer, refuse_unknown
from elman.text.vocabulary import UNK, Vocabulary

MISSING = -1
# What is worked on at once, so that it stays in the cache.
BLOCK_CHARACTERS = 1 << 16


class CharacterTokenizer(Tokenizer):
    """One token for each code point; decode(encode(x)) == x where the vocabulary covers x.

    A table from code points to ids makes encoding one gather; it ends with one entry for every code
    point beyond the greatest of the vocabulary.
    """

    level: ClassVar[Level] = "char"

    def __init__(
        self, vocabulary: Vocabulary, settings: TextSettings, *, notices: tuple[str, ...] = ()
    ) -> None:
        super().__init__(vocabulary, settings, notices=notices)
        first = self._first_id
        codes = np.array([ord(symbol) for symbol in vocabulary.symbols[first:]], dtype=np.int64)
        self._id_of_code = np.full(int(codes.max(initial=0)) + 2, MISSING, dtype=np.int32)
        self._id_of_code[codes] = np.arange(first, len(vocabulary))
        self._code_of_id = np.concatenate([np.full(first, ord(REPLACEMENT)), codes]).astype("<u4")

    def safe_cut(self, text: str) -> int:
        """Return the end: a character depends on no other."""
        return len(text)

    def _encode(self, text: str, policy: UnknownPolicy) -> Ids:
        return self._settle(text, self._look_up(text), policy)[0]

    def _locate(self, text: str, policy: UnknownPolicy) -> tuple[Ids, Positions, Positions]:
        ids, kept = self._settle(text, self._look_up(text), policy)
        starts = np.arange(len(text), dtype=np.int64)
        starts = starts if kept is None else starts[kept]
        return ids, starts, starts + 1

    def _look_up(self, text: str) -> Ids:
        ids = np.empty(len(text), dtype=np.int32)
        for start in range(0, len(text), BLOCK_CHARACTERS):
            block = slice(start, start + BLOCK_CHARACTERS)
            self._id_of_code.take(code_points(text[block]), mode="clip", out=ids[block])
        return ids

    def _settle(self, text: str, ids: Ids, policy: UnknownPolicy) -> tuple[Ids, Any]:
        """Deal with missing ids; also return which positions are kept, None for all."""
        if not len(ids) or ids.min() != MISSING:
            return ids, None
        known = ids != MISSING
        if policy == "replace":
            ids[~known] = self._replacing_id
            return ids, None
        if policy == "refuse":
            refuse_unknown(
                dict.fromkeys(text[n] for n in np.flatnonzero(~known)), self.settings.min_count
            )
        return ids[known], known

    def _decode(self, ids_N: Positions) -> str:
        shown = (ids_N >= self._first_id) | (ids_N == self.vocabulary.unk_id)
        codes: bytes = self._code_of_id[ids_N[shown]].tobytes()
        return codes.decode("utf-32-le")

    def _symbol_bytes(self, token_id: int) -> bytes:
        return self.vocabulary.symbols[token_id].encode("utf-8")

    def _library_parts(self) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]:
        model = {"type": "WordLevel", "vocab": self._numbered_symbols(), "unk_token": UNK}
        every_character = {
            "type": "Split",
            "pattern": {"Regex": r"[\s\S]"},
            "behavior": "Isolated",
            "invert": False,
        }
        return model, every_character, {"type": "Fuse"}


def code_points(text: str) -> np.ndarray[Any, Any]:
    """Return the code points of `text` as numbers: uint8 where all are ASCII, else uint32."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
