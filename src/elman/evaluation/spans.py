"""Scores of spans told by tags (B-LOC E-LOC …): which spans there are is said by `seqeval`.

Two rules read tags that fit together badly in two ways, and every result says which it used:

    strict  a span counts only if its tags are those that the scheme asks for: O I-PER I-PER has no
            span in BIO, B-LOC I-LOC O none in BIOES (seqeval's `mode="strict"`);
    conll   as the script conlleval of the shared tasks reads them: a tag of another type, or I
            after O, begins a span, and whatever follows of the same type belongs to it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from elman.errors import DataError
from elman.evaluation.packages import metric_module
from elman.evaluation.ratios import ClassAverages, ClassCounts, average_classes
from elman.evaluation.tags import require_same_sentences

SpanRule = Literal["strict", "conll"]
SpanScheme = Literal["BIO", "IOB1", "BIOES", "BILOU"]
"""BIO begins every span with B (IOB2); IOB1 only where the span before ends next to it."""
Span = tuple[str, int, int]
"""(type, first word, word after the last)."""

_PURPOSE = "find the spans of tags"
_SEQEVAL_SCHEMES: Mapping[SpanScheme, str] = MappingProxyType(
    {"BIO": "IOB2", "IOB1": "IOB1", "BIOES": "IOBES", "BILOU": "IOBES"}
)
_PREFIXES: Mapping[SpanScheme, str] = MappingProxyType(
    {"BIO": "BIO", "IOB1": "BIO", "BIOES": "BIOES", "BILOU": "BILOU"}
)
# BILOU is BIOES by other letters, and seqeval's loose rule knows only these.
_LETTERS: Mapping[str, str] = MappingProxyType({"L": "E", "U": "S"})


@dataclass(frozen=True)
class SpanScores:
    """How many spans were found, by type, under one rule.

    A span is right if type, beginning and end are. `num_stray_gold` and `num_stray_predicted` are
    the tags other than O that are in no span of the strict rule: none in well-formed data; gold
    ones mean that the scheme is another. `unknown_tags` are gold tags that the system cannot
    predict, each with its number.
    """

    rule: SpanRule
    scheme: SpanScheme
    classes: tuple[ClassCounts, ...]
    num_stray_gold: int
    num_stray_predicted: int
    unknown_tags: tuple[tuple[str, int], ...]

    @cached_property
    def averages(self) -> ClassAverages:
        """Micro and macro averages over the types."""
        return average_classes(self.classes)

    @property
    def precision(self) -> float | None:
        """Right spans over predicted ones; undefined where none was predicted."""
        return self.averages.total.precision

    @property
    def recall(self) -> float | None:
        """Right spans over gold ones."""
        return self.averages.total.recall

    @property
    def f1(self) -> float | None:
        """2 · right spans / (gold + predicted spans)."""
        return self.averages.total.f1

    @property
    def warning(self) -> str:
        """What makes the figures doubtful, or an empty string."""
        if self.num_stray_gold:
            return (
                f"{self.num_stray_gold:,} gold tags are in no span of the scheme {self.scheme}: "
                "the data may be in another one"
            )
        return ""

    def to_json(self) -> dict[str, object]:
        """Return the rule, counts and ratios."""
        total = self.averages.total
        return {
            "rule": self.rule,
            "scheme": self.scheme,
            "num_gold_spans": total.num_gold,
            "num_predicted_spans": total.num_predicted,
            "num_right_spans": total.num_right,
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "macro_f1": self.averages.macro_f1,
            "num_undefined_f1": self.averages.num_undefined_f1,
            "classes": [each.to_json() for each in self.classes],
            "num_stray_gold": self.num_stray_gold,
            "num_stray_predicted": self.num_stray_predicted,
            "unknown_tags": dict(self.unknown_tags),
            "warning": self.warning,
        }


def span_scores(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    rule: SpanRule,
    scheme: SpanScheme | None = None,
    tags: Sequence[str] | None = None,
) -> SpanScores:
    """Compare the spans of the gold tags of every sentence with those of the predicted ones.

    Without `scheme` it is that of the tags (`scheme_of_tags`). `tags` are those that the system can
    predict; gold tags beyond them are listed and cost what they cost. Raises `ShapeError` where
    sentences or their lengths differ, `DataError` for tags that are no tags of spans,
    `MissingPackageError` without seqeval.
    """
    require_same_sentences(gold, predicted)
    if scheme is None:
        scheme = scheme_of_tags(gold, predicted)
    counts: dict[str, list[int]] = {}
    stray = [0, 0]
    for right, given in zip(gold, predicted, strict=True):
        strict = [
            frozenset(spans_of_tags(tags, rule="strict", scheme=scheme)) for tags in (right, given)
        ]
        spans = strict
        if rule == "conll":
            spans = [
                frozenset(spans_of_tags(tags, rule="conll", scheme=scheme))
                for tags in (right, given)
            ]
        for column, found in enumerate((*spans, spans[0] & spans[1])):
            for type_name, _, _ in found:
                counts.setdefault(type_name, [0, 0, 0])[column] += 1
        for side, sentence in enumerate((right, given)):
            inside = sum(end - start for _, start, end in strict[side])
            stray[side] += sum(tag != "O" for tag in sentence) - inside
    unknown: Counter[str] = Counter()
    if tags is not None:
        known = frozenset(tags)
        unknown.update(tag for sentence in gold for tag in sentence if tag not in known)
    return SpanScores(
        rule=rule,
        scheme=scheme,
        classes=tuple(ClassCounts(name, *counts[name]) for name in sorted(counts)),
        num_stray_gold=stray[0],
        num_stray_predicted=stray[1],
        unknown_tags=tuple(sorted(unknown.items())),
    )


def spans_of_tags(tags: Sequence[str], *, rule: SpanRule, scheme: SpanScheme) -> tuple[Span, ...]:
    """Return the spans of one sentence in order, under the rule.

    A tag that the scheme has not (E-LOC in BIO) is read as O by the strict rule, and by its letter
    by the other. Raises `DataError` for what is no tag of a span, `MissingPackageError` without
    seqeval.
    """
    letters, types = [], []
    for tag in tags:
        letter, type_name = _parted(tag)
        foreign = rule == "strict" and letter not in _PREFIXES[scheme]
        letters.append("O" if foreign else _LETTERS.get(letter, letter))
        types.append(type_name)
    # Types go as numbers: seqeval cuts dashes off names, and would take two types for one.
    names = list(dict.fromkeys(types))
    numbers = {name: number for number, name in enumerate(names)}
    plain = [
        "O" if letter == "O" else f"{letter}-{numbers[type_name]}"
        for letter, type_name in zip(letters, types, strict=True)
    ]
    if rule == "conll":
        module = metric_module("seqeval.metrics.sequence_labeling", _PURPOSE)
        return tuple(
            (names[int(number)], start, last + 1)
            for number, start, last in module.get_entities(plain)
        )
    module = metric_module("seqeval.scheme", _PURPOSE)
    reader: Any = getattr(module, _SEQEVAL_SCHEMES[scheme])
    return tuple(
        (names[int(entity.tag)], entity.start, entity.end)
        for entity in module.Tokens(plain, reader).entities
    )


def scheme_of_tags(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]] = ()
) -> SpanScheme:
    """Return the scheme of the tags: by their letters, and B or no B where a gold span begins.

    L or U mean BILOU, E or S mean BIOES, in either data. With only B and I it is IOB1 if the gold
    tags break a rule of BIO and none of IOB1, and BIO otherwise. Raises `DataError` for tags that
    are no tags of spans and for the letters of both BIOES and BILOU.
    """
    letters = {_parted(tag)[0] for data in (gold, predicted) for tags in data for tag in tags}
    if letters & set("LU"):
        if letters & set("ES"):
            raise DataError(
                "tags of spans must be of one scheme",
                got=" ".join(sorted(letters)),
                allowed="B I E S O, B I L U O, or B I O",
            )
        return "BILOU"
    if letters & set("ES"):
        return "BIOES"
    parted = [[_parted(tag) for tag in tags] for tags in gold]
    if all(map(_fits_bio, parted)) or not all(map(_fits_iob1, parted)):
        return "BIO"
    return "IOB1"


def _parted(tag: str) -> tuple[str, str]:
    """Return letter and type of a tag; the type of a bare B is empty."""
    letter, dash, type_name = tag.partition("-")
    if letter not in tuple("OBIESLU") or (letter == "O" and dash) or (dash and not type_name):
        raise DataError(
            "a tag of a span must be O or a letter, a dash and a type",
            got=repr(tag),
            allowed="B- I- E- S- L- U- before a type, or O",
        )
    return letter, type_name


def _fits_bio(tags: Sequence[tuple[str, str]]) -> bool:
    pairs = zip([("O", ""), *tags], tags, strict=False)
    return all(
        now != "I" or (before != "O" and one == other) for (before, one), (now, other) in pairs
    )


def _fits_iob1(tags: Sequence[tuple[str, str]]) -> bool:
    pairs = zip([("O", ""), *tags], tags, strict=False)
    return all(
        now != "B" or (before != "O" and one == other) for (before, one), (now, other) in pairs
    )
