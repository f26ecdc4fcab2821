"""The tags that a tagger gives: how files spell them, how they are learnt, and their ids."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Self

from elman.errors import DataError
from elman.text.tag_schemes import (
    OUTSIDE,
    AllowedTransitions,
    TagScheme,
    allowed_transitions,
    convert_tags,
    first_invalid_tag,
    repair_tags,
    split_tag,
)

FileScheme = Literal["none", "BIO", "IOB1", "BIOES", "BILOU"]
"""none: every tag stands for itself. BILOU is BIOES by other letters."""

LearntScheme = Literal["none", "BIO", "IOB1", "BIOES"]

_BILOU_TO_BIOES = MappingProxyType({"L": "E", "U": "S"})
_BIOES_TO_BILOU = MappingProxyType({"E": "L", "S": "U"})
_SPELLED = MappingProxyType({"BIO": ("B", "I"), "IOB1": ("I", "B"), "BIOES": ("B", "I", "E", "S")})


@dataclass(frozen=True)
class TagSet:
    """Tags in the order of their ids 0 … C-1, `learnt` in one scheme and `written` in another.

    With both "none" tags are themselves. Otherwise tags of files become the same spans in the
    scheme learnt, and what is predicted becomes spans in the scheme of the files again.
    """

    tags: tuple[str, ...]
    written: FileScheme = "none"
    learnt: LearntScheme = "none"
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ids", {tag: number for number, tag in enumerate(self.tags)})
        if len(self._ids) != len(self.tags) or not self.tags:
            raise DataError("a set of tags holds at least one, and each once", got=str(self.tags))
        if (self.written == "none") != (self.learnt == "none"):
            raise DataError(
                "tags must tell spans in files and in the model, or in neither",
                got=f"{self.written} and {self.learnt}",
            )

    def __len__(self) -> int:
        return len(self.tags)

    @classmethod
    def of(
        cls, sentences: Iterable[Sequence[str]], written: FileScheme, learnt: LearntScheme
    ) -> Self:
        """Return the tags of these sentences of files, in an order that depends on counts alone.

        Of spans, O comes first and then every prefix with every label: with all of them there is a
        valid sequence for every length, also one that was never seen. Raises `DataError` for what
        is no tag of a span, and where there is no tag.
        """
        counts: Counter[str] = Counter()
        for tags in sentences:
            if written == "none":
                counts.update(tags)
            else:
                parts = (split_tag(_without_bilou(tag, written)) for tag in tags)
                counts.update(label for prefix, label in parts if prefix != OUTSIDE)
        ordered = sorted(counts, key=lambda name: (-counts[name], name))
        if learnt == "none":
            return cls(tuple(ordered))
        return cls(_spelled(ordered, learnt), written, learnt)

    @property
    def written_tags(self) -> tuple[str, ...]:
        """The tags that predictions may hold, as files spell them."""
        if self.written == "none" or self.learnt == "none":
            return self.tags
        labels = dict.fromkeys(split_tag(tag)[1] for tag in self.tags if tag != OUTSIDE)
        spelled = _spelled(tuple(labels), _inner(self.written))
        return tuple(_with_bilou(tag, self.written) for tag in spelled)

    def ids(self, tags: Sequence[str]) -> list[int | None]:
        """Return the id of each tag of a sentence of a file; None for one that is not known.

        Tags that are out of place in their scheme are read as the script conlleval reads them.
        Raises `DataError` for what is no tag of a span.
        """
        return [self._ids.get(tag) for tag in self.as_learnt(tags)]

    def as_learnt(self, tags: Sequence[str]) -> list[str]:
        """Return the tags of a sentence of a file in the scheme learnt."""
        if self.written == "none" or self.learnt == "none":
            return list(tags)
        scheme = _inner(self.written)
        mended = repair_tags([_without_bilou(tag, self.written) for tag in tags], scheme)
        return convert_tags(mended, scheme, self.learnt)

    def as_written(self, ids: Sequence[int]) -> list[str]:
        """Return the tags of a predicted sentence as files spell them.

        Raises `DataError` where they are no valid sequence of the scheme learnt.
        """
        tags = [self.tags[number] for number in ids]
        if self.written == "none" or self.learnt == "none":
            return tags
        spelled = convert_tags(tags, self.learnt, _inner(self.written))
        return [_with_bilou(tag, self.written) for tag in spelled]

    def num_misplaced(self, tags: Sequence[str]) -> int:
        """Return how many tags of a sentence of a file reading it as spans changes."""
        if self.written == "none":
            return 0
        plain = [_without_bilou(tag, self.written) for tag in tags]
        scheme = _inner(self.written)
        if first_invalid_tag(plain, scheme) is None:
            return 0
        mended = repair_tags(plain, scheme)
        return sum(old != new for old, new in zip(plain, mended, strict=True))

    def allowed(self) -> AllowedTransitions | None:
        """Return which tags may follow which in the scheme learnt; None where all may."""
        return None if self.learnt == "none" else allowed_transitions(self.tags, self.learnt)


def first_foreign_tag(tags: Sequence[str], written: FileScheme) -> int | None:
    """Return the place of the first tag that cannot tell a span in files of this scheme, or None.

    A tag of another scheme that can be read, as E in BIO, is out of place and not foreign; where
    each tag stands for itself none is foreign.
    """
    if written == "none":
        return None
    for place, tag in enumerate(tags):
        try:
            split_tag(_without_bilou(tag, written))
        except DataError:
            return place
    return None


def tells_spans(tags: Iterable[str]) -> bool:
    """Return whether these tags can be read as spans: O, and letters of BIOES or BILOU, labelled.

    At least one has to have a label behind a hyphen: B, I and O alone may well be parts of speech.
    """
    labelled = False
    for tag in tags:
        try:
            labelled = bool(split_tag(_without_bilou(tag, "BILOU"))[1]) or labelled
        except DataError:
            return False
    return labelled


def _spelled(labels: Sequence[str], scheme: TagScheme) -> tuple[str, ...]:
    """Return O, and every prefix of the scheme with every label in order; a label may be ""."""
    spelled = (
        f"{prefix}-{label}" if label else prefix for label in labels for prefix in _SPELLED[scheme]
    )
    return (OUTSIDE, *spelled)


def _inner(written: FileScheme) -> TagScheme:
    """Return the scheme of the same rules that has BIOES for BILOU."""
    if written == "BILOU" or written == "none":
        return "BIOES"
    return written


def _without_bilou(tag: str, written: FileScheme) -> str:
    return _with_letter(tag, _BILOU_TO_BIOES) if written == "BILOU" else tag


def _with_bilou(tag: str, written: FileScheme) -> str:
    return _with_letter(tag, _BIOES_TO_BILOU) if written == "BILOU" else tag


def _with_letter(tag: str, letters: Mapping[str, str]) -> str:
    """Return the tag with another letter in place of its prefix, where it has one."""
    prefix, hyphen, label = tag.partition("-")
    return f"{letters.get(prefix, prefix)}{hyphen}{label}"
