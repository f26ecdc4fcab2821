"""Subject and verb that agree across what stands between: pairs of sentences, made by rule.

    the key to the cabinets of the houses is old .        good
    the key to the cabinets of the houses are old .       bad

Between subject and verb stand nouns or adverbs. Nouns of the other number than the subject are
attractors; as many frames have nouns of the subject's own. Every frame comes with both numbers of
its subject and the same words between: a model that does not see the subject prefers one verb in
both, and is right in exactly one. For a trigram two words between are enough, for a model that
looks back at n tokens n of them.
"""

from collections.abc import Iterator
from typing import NamedTuple

NOUNS = (
    *(("key", "keys"), ("player", "players"), ("song", "songs"), ("game", "games")),
    *(("ship", "ships"), ("road", "roads"), ("book", "books"), ("team", "teams")),
    *(("building", "buildings"), ("character", "characters"), ("bridge", "bridges")),
    *(("school", "schools"),),
)
PLACES = (
    *(("cabinet", "cabinets"), ("house", "houses"), ("city", "cities"), ("church", "churches")),
    *(("island", "islands"), ("station", "stations"), ("river", "rivers")),
)
VERBS = (("is", "are"), ("was", "were"), ("has", "have"))
ENDINGS = ("old .", "old .", "changed .")
"""What follows each of the verbs."""
ADVERBS = (
    *("also", "still", "often", "very", "perhaps", "really", "always", "now", "then", "only"),
    *("once", "again", "soon", "later", "almost", "probably", "finally", "never", "here", "even"),
)
LINKS = ("to the", "of the", "near the", "in the")
MOST_NOUNS = 4
DISTANCES = (0, 1, 2, 3, 5, 8, 12, 20)
"""Adverbs between subject and verb."""


class AgreementPair(NamedTuple):
    """The sentence whose verb agrees, the one whose verb does not, and what stands between.

    `frame` is the same for both numbers of a subject with the same words between and one verb.
    """

    good: str
    bad: str
    group: str
    frame: str


def agreement_pairs() -> Iterator[AgreementPair]:
    """Yield pairs for 1 to 4 nouns, then for 0 to 20 adverbs between subject and verb.

    Each group has every noun with each number and each verb.
    """
    for count in range(1, MOST_NOUNS + 1):
        for group, is_other in ((f"{count} attracting", True), (f"{count} alike", False)):
            for place, noun in enumerate(NOUNS):
                for number in (0, 1):
                    between = _nouns(place, count, 1 - number if is_other else number)
                    yield from _frames(noun, between, number, group)
    for distance in DISTANCES:
        group = f"{distance} word{'s' * (distance != 1)} between"
        for place, noun in enumerate(NOUNS):
            between = [ADVERBS[(place + step) % len(ADVERBS)] for step in range(distance)]
            for number in (0, 1):
                yield from _frames(noun, between, number, group)


def _nouns(place: int, count: int, number: int) -> list[str]:
    words = []
    for step in range(count):
        words.append(LINKS[step % len(LINKS)])
        words.append(PLACES[(place + step) % len(PLACES)][number])
    return words


def _frames(
    noun: tuple[str, str], between: list[str], number: int, group: str
) -> Iterator[AgreementPair]:
    for verb, ending in zip(VERBS, ENDINGS, strict=True):
        start = " ".join(["the", noun[number], *between])
        good, bad = verb[number], verb[1 - number]
        frame = " ".join([noun[0], *between, verb[0]])
        yield AgreementPair(f"{start} {good} {ending}", f"{start} {bad} {ending}", group, frame)
