"""What every tokenizer promises, whatever its tokens are."""

import hashlib
import json
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from elman.config.text_settings import Level, TextSettings, UnknownPolicy
from elman.errors import DataError, SettingError, UnknownSymbolError, first_few
from elman.text.normalising import normalise
from elman.text.vocabulary import Vocabulary

Ids: TypeAlias = npt.NDArray[np.int32]
Positions: TypeAlias = npt.NDArray[np.int64]

FILE_SCHEMA = 1
REPLACEMENT = "\ufffd"
SYMBOLS_LISTED = 10
NOT_OF_TOKENIZER = ("target_level", "direction")
"""Settings of the text that no tokenizer depends on."""


class Tokenizer(ABC):
    """Text to ids and back; immutable, and free of any file, model or device.

    `encode` never yields the ids of padding or boundary, whatever the text spells. Texts are put
    into the normal form of the settings first; offsets are positions in that normalised text, which
    is the text itself where the form is "none".
    """

    level: ClassVar[Level]
    token_separator: bytes = b""
    """What stands between two tokens of decoded text, but never beside a line end."""

    def __init__(
        self, vocabulary: Vocabulary, settings: TextSettings, *, notices: tuple[str, ...] = ()
    ) -> None:
        self.vocabulary, self.settings, self.notices = vocabulary, settings, notices
        self._first_id = len(vocabulary.specials)

    def __len__(self) -> int:
        return len(self.vocabulary)

    @property
    def first_context(self) -> int:
        r"""The id that stands before a text that begins from nothing.

        The start mark where the vocabulary has one; else the line end, as if a new line began; else
        the most frequent symbol.
        """
        if self.vocabulary.boundary_id is not None:
            return self.vocabulary.boundary_id
        line_end = self.encode("\n", policy="skip")
        return int(line_end[0]) if len(line_end) else len(self.vocabulary.specials)

    def normalise(self, text: str) -> str:
        """Return `text` in the normal form of the settings: what offsets point into."""
        return normalise(text, self.settings.normal_form)

    def encode(self, text: str, *, policy: UnknownPolicy | None = None) -> Ids:
        """Return the ids [N] int32 of `text`.

        `policy` says what becomes of symbols outside the vocabulary, None: as the settings say.
        Raises `UnknownSymbolError` where the policy is refuse and there are such, `SettingError`
        where it is replace and the vocabulary has no [ UNK ], `DataError` for a lone surrogate.
        """
        return self._encode(self.normalise(checked_text(text)), self.checked_policy(policy))

    def encode_with_offsets(
        self, text: str, *, policy: UnknownPolicy | None = None
    ) -> tuple[Ids, Positions, Positions]:
        """Return ids, starts and ends [N]: token n comes from normalised text[starts[n]:ends[n]].

        A token of less than a character (bytes, subwords) points at the whole characters it is
        part of. Raises as `encode` does.
        """
        return self._locate(self.normalise(checked_text(text)), self.checked_policy(policy))

    def decode(self, ids: Sequence[int] | npt.NDArray[np.integer]) -> str:
        """Return the text of `ids`; specials vanish, and what is unknown or invalid is U+FFFD.

        Raises `DataError` for an id outside the vocabulary.
        """
        ids_N = np.asarray(ids, dtype=np.int64)
        if len(ids_N) and not 0 <= int(ids_N.min()) <= int(ids_N.max()) < len(self.vocabulary):
            raise DataError(
                "an id is outside the vocabulary",
                got=f"{int(ids_N.min())} to {int(ids_N.max())}",
                allowed=f"0 to {len(self.vocabulary) - 1}",
            )
        return self._decode(ids_N)

    def count_unknown(self, ids: Sequence[int] | npt.NDArray[np.integer]) -> int:
        """Return how many of `ids` are [ UNK ]."""
        unk_id = self.vocabulary.unk_id
        return 0 if unk_id is None else int(np.count_nonzero(np.asarray(ids) == unk_id))

    def token_bytes(self, token_id: int) -> bytes:
        """Return what a token adds to the output, as UTF-8; nothing for padding and boundary."""
        if token_id == self.vocabulary.unk_id:
            return REPLACEMENT.encode()
        return self._symbol_bytes(token_id) if token_id >= self._first_id else b""

    def token_text(self, token_id: int) -> str:
        """Return the token for a table: quoted as Python would, specials by their bare name."""
        if token_id < self._first_id:
            return self.vocabulary.symbols[token_id]
        spelled = self._symbol_bytes(token_id)
        try:
            return repr(spelled.decode("utf-8"))
        except UnicodeDecodeError:
            return repr(spelled)

    def to_json(self) -> str:
        """Return the tokenizer as the text of a Hugging Face `tokenizer.json`.

        Plain ASCII, so that no editor and no transfer can alter a symbol. Elman's own settings
        stand at `model.elman`, a place that the `tokenizers` library passes over. The specials are
        not declared as added tokens: that library would find their spelling in a user's text.
        """
        model, pre_tokenizer, decoder = self._library_parts()
        form = self.settings.normal_form
        elman = {
            "schema": FILE_SCHEMA,
            "settings": {
                k: v for k, v in asdict(self.settings).items() if k not in NOT_OF_TOKENIZER
            },
            "specials": list(self.vocabulary.specials),
            "notices": list(self.notices),
        }
        whole: dict[str, Any] = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [],
            "normalizer": None if form == "none" else {"type": form},
            "pre_tokenizer": pre_tokenizer,
            "post_processor": None,
            "decoder": decoder,
            "model": {"type": model["type"], "elman": elman, **model},
        }
        return json.dumps(whole, indent=1, allow_nan=False) + "\n"

    def digest(self) -> str:
        """Return the SHA-256 of `to_json()`, in hexadecimal."""
        return hashlib.sha256(self.to_json().encode("ascii")).hexdigest()

    def checked_policy(self, policy: UnknownPolicy | None) -> UnknownPolicy:
        """Return the policy to use; `SettingError` where it needs an [ UNK ] that is not there."""
        chosen = self.settings.unknown if policy is None else policy
        if chosen == "replace" and self.vocabulary.unk_id is None and not self.spells_every_text:
            raise SettingError(
                "unknown symbols cannot be replaced: the vocabulary has no [ UNK ]",
                allowed="refuse or skip",
                hint='only text.unknown = "replace" at training gives the vocabulary one',
            )
        return chosen

    @property
    def spells_every_text(self) -> bool:
        """Whether no text has an unknown symbol."""
        return self.level in ("byte", "bpe")

    @abstractmethod
    def safe_cut(self, text: str) -> int:
        """Return the last position where `text` can be cut without changing a token, 0 for none.

        The tokens before the cut are the same whatever follows `text`, and the tokens after it the
        same whatever stands before it.
        """

    def stream_encoder(self) -> Callable[[str, UnknownPolicy], Ids]:
        """Return a function that encodes normalised pieces of one long text, one after another."""
        return self._encode

    @abstractmethod
    def _encode(self, text: str, policy: UnknownPolicy) -> Ids:
        """Encode normalised text under a policy that can be followed."""

    @abstractmethod
    def _locate(self, text: str, policy: UnknownPolicy) -> tuple[Ids, Positions, Positions]:
        """Encode as `_encode` does and say where each token stands."""

    @abstractmethod
    def _decode(self, ids_N: Positions) -> str:
        """Decode ids that are all in the vocabulary."""

    @abstractmethod
    def _symbol_bytes(self, token_id: int) -> bytes:
        """Return the UTF-8 of a token that is no special."""

    @abstractmethod
    def _library_parts(self) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]:
        """Return model, pre-tokenizer and decoder as the `tokenizers` library writes them."""

    @property
    def _replacing_id(self) -> int:
        """The id of [ UNK ]; asked for only where `checked_policy` has found one."""
        unk_id = self.vocabulary.unk_id
        if unk_id is None:
            raise RuntimeError("no [ UNK ] in the vocabulary")
        return unk_id

    def _numbered_symbols(self) -> dict[str, int]:
        return {symbol: number for number, symbol in enumerate(self.vocabulary.symbols)}


