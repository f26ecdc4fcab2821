"""What `elman data check` counts: characters, lengths, values, repeats, what training never saw."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from elman.data.row_log import LineTally
from elman.data.tables import is_number

MOST_VALUES = 1000
FEW_VALUES = 20
MOST_LISTED = 20
SHARES = ((0.0, "least"), (0.5, "median"), (0.9, "p90"), (0.99, "p99"), (1.0, "most"))
REPLACEMENT = "\ufffd"
ODD_CATEGORIES = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs")


@dataclass
class CharacterTally:
    """The characters of a text, and its lines that are not in the normal form NFC."""

    counts: Counter[str] = field(default_factory=Counter)
    not_nfc: LineTally = field(default_factory=LineTally)

    def add_line(self, number: int, line: str) -> None:
        """Count the characters of line `number`."""
        self.counts.update(line)
        if not line.isascii() and not unicodedata.is_normalized("NFC", line):
            self.not_nfc.add(number)

    def odd(self) -> list[dict[str, object]]:
        """Return the characters that a person does not see or expect, most frequent first.

        Controls but for tab, format characters, blanks but for the space, line and paragraph
        separators, private and unassigned ones, and U+FFFD, which stands where decoding failed.
        """
        odd = {
            sign: count
            for sign, count in self.counts.items()
            if sign not in "\t " and (sign == REPLACEMENT or _category(sign) in ODD_CATEGORIES)
        }
        return told_characters(odd)


def _category(sign: str) -> str:
    return unicodedata.category(sign)


def told_characters(counts: dict[str, int]) -> list[dict[str, object]]:
    """Return code point, name and count of each character, most frequent first, then by code."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        {
            "code": f"U+{ord(sign):04X}",
            "name": unicodedata.name(sign, "") or f"category {_category(sign)}",
            "count": count,
        }
        for sign, count in ordered
    ]


@dataclass
class ColumnTally:
    """Lengths, values, characters and words of one column.

    A length is in characters, or of tagged sentences in tokens. `reference` is the same column of
    the first file: what it does not hold is unknown. `most_length` is the longest cell that would
    not be cut; 0: none would.
    """

    name: str
    reference: "ColumnTally | None" = None
    most_length: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    values: Counter[str] = field(default_factory=Counter)
    characters: Counter[str] = field(default_factory=Counter)
    words: set[str] = field(default_factory=set)
    num_words: int = 0
    unknown_words: Counter[str] = field(default_factory=Counter)
    too_long: LineTally = field(default_factory=LineTally)
    cut_off: int = 0
    blank: LineTally = field(default_factory=LineTally)
    all_numbers: bool = True
    many_values: bool = False

    def add(self, line: int, cell: str, *, words: Sequence[str], length: int) -> None:
        """Count one cell, its words and its length."""
        if not cell.strip():
            self.blank.add(line)
            return
        self.lengths[length] += 1
        if self.most_length and length > self.most_length:
            self.too_long.add(line)
            self.cut_off += length - self.most_length
        self.characters.update(cell)
        self.all_numbers = self.all_numbers and is_number(cell)
        self.num_words += len(words)
        if self.reference is None:
            self.words.update(words)
        else:
            known = self.reference.words
            self.unknown_words.update(word for word in words if word not in known)

    def add_values(self, values: Iterable[str]) -> None:
        """Count values that may be labels; too many different ones are none, and are let go."""
        if not self.many_values:
            self.values.update(values)
            if len(self.values) > MOST_VALUES:
                self.many_values = True
                self.values.clear()

    @property
    def has_few_values(self) -> bool:
        """Whether there are few different values, or each comes twice on the average."""
        distinct = len(self.values)
        return distinct > 0 and (distinct <= FEW_VALUES or 2 * distinct <= self.values.total())

    def percentiles(self) -> dict[str, int]:
        """Return lengths that a share of the cells does not exceed (nearest rank); {} for none."""
        total, found, reached = self.lengths.total(), {}, 0
        wanted = list(SHARES)
        for length in sorted(self.lengths):
            reached += self.lengths[length]
            while wanted and reached >= max(wanted[0][0] * total, 1):
                found[wanted.pop(0)[1]] = length
        return found

    def unknown(self) -> dict[str, object] | None:
        """Return characters and words that the first file does not have; None for itself."""
        if self.reference is None:
            return None
        known = self.reference.characters
        unseen = {sign: count for sign, count in self.characters.items() if sign not in known}
        told = told_characters(unseen)
        words = sorted(self.unknown_words.items(), key=lambda item: (-item[1], item[0]))
        return {
            "symbols": sum(unseen.values()),
            "distinct_symbols": len(unseen),
            "symbol_list": told[:MOST_LISTED],
            "words": self.unknown_words.total(),
            "distinct_words": len(self.unknown_words),
            "word_rate": self.unknown_words.total() / self.num_words if self.num_words else None,
            "word_list": [{"word": word, "count": count} for word, count in words[:MOST_LISTED]],
        }

    def by_count(self) -> dict[str, int]:
        """Return the values with their counts, the most frequent first, then in their order."""
        return dict(sorted(self.values.items(), key=lambda item: (-item[1], item[0])))

    def to_json(self) -> dict[str, object]:
        """Return all but the values, as values of JSON."""
        return {
            "name": self.name,
            "filled": self.lengths.total(),
            "blank": lines_json(self.blank),
            "lengths": self.percentiles(),
            "numbers": self.all_numbers and bool(self.lengths),
            "words": self.num_words,
            "too_long": {**lines_json(self.too_long), "cut_off": self.cut_off},
            "unknown": self.unknown(),
        }


def lines_json(tally: LineTally) -> dict[str, object]:
    """Return a count and the first lines as values of JSON."""
    return {"count": tally.count, "first_lines": list(tally.first_lines)}


@dataclass
class RepeatTally:
    """Rows that occur twice in a file, and those that an earlier file has.

    Keeps 16 bytes of each row and of each input, not the rows.
    """

    earlier: Sequence["RepeatTally"] = ()
    rows: set[bytes] = field(default_factory=set)
    inputs: set[bytes] = field(default_factory=set)
    repeated: LineTally = field(default_factory=LineTally)
    conflicting: LineTally = field(default_factory=LineTally)
    shared_rows: list[LineTally] = field(default_factory=list)
    shared_inputs: list[LineTally] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shared_rows = [LineTally() for _ in self.earlier]
        self.shared_inputs = [LineTally() for _ in self.earlier]

    def add(
        self, line: int, cells: Sequence[str], input_text: str, *, has_answer: bool = True
    ) -> None:
        """Compare one row, and the text that a model would be given of it.

        `cells` are the input and the answer, or without `has_answer` all that there is of a row,
        which then contradicts no other.
        """
        row = digest_of(*cells)
        given = digest_of(input_text)
        if row in self.rows:
            self.repeated.add(line)
        elif has_answer and given in self.inputs:
            self.conflicting.add(line)
        for number, other in enumerate(self.earlier):
            if row in other.rows:
                self.shared_rows[number].add(line)
            if given in other.inputs:
                self.shared_inputs[number].add(line)
        self.rows.add(row)
        self.inputs.add(given)


def digest_of(*texts: str) -> bytes:
    """Return 16 bytes that tell lists of texts apart."""
    told = "".join(f"{len(text)}:{text}" for text in texts)
    return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16).digest()
