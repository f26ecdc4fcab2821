"""Tokens are the bytes of UTF-8: every text can be spelled with 256 of them."""

from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from elman.config.text_settings import Level, TextSettings, UnknownPolicy
from elman.errors import SettingError
from elman.text.characters import code_points
from elman.text.tokenizer import Ids, Positions, Tokenizer
from elman.text.vocabulary import Vocabulary, specials_for

NUM_BYTES = 256


class ByteTokenizer(Tokenizer):
    """One token for each byte of UTF-8, ids in the order of the bytes, after the specials.

    All 256 are always there, so decode(encode(x)) == x for every text.
    """

    level: ClassVar[Level] = "byte"

    def __init__(
        self, vocabulary: Vocabulary, settings: TextSettings, *, notices: tuple[str, ...] = ()
    ) -> None:
        super().__init__(vocabulary, settings, notices=notices)
        self._id_of_byte = np.arange(NUM_BYTES, dtype=np.int32) + self._first_id

    def safe_cut(self, text: str) -> int:
        """Return the end: a byte depends on no other."""
        return len(text)

    def _encode(self, text: str, policy: UnknownPolicy) -> Ids:
        return self._id_of_byte.take(np.frombuffer(text.encode("utf-8"), np.uint8), mode="clip")

    def _locate(self, text: str, policy: UnknownPolicy) -> tuple[Ids, Positions, Positions]:
        starts = character_of_each_byte(text)
        return self._encode(text, policy), starts, starts + 1

    def _decode(self, ids_N: Positions) -> str:
        byte_ids = ids_N[ids_N >= self._first_id] - self._first_id
        return byte_ids.astype(np.uint8).tobytes().decode("utf-8", errors="replace")

    def _symbol_bytes(self, token_id: int) -> bytes:
        return bytes([token_id - self._first_id])

    def _library_parts(self) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]:
        whole = library_byte_level(regular_expression=False)
        return library_pair_model(self._numbered_symbols(), ()), whole, whole


def byte_vocabulary(settings: TextSettings) -> Vocabulary:
    """Return the specials and all 256 bytes; `SettingError` where text.vocabulary_size is less."""
    specials = specials_for(settings)
    minimum = len(specials) + NUM_BYTES
    if 0 < settings.vocabulary_size < minimum:
        raise SettingError(
            f"text.vocabulary_size must hold all {NUM_BYTES} bytes"
            + (f" and {len(specials)} specials" if specials else ""),
            got=str(settings.vocabulary_size),
            allowed=f"0, or {minimum} and more",
        )
    return Vocabulary(specials + byte_names(), specials)


@lru_cache(maxsize=1)
def byte_names() -> tuple[str, ...]:
    """Return a printable character for each byte, as GPT-2 and the `tokenizers` library name them.

    Printable bytes of Latin-1 stand for themselves, the others for U+0100, U+0101 … in order.
    """
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(NUM_BYTES) if byte not in plain)
    names = {byte: chr(0x100 + number) for number, byte in enumerate(others)}
    return tuple(names.get(byte, chr(byte)) for byte in range(NUM_BYTES))


def character_of_each_byte(text: str) -> Positions:
    """Return for each byte of the UTF-8 of `text` the position of its character."""
    if text.isascii():
        return np.arange(len(text), dtype=np.int64)
    codes = code_points(text)
    sizes = 1 + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000)
    return np.repeat(np.arange(len(text), dtype=np.int64), sizes)


def library_byte_level(*, regular_expression: bool) -> dict[str, Any]:
    """Return the byte level of the `tokenizers` library, as pre-tokenizer and decoder alike."""
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": regular_expression,
    }


def library_pair_model(
    symbols: dict[str, int], merges: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    """Return the byte-pair model of the `tokenizers` library."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": symbols,
        "merges": [list(pair) for pair in merges],
    }