def checked_text(text: str) -> str:
    """Return `text`; a lone surrogate in it, which is no character, raises `DataError`."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(
                "the text holds half of a surrogate pair, which is no character",
                got=f"U+{ord(text[error.start]):04X} at position {error.start}",
            ) from None
    return text


def refuse_unknown(unknown: Iterable[str], min_count: int) -> NoReturn:
    """Raise `UnknownSymbolError` for distinct unknown symbols, the first ten with code points.

    `min_count` is how often a symbol had to be seen to be known.
    """
    often = f" seen {min_count} times or more" if min_count > 1 else ""
    named = [name_with_code_points(symbol) for symbol in unknown]
    raise UnknownSymbolError(
        "the text holds symbols that the vocabulary does not have",
        got=first_few(named, SYMBOLS_LISTED),
        allowed=f"symbols of the training text{often}",
        hint="or leave them out (skip) or count them as [ UNK ] (replace): text.unknown for "
        "data, --unknown or text.prompt_unknown for prompts",
    )


def name_with_code_points(symbol: str) -> str:
    """Return `z (U+007A)`: a character with its code point, a word with those outside ASCII.

    A combining mark is named by its code point alone: printed, it would sit on its neighbour.
    """
    points = [f"U+{ord(c):04X}" for c in symbol if len(symbol) == 1 or not c.isascii()]
    if len(symbol) == 1 and (unicodedata.combining(symbol) or not symbol.isprintable()):
        return points[0]
    return f"{symbol} ({' '.join(points)})" if points else symbol
