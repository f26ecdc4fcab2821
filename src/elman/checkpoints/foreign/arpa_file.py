"""ARPA files: n-gram tables as text, with logarithms to the base 10.

    \\data\\
    ngram 1=3
    …
    \\1-grams:
    -0.60206<TAB>word<TAB>-0.30103
    …
    \\end\\

Each line has log10 p of a gram's last word, its words, and, where longer grams begin with it, the
log10 of the weight b of what is handed to shorter histories; 0 where it is not given. Source: the
manual page ngram-format(5) of SRILM. What precedes \\data\\ is free text.

Blanks may stand for tabs and blank lines may be missing or hold blanks, as files of other programs
have them.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from elman.errors import ConversionError

SpeltGram = tuple[float, Sequence[str], float | None]
"""log10 p, the words, and log10 b or None where nothing can follow."""
LOG_ZERO = -99.0
"""How a probability of 0 is written; it and all below it are read as such."""
_COUNT = re.compile(r"ngram[ \t]+(\d{1,18})[ \t]*=[ \t]*(\d{1,18})\Z")
_SECTION = re.compile(r"\\(\d{1,18})-grams:\Z")
_FIELDS = re.compile(r"[ \t]+")


@dataclass(frozen=True)
class ArpaGram:
    """One line: log10 p, the words, log10 b (0 where none is given), and the number of the line."""

    log10_prob: float
    words: tuple[str, ...]
    log10_back_off: float
    line: int


@dataclass(frozen=True)
class ArpaFile:
    """The grams of length 1, 2 …, what stands before them, and what a person should know."""

    levels: tuple[tuple[ArpaGram, ...], ...]
    preamble: str
    notices: tuple[str, ...]


def parse_arpa(lines: Iterable[str], name: str) -> ArpaFile:
    r"""Return what the lines of an ARPA file say; `name` is how errors call it.

    Raises `ConversionError` with the number of the line for a line that is none of the format, a
    number that is none (a decimal comma), a probability above 1 and a gram that is there twice; and
    for a section of another size than announced, and a file without its end.
    """
    return _Reader(lines, name).file()


class ArpaModel:
    """The grams of a file as they are meant, asked by the recursion of the format itself.

        log10 p(w | h) = that of the line h w, else log10 b(h) + log10 p(w | h')

    with h' the history without its oldest word and b of a history without a line 0: the readable
    twin of the tables.
    """

    def __init__(self, file: ArpaFile) -> None:
        self._grams = {gram.words: gram for grams in file.levels for gram in grams}
        self._order = len(file.levels)

    def log10_prob(self, word: str, history: Sequence[str]) -> float:
        """Return log10 p of `word` after `history`, of which the last order − 1 words count."""
        kept = max(len(history) - self._order + 1, 0)
        words = tuple(history[kept:])
        found = self._grams.get((*words, word))
        if found is not None:
            return found.log10_prob
        if not words:
            return -math.inf
        weight = self._grams.get(words)
        back_off = weight.log10_back_off if weight is not None else 0.0
        return back_off + self.log10_prob(word, words[1:])


def arpa_lines(
    levels: Sequence[Iterable[SpeltGram]],
    counts: Sequence[int],
    preamble: str,
) -> Iterator[str]:
    """Yield the lines of a file: for each length its grams as (log10 p, words, log10 b or None).

    Numbers are written so that reading gives the same float64.
    """
    yield f"{preamble}\n\n" if preamble else "\n"
    yield "\\data\\\n"
    for length, count in enumerate(counts, 1):
        yield f"ngram {length}={count}\n"
    for length, grams in enumerate(levels, 1):
        yield f"\n\\{length}-grams:\n"
        for log10_prob, words, log10_back_off in grams:
            end = "" if log10_back_off is None else f"\t{_number(log10_back_off)}"
            yield f"{_number(log10_prob)}\t{' '.join(words)}{end}\n"
    yield "\n\\end\\\n"


def _number(value: float) -> str:
    return "-99" if value == -math.inf else repr(value + 0.0)


class _Reader:
    """Reads one file line by line; which section it is in is all it remembers."""

    def __init__(self, lines: Iterable[str], name: str) -> None:
        self._name, self._number = name, 0
        self._lines = iter(lines)

    def file(self) -> ArpaFile:
        preamble = "\n".join(self._until("\\data\\")).strip()
        counts, section = self._counts()
        notices, announced = [], len(counts)
        while counts and counts[-1] == 0:
            notices.append(f"grams of length {len(counts)} are announced and there are none")
            counts.pop()
        if not counts:
            raise ConversionError(f"{self._name} announces no grams")
        levels: list[tuple[ArpaGram, ...]] = []
        while section is not None:
            length = self._length(section)
            grams, section = self._grams(length)
            if len(counts) < length <= announced and not grams:
                continue  # the empty section of a length that is announced with none
            if length != len(levels) + 1 or length > len(counts):
                self._fail(f"a section of length {len(levels) + 1}", f"one of length {length}")
            if len(grams) != counts[length - 1]:
                raise ConversionError(
                    f"{self._name}, line {self._number:,} ends another number of {length}-grams "
                    "than the file announces",
                    got=f"{len(grams):,}",
                    allowed=f"{counts[length - 1]:,}",
                )
            levels.append(grams)
        if len(levels) != len(counts):
            raise ConversionError(
                f"{self._name} announces {len(counts)} sections and has {len(levels)}"
            )
        return ArpaFile(tuple(levels), preamble, tuple(notices))

    def _next(self) -> str | None:
        """Return the next line that is not blank, without blanks around it; None at the end."""
        for line in self._lines:
            self._number += 1
            stripped = line.strip(" \t\r\n")
            if stripped:
                return stripped
        return None

    def _until(self, mark: str) -> Iterator[str]:
        while (line := self._next()) != mark:
            if line is None:
                raise ConversionError(
                    f"{self._name} is no ARPA file", got=f"no line {mark}", allowed="\\data\\ first"
                )
            yield line

    def _counts(self) -> tuple[list[int], str | None]:
        counts: list[int] = []
        while (line := self._next()) is not None and not line.startswith("\\"):
            found = _COUNT.match(line)
            if found is None or int(found[1]) != len(counts) + 1:
                self._fail(f"ngram {len(counts) + 1}=NUMBER", line)
            counts.append(int(found[2]))
        return counts, line

    def _length(self, section: str) -> int:
        found = _SECTION.match(section)
        if found is None:
            self._fail("a line such as \\1-grams:", section)
        return int(found[1])

    def _grams(self, length: int) -> tuple[tuple[ArpaGram, ...], str | None]:
        grams: list[ArpaGram] = []
        seen: set[tuple[str, ...]] = set()
        while (line := self._next()) is not None:
            if line == "\\end\\":
                return tuple(grams), None
            if _SECTION.match(line):
                return tuple(grams), line
            gram = self._gram(line, length)
            if gram.words in seen:
                self._fail("each gram once", f"{' '.join(gram.words)} again")
            seen.add(gram.words)
            grams.append(gram)
        raise ConversionError(
            f"{self._name} ends before \\end\\", got=f"{self._number:,} lines", hint="it was cut"
        )

    def _gram(self, line: str, length: int) -> ArpaGram:
        parts = _FIELDS.split(line)
        if len(parts) not in (length + 1, length + 2):
            self._fail(
                f"a number, {length} word{'s' * (length > 1)} and perhaps a second number",
                f"{len(parts)} fields",
            )
        log10_prob = self._value(parts[0])
        if log10_prob > 0.0:
            self._fail("a logarithm of a probability, at most 0", parts[0])
        back_off = self._value(parts[-1]) if len(parts) == length + 2 else 0.0
        prob = -math.inf if log10_prob <= LOG_ZERO else log10_prob
        weight = -math.inf if back_off <= LOG_ZERO else back_off
        return ArpaGram(prob, tuple(parts[1 : length + 1]), weight, self._number)

    def _value(self, text: str) -> float:
        try:
            value = math.nan if "_" in text else float(text)
        except ValueError:
            value = math.nan
        if math.isnan(value) or value == math.inf:
            hint = "decimals need a point" if "," in text else ""
            self._fail("a number", text, hint)
        return value

    def _fail(self, wanted: str, got: str, hint: str = "") -> NoReturn:
        raise ConversionError(
            f"{self._name}, line {self._number:,} must be {wanted}", got=got, hint=hint
        )
