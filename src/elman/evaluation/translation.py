"""Scores of texts against reference texts: BLEU, chrF, exact match, error rates; counts kept.

What an empty text gives, everywhere below: an empty hypothesis has every symbol of its reference
missing; an empty reference has every symbol of the hypothesis too many and adds none to the
divisor; both empty is an exact match without an error. A figure whose divisor is 0 is None.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from elman.errors import DataError
from elman.evaluation.labels import require_same_rows
from elman.evaluation.packages import metric_module
from elman.evaluation.ratios import Interval, ratio, wilson_interval

ErrorUnit = Literal["character", "word", "phone"]
"""What is counted: code points as they stand, or what blanks divide (words, phones)."""
BleuTokens = Literal["13a", "intl", "char", "zh", "none"]
"""How sacrebleu parts texts into tokens; its name stands in the signature."""

MOST_BLEU_ORDER = 4
BLEU_COLUMNS = 2 + 2 * MOST_BLEU_ORDER
_PERCENT = 100.0


@dataclass(frozen=True)
class ErrorRate:
    """Edits that turn the hypotheses into their references, as few as can be.

    `row_edits` has their number for each row, and `row_lengths` the symbols of its reference (of
    several references the one with the fewest edits, of these the longest, of these the first).
    How the edits part into the three kinds is not unique, their sum is.
    """

    unit: ErrorUnit
    num_substitutions: int
    num_deletions: int
    num_insertions: int
    row_edits: tuple[int, ...]
    row_lengths: tuple[int, ...]

    @property
    def num_edits(self) -> int:
        """Substitutions, deletions and insertions together."""
        return self.num_substitutions + self.num_deletions + self.num_insertions

    @property
    def num_reference_symbols(self) -> int:
        """Symbols of the references that were compared with."""
        return sum(self.row_lengths)

    @property
    def rate(self) -> float | None:
        """num_edits / num_reference_symbols: a ratio of sums, which may be above 1."""
        return ratio(self.num_edits, self.num_reference_symbols)

    @property
    def num_wrong_rows(self) -> int:
        """Rows with one edit or more."""
        return sum(edits > 0 for edits in self.row_edits)

    @property
    def wrong_rows_percent(self) -> float | None:
        """100 · num_wrong_rows / rows.

        With phones as units and a word in each row this is the "word error rate" of the SIGMORPHON
        tasks on grapheme-to-phoneme conversion; their "phone error rate" is 100 · `rate`.
        """
        return ratio(_PERCENT * self.num_wrong_rows, len(self.row_edits))

    def to_json(self) -> dict[str, object]:
        """Return counts and figures, without those of each row; names begin with the unit."""
        return {
            f"{self.unit}_error_rate": self.rate,
            f"{self.unit}_edits": self.num_edits,
            f"{self.unit}_substitutions": self.num_substitutions,
            f"{self.unit}_deletions": self.num_deletions,
            f"{self.unit}_insertions": self.num_insertions,
            f"{self.unit}s_in_references": self.num_reference_symbols,
            f"rows_with_wrong_{self.unit}": self.num_wrong_rows,
            f"rows_with_wrong_{self.unit}_percent": self.wrong_rows_percent,
        }


@dataclass(frozen=True)
class OverlapScore:
    """BLEU or chrF, from 0 to 100, of a whole set of texts, with the signature to be quoted.

    `matches` of `totals` n-grams of the hypotheses are in the references, for orders 1 to 4, and
    the lengths are in tokens (BLEU only; chrF keeps none, and has empty ones). None for no rows.
    """

    name: str
    score: float | None
    signature: str
    matches: tuple[int, ...] = ()
    totals: tuple[int, ...] = ()
    hypothesis_length: int | None = None
    reference_length: int | None = None

    def to_json(self) -> dict[str, object]:
        """Return score, signature and counts."""
        return {
            "name": self.name,
            "score": self.score,
            "signature": self.signature,
            "matches": list(self.matches),
            "totals": list(self.totals),
            "hypothesis_length": self.hypothesis_length,
            "reference_length": self.reference_length,
        }


@dataclass(frozen=True)
class TranslationScores:
    """Everything that is measured of texts against their references.

    A row is exact if it equals one of its references, code point by code point.
    """

    num_rows: int
    num_exact: int
    num_empty_hypotheses: int
    num_empty_references: int
    bleu: OverlapScore
    chrf: OverlapScore
    characters: ErrorRate
    words: ErrorRate

    @property
    def exact_match(self) -> float | None:
        """num_exact / num_rows."""
        return ratio(self.num_exact, self.num_rows)

    @property
    def exact_match_interval(self) -> Interval | None:
        """Wilson's 95 % interval of the exact matches."""
        return wilson_interval(self.num_exact, self.num_rows)

    def to_json(self) -> dict[str, object]:
        """Return every figure."""
        interval = self.exact_match_interval
        return {
            "num_rows": self.num_rows,
            "num_exact": self.num_exact,
            "exact_match": self.exact_match,
            "exact_match_interval": None if interval is None else interval.to_json(),
            "num_empty_hypotheses": self.num_empty_hypotheses,
            "num_empty_references": self.num_empty_references,
            "bleu": self.bleu.to_json(),
            "chrf": self.chrf.to_json(),
            **self.characters.to_json(),
            **self.words.to_json(),
        }


