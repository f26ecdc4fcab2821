"""Tags as spans: IOB1, BIO (IOB2) and BIOES (IOBES), what is valid in each, and conversion.

A tag is `O`, or a prefix, a hyphen and a label: `B-PER`. A label may itself hold hyphens, and may
be missing (`B`), which is the label "". Every function takes the tags of one sentence.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from elman.errors import DataError, SettingError

TagScheme = Literal["IOB1", "BIO", "BIOES"]
SpanReading = Literal["strict", "conll"]

OUTSIDE = "O"
TAG_PREFIXES = ("B", "I", "E", "S")


class Span(NamedTuple):
    """Positions start ≤ t < stop with one label."""

    label: str
    start: int
    stop: int


class AllowedTransitions(NamedTuple):
    """Which tags may begin a sentence, follow each other and end it; booleans.

    start_C [C], between_CC [C, C] from the tag of the row to that of the column, end_C [C].
    """

    start_C: npt.NDArray[np.bool_]
    between_CC: npt.NDArray[np.bool_]
    end_C: npt.NDArray[np.bool_]


def split_tag(tag: str) -> tuple[str, str]:
    """Return prefix and label: ("B", "PER") for `B-PER`, ("O", "") for `O`.

    Raises `DataError` for a tag of another form.
    """
    prefix, hyphen, label = tag.partition("-")
    if tag == OUTSIDE or (prefix in TAG_PREFIXES and bool(hyphen) == bool(label)):
        return prefix, label
    raise DataError(
        "a tag must be O, or one of B, I, E, S with a hyphen and a label", got=repr(tag)
    )


def spans_of(
    tags: Sequence[str], scheme: TagScheme, *, reading: SpanReading = "strict"
) -> list[Span]:
    """Return the spans of a sentence in order.

    "strict": only what the scheme spells out in full. A tag that is out of place begins nothing
    and ends what is open: BIO `O I-X I-X` has no span, nor has BIOES `B-X I-X` without its E; a tag
    with a prefix that the scheme does not have is out of place too.

    "conll": the chunks of the script `conlleval`, whatever the scheme: a change of label, B, S, and
    I or E after O, E or S begin one; so BIO `O I-X I-X` has the span (1, 3). E and S end a chunk
    also before B, which the script itself forgot for equal labels. As `seqeval` reads by default.

    Raises `DataError` for what is no tag.
    """
    parts = [split_tag(tag) for tag in tags]
    if reading == "conll":
        return _conll_spans(parts)
    if scheme == "BIOES":
        return _closed_spans(parts)
    return _open_spans(parts, scheme)


def tags_of_spans(spans: Iterable[Span], length: int, scheme: TagScheme) -> list[str]:
    """Return the tags of a sentence of `length` words with these spans, O elsewhere.

    Raises `DataError` where spans overlap, are empty or leave the sentence.
    """
    tags = [OUTSIDE] * length
    before: Span | None = None
    for span in sorted(spans, key=lambda span: span.start):
        if not 0 <= span.start < span.stop <= length or (before and span.start < before.stop):
            raise DataError(
                f"spans of a sentence of {length} words must lie inside it and apart",
                got=f"{span.label or 'a span'} at {span.start} to {span.stop}",
            )
        joined = before is not None and (before.stop, before.label) == (span.start, span.label)
        for place in range(span.start, span.stop):
            prefix = _prefix_within(span, place, scheme, joined)
            tags[place] = f"{prefix}-{span.label}" if span.label else prefix
        before = span
    return tags


def first_invalid_tag(tags: Sequence[str], scheme: TagScheme) -> int | None:
    """Return the position of the first tag that is out of place, or None in a valid sentence.

    A sentence whose last span is not closed (BIOES) is out of place at its last tag. Raises
    `DataError` for what is no tag.
    """
    parts = [split_tag(tag) for tag in tags]
    for place, part in enumerate(parts):
        before = parts[place - 1] if place else None
        if part[0] not in _prefixes_of(scheme) or not _may_follow(before, part, scheme):
            return place
        if place == len(parts) - 1 and not _may_end(part, scheme):
            return place
    return None


def convert_tags(tags: Sequence[str], source: TagScheme, target: TagScheme) -> list[str]:
    """Return the tags of the same spans in another scheme.

    Raises `DataError`, naming the position, where `tags` are not valid in `source`.
    """
    place = first_invalid_tag(tags, source)
    if place is not None:
        before = f" after {tags[place - 1]}" if place else " at the start"
        raise DataError(
            f"a tag is out of place in the scheme {source}",
            got=f"{tags[place]}{before}, word {place + 1} of {len(tags)}",
            hint="repair the tags first, or name the scheme that they are in",
        )
    return tags_of_spans(spans_of(tags, source), len(tags), target)


def repair_tags(tags: Sequence[str], scheme: TagScheme) -> list[str]:
    """Return valid tags of `scheme` with the spans of the "conll" reading; valid ones stay."""
    if first_invalid_tag(tags, scheme) is None:
        return list(tags)
    return tags_of_spans(spans_of(tags, scheme, reading="conll"), len(tags), scheme)


def detect_scheme(sentences: Iterable[Sequence[str]]) -> TagScheme:
    """Return BIOES where an E or S occurs, IOB1 where an I begins a span, else BIO.

    Raises `DataError` for what is no tag.
    """
    found: TagScheme = "BIO"
    for tags in sentences:
        if any(split_tag(tag)[0] in ("E", "S") for tag in tags):
            return "BIOES"
        if found == "BIO" and first_invalid_tag(tags, "BIO") is not None:
            found = "IOB1"
    return found


def allowed_transitions(tags: Sequence[str], scheme: TagScheme) -> AllowedTransitions:
    """Return which of `tags`, the inventory of a tagger in id order, may follow which.

    A path within them is a valid sentence of `scheme`, and the other way round. Raises
    `DataError` for what is no tag and `SettingError` for a tag that the scheme does not have.
    """
    parts = [split_tag(tag) for tag in tags]
    for tag, (prefix, _) in zip(tags, parts, strict=True):
        if prefix not in _prefixes_of(scheme):
            raise SettingError(
                f"the scheme {scheme} has no such tag",
                got=repr(tag),
                allowed=", ".join(_prefixes_of(scheme)),
            )
    return AllowedTransitions(
        np.array([_may_follow(None, part, scheme) for part in parts], dtype=np.bool_),
        np.array(
            [[_may_follow(row, part, scheme) for part in parts] for row in parts], dtype=np.bool_
        ).reshape(len(parts), len(parts)),
        np.array([_may_end(part, scheme) for part in parts], dtype=np.bool_),
    )


def _prefixes_of(scheme: TagScheme) -> tuple[str, ...]:
    return ("O", "B", "I", "E", "S") if scheme == "BIOES" else ("O", "B", "I")


def _prefix_within(span: Span, place: int, scheme: TagScheme, joined: bool) -> str:
    """Return the prefix at `place` of a span; `joined`: one of its label ends just before it."""
    first, last = place == span.start, place == span.stop - 1
    if scheme == "BIOES" and last:
        return "S" if first else "E"
    if scheme == "IOB1":
        return "B" if first and joined else "I"
    return "B" if first else "I"


def _may_follow(before: tuple[str, str] | None, after: tuple[str, str], scheme: TagScheme) -> bool:
    """Whether `after` may stand behind `before`, None: at the start of a sentence."""
    old, label = ("O", "") if before is None else before
    prefix = after[0]
    goes_on = old in ("B", "I") and label == after[1]
    if scheme == "IOB1":
        return goes_on if prefix == "B" else True
    if scheme == "BIO":
        return goes_on if prefix == "I" else True
    return goes_on if prefix in ("I", "E") else old not in ("B", "I")


def _may_end(part: tuple[str, str], scheme: TagScheme) -> bool:
    return scheme != "BIOES" or part[0] not in ("B", "I")


def _open_spans(parts: Sequence[tuple[str, str]], scheme: TagScheme) -> list[Span]:
    """Strict spans of BIO and IOB1, which end where they are not continued."""
    spans: list[Span] = []
    start: int | None = None
    before = (OUTSIDE, "")
    for place, part in enumerate([*parts, (OUTSIDE, "")]):
        if start is not None and not (part[0] == "I" and part[1] == before[1]):
            spans.append(Span(before[1], start, place))
            start = None
        begins = part[0] == "B" or (part[0] == "I" and scheme == "IOB1")
        if start is None and begins and _may_follow(before, part, scheme):
            start = place
        before = part
    return spans


def _closed_spans(parts: Sequence[tuple[str, str]]) -> list[Span]:
    """Strict spans of BIOES: S, or B I … I E, all of one label."""
    spans: list[Span] = []
    start: int | None = None
    before: tuple[str, str] = (OUTSIDE, "")
    for place, part in enumerate(parts):
        prefix, label = part
        if prefix == "S":
            spans.append(Span(label, place, place + 1))
        if prefix == "B":
            start = place
        elif prefix not in ("I", "E") or before[1] != label:
            start = None
        elif prefix == "E" and start is not None:
            spans.append(Span(label, start, place + 1))
            start = None
        before = part
    return spans


def _conll_spans(parts: Sequence[tuple[str, str]]) -> list[Span]:
    spans: list[Span] = []
    start = 0
    old = (OUTSIDE, "")
    for place, new in enumerate([*parts, (OUTSIDE, "")]):
        changes = old[0] in ("O", "E", "S") or new[0] in ("O", "B", "S") or old[1] != new[1]
        if changes and old[0] != OUTSIDE:
            spans.append(Span(old[1], start, place))
        if changes:
            start = place
        old = new
    return spans
