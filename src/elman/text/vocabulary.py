"""The numbered symbols of a tokenizer, in an order that depends on nothing but the counts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from elman.config.text_settings import TextSettings
from elman.errors import DataError, SettingError

# Blanks inside: no character, byte, word or subword can be spelled like one of these.
PAD = "[ PAD ]"
BOUNDARY = "[ S ]"
UNK = "[ UNK ]"
SPECIALS = (PAD, BOUNDARY, UNK)


@dataclass(frozen=True)
class Vocabulary:
    """Symbols in the order of their ids 0 … V-1, specials first.

    Raises `DataError` where two symbols are spelled alike or the specials do not come first.
    """

    symbols: tuple[str, ...]
    specials: tuple[str, ...] = ()
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ids = {symbol: number for number, symbol in enumerate(self.symbols)}
        object.__setattr__(self, "_ids", ids)
        if len(ids) != len(self.symbols):
            twice = next(s for n, s in enumerate(self.symbols) if ids[s] != n)
            raise DataError("a vocabulary holds each symbol once", got=f"{twice!r} twice")
        if self.symbols[: len(self.specials)] != self.specials:
            raise DataError("the specials come first in a vocabulary", got=repr(self.symbols[:3]))

    def __len__(self) -> int:
        return len(self.symbols)

    def id_of(self, symbol: str) -> int | None:
        """Return the id of `symbol`, or None where the vocabulary does not have it."""
        return self._ids.get(symbol)

    @property
    def pad_id(self) -> int | None:
        """The id that fills a batch; it is never supervised."""
        return self._special(PAD)

    @property
    def boundary_id(self) -> int | None:
        """The id that starts a sequence and is predicted at its end."""
        return self._special(BOUNDARY)

    @property
    def unk_id(self) -> int | None:
        """The id of every symbol that the vocabulary does not have."""
        return self._special(UNK)

    def _special(self, name: str) -> int | None:
        return self.specials.index(name) if name in self.specials else None

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        *,
        specials: tuple[str, ...] = (),
        min_count: int = 1,
        max_size: int = 0,
    ) -> "Vocabulary":
        """Return the symbols seen at least `min_count` times, the most frequent first.

        Equally frequent symbols stand in the order of their code points. `max_size` bounds the
        number of entries, specials included; 0 keeps all. Raises `SettingError` where it leaves no
        room for a symbol, `DataError` where no symbol is frequent enough.
        """
        if max_size and max_size <= len(specials):
            raise SettingError(
                "text.vocabulary_size leaves no room for a symbol",
                got=str(max_size),
                allowed=f"0 (all), or {len(specials) + 1} and more",
            )
        kept = sorted(symbol for symbol, count in counts.items() if count >= min_count)
        # Sorting keeps the order of equals, also in reverse: a second sort, by count alone.
        kept.sort(key=counts.__getitem__, reverse=True)
        if not kept:
            raise _nothing_to_learn(counts.values(), min_count)
        if max_size:
            kept = kept[: max_size - len(specials)]
        return cls(specials + tuple(kept), specials)


def _nothing_to_learn(counts: Iterable[int], min_count: int) -> DataError:
    most = max(counts, default=0)
    if not most:
        return DataError("the text to learn from holds no symbol", hint="give a longer text")
    return DataError(
        "no symbol of the text is frequent enough",
        got=f"at most {most} times",
        hint=f"set text.min_count below {min_count}",
    )


def specials_for(settings: TextSettings) -> tuple[str, ...]:
    """Return the specials that a tokenizer with these settings has, in the order of their ids.

    Lines need padding and one boundary symbol; a stream needs a boundary only for its start mark.
    Characters and words may be unknown; bytes and subwords can spell every text.
    """
    if settings.unit == "line":
        specials: tuple[str, ...] = (PAD, BOUNDARY)
    else:
        specials = (BOUNDARY,) if settings.start == "mark" else ()
    spells_all = settings.level in ("byte", "bpe")
    return specials if spells_all or settings.unknown != "replace" else (*specials, UNK)