def translation_scores(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    bleu_tokens: BleuTokens = "13a",
    word_unit: Literal["word", "phone"] = "word",
) -> TranslationScores:
    """Measure every hypothesis against its references, of which a row has one or more.

    Raises `ShapeError` for unequal numbers of rows, `DataError` for a row without a reference,
    `MissingPackageError` without sacrebleu or jiwer.
    """
    _require_references(hypotheses, references)
    return TranslationScores(
        num_rows=len(hypotheses),
        num_exact=sum(exact_rows(hypotheses, references)),
        num_empty_hypotheses=sum(not text.strip() for text in hypotheses),
        num_empty_references=sum(not text.strip() for row in references for text in row),
        bleu=bleu_score(hypotheses, references, tokens=bleu_tokens),
        chrf=chrf_score(hypotheses, references),
        characters=error_rate(hypotheses, references, unit="character"),
        words=error_rate(hypotheses, references, unit=word_unit),
    )


def exact_rows(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[bool]:
    """Return for each row whether the hypothesis equals one of its references."""
    _require_references(hypotheses, references)
    return [text in row for text, row in zip(hypotheses, references, strict=True)]


def bleu_score(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, tokens: BleuTokens = "13a"
) -> OverlapScore:
    """Return corpus BLEU through sacrebleu, with its default smoothing (exp) and case kept.

    Texts without four tokens in a row anywhere have 0, as sacrebleu has it: measure words and
    phones by `error_rate`. Raises as `translation_scores`.
    """
    _require_references(hypotheses, references)
    metric = _sacrebleu().BLEU(tokenize=tokens, force=True)
    if not hypotheses:
        return OverlapScore("BLEU", None, "")
    found = metric.corpus_score(list(hypotheses), _by_reference(references))
    return OverlapScore(
        name="BLEU",
        score=float(found.score),
        signature=str(metric.get_signature()),
        matches=tuple(int(count) for count in found.counts),
        totals=tuple(int(count) for count in found.totals),
        hypothesis_length=int(found.sys_len),
        reference_length=int(found.ref_len),
    )


def chrf_score(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    word_order: Literal[0, 2] = 0,
) -> OverlapScore:
    """Return corpus chrF2 through sacrebleu (word_order 2: chrF++).

    Raises as `translation_scores`.
    """
    _require_references(hypotheses, references)
    metric = _sacrebleu().CHRF(word_order=word_order)
    name = "chrF2++" if word_order else "chrF2"
    if not hypotheses:
        return OverlapScore(name, None, "")
    found = metric.corpus_score(list(hypotheses), _by_reference(references))
    return OverlapScore(name, float(found.score), str(metric.get_signature()))


def bleu_rows(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, tokens: BleuTokens = "13a"
) -> npt.NDArray[np.int64]:
    """Return the counts of each row that BLEU is made of: [B, 10], the rows of a bootstrap.

    Columns: tokens of the hypothesis, of the closest reference, matches of orders 1 to 4, n-grams
    of orders 1 to 4. `bleu_of_sums` makes BLEU of their sums.
    """
    _require_references(hypotheses, references)
    # The effective order changes the score of a row, which is not used, and spares a remark.
    metric = _sacrebleu().BLEU(tokenize=tokens, force=True, effective_order=True)
    rows_BN = np.zeros((len(hypotheses), BLEU_COLUMNS), dtype=np.int64)
    for row_N, text, several in zip(rows_BN, hypotheses, references, strict=True):
        found = metric.sentence_score(text, list(several))
        row_N[:] = [found.sys_len, found.ref_len, *found.counts, *found.totals]
    return rows_BN


def bleu_of_sums(sums_RN: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return BLEU of sums of `bleu_rows`, [R, 10] → [R], as sacrebleu's default does.

        BLEU = 100 · min(1, e^{1 − r/h}) · (Π_n p_n)^{1/4},   p_n = matches_n / totals_n

    where a p_n without a match is 1 / (2^k · totals_n), k counting such orders from 1 on; 0 where
    there is no n-gram of some order or no match at all (Papineni et al., 2002; smoothing: Chen and
    Cherry, 2014, method 3).
    """
    lengths_R, references_R = sums_RN[:, 0], sums_RN[:, 1]
    matches_RN = sums_RN[:, 2 : 2 + MOST_BLEU_ORDER]
    totals_RN = sums_RN[:, 2 + MOST_BLEU_ORDER :]
    missing_RN = matches_RN == 0
    smoothed_RN = np.where(missing_RN, 0.5 ** np.cumsum(missing_RN, axis=1), matches_RN)
    means_R = (np.log(smoothed_RN) - np.log(np.maximum(totals_RN, 1.0))).mean(axis=1)
    short_R = np.minimum(0.0, 1.0 - references_R / np.maximum(lengths_R, 1.0))
    none_R = (totals_RN == 0).any(axis=1) | missing_RN.all(axis=1)
    bleu_R: npt.NDArray[np.float64] = np.where(none_R, 0.0, _PERCENT * np.exp(means_R + short_R))
    return bleu_R


def error_rate(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, unit: ErrorUnit
) -> ErrorRate:
    """Return the edits between every hypothesis and its reference, found by jiwer.

    Nothing is normalised: case, marks and blanks within a character unit count, and composed and
    decomposed letters differ. Raises as `translation_scores`.
    """
    _require_references(hypotheses, references)
    parted: Callable[[str], list[str]] = list if unit == "character" else str.split
    counts: list[tuple[int, int, int]] = []
    lengths: list[int] = []
    flat = [
        (parted(text), parted(other))
        for text, several in zip(hypotheses, references, strict=True)
        for other in several
    ]
    edits = iter(_edits([text for text, _ in flat], [other for _, other in flat]))
    pairs = iter(flat)
    for several in references:
        choices = [(next(edits), len(next(pairs)[1])) for _ in several]
        best, length = min(choices, key=lambda choice: (sum(choice[0]), -choice[1]))
        counts.append(best)
        lengths.append(length)
    return ErrorRate(
        unit=unit,
        num_substitutions=sum(count[0] for count in counts),
        num_deletions=sum(count[1] for count in counts),
        num_insertions=sum(count[2] for count in counts),
        row_edits=tuple(map(sum, counts)),
        row_lengths=tuple(lengths),
    )


def _edits(
    hypotheses: Sequence[list[str]], references: Sequence[list[str]]
) -> list[tuple[int, int, int]]:
    """Return substitutions, deletions and insertions of each pair."""
    jiwer = metric_module("jiwer", "count the edits between two texts")
    counts = [(0, 0, len(text)) for text in hypotheses]
    # Older versions of jiwer refuse an empty reference, which needs no alignment.
    rows = [number for number, reference in enumerate(references) if reference]
    if not rows:
        return counts
    found = jiwer.process_words(
        # Any text that is not empty will do: the transforms give the symbols.
        ["."] * len(rows),
        ["."] * len(rows),
        reference_transform=lambda _: [references[row] for row in rows],
        hypothesis_transform=lambda _: [hypotheses[row] for row in rows],
    )
    for row, alignment in zip(rows, found.alignments, strict=True):
        kinds = {"substitute": 0, "replace": 0, "delete": 0, "insert": 0, "equal": 0}
        for chunk in alignment:
            size = max(
                chunk.ref_end_idx - chunk.ref_start_idx, chunk.hyp_end_idx - chunk.hyp_start_idx
            )
            kinds[chunk.type] += size
        counts[row] = (kinds["substitute"] + kinds["replace"], kinds["delete"], kinds["insert"])
    return counts


def _require_references(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    require_same_rows("hypotheses and references", hypotheses, references)
    for number, row in enumerate(references, start=1):
        if isinstance(row, str) or not row:
            raise DataError(
                f"the references of row {number} must be a sequence of one text or more",
                got=repr(row),
            )


def _by_reference(references: Sequence[Sequence[str]]) -> list[list[str | None]]:
    """Return the first reference of every row, then the second …, None where a row has no more."""
    most = max(map(len, references))
    return [
        [row[number] if number < len(row) else None for row in references] for number in range(most)
    ]


def _sacrebleu() -> Any:
    return metric_module("sacrebleu.metrics", "measure BLEU and chrF")
