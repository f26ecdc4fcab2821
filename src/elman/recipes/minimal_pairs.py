"""Minimal pairs: of two sentences that differ in one point, which does the model find likelier?"""

from dataclasses import dataclass
from pathlib import Path

from elman.config.text_settings import UnknownPolicy
from elman.data.agreement import agreement_pairs
from elman.errors import DataError, UnknownSymbolError, first_few
from elman.evaluation.units import nats_to_bits
from elman.recipes.corpus import BUILT_IN_PREFIX
from elman.recipes.scoring import score_sentences
from elman.recipes.trained import TrainedModel
from elman.text.reading import iter_lines, open_sources

AGREEMENT = "builtin:agreement"
MOST_SHOWN = 5
"""Pairs judged wrong that a summary shows."""


@dataclass(frozen=True)
class JudgedPairs:
    """The surprisal of each good and bad sentence, in nats, in the order of the file.

    `groups` names what each pair is an example of, "" where nothing is said. `num_unknown` pairs
    were left out, as the run does not know all of their words; `num_with_unknown` were not, and
    have such words all the same.
    """

    sentences: tuple[tuple[str, str], ...]
    good_nats: tuple[float, ...]
    bad_nats: tuple[float, ...]
    groups: tuple[str, ...]
    num_unknown: int = 0
    num_with_unknown: int = 0

    @property
    def num_right(self) -> int:
        """Pairs whose good sentence is strictly likelier; a tie is not right."""
        return sum(good < bad for good, bad in zip(self.good_nats, self.bad_nats, strict=True))

    @property
    def accuracy(self) -> float:
        """num_right over the number of pairs."""
        return self.num_right / len(self.sentences)

    def by_group(self) -> dict[str, tuple[int, int]]:
        """Return (right, all) of each group, in the order of the file."""
        found: dict[str, tuple[int, int]] = {}
        for group, good, bad in zip(self.groups, self.good_nats, self.bad_nats, strict=True):
            right, count = found.get(group, (0, 0))
            found[group] = right + (good < bad), count + 1
        return found

    def to_json(self) -> dict[str, object]:
        """Return counts, accuracy and every pair with its surprisals in bits."""
        pairs = [
            {
                "group": group,
                "good": good,
                "bad": bad,
                "good_bits": nats_to_bits(good_nats),
                "bad_bits": nats_to_bits(bad_nats),
            }
            for (good, bad), good_nats, bad_nats, group in zip(
                self.sentences, self.good_nats, self.bad_nats, self.groups, strict=True
            )
        ]
        return {
            "num_pairs": len(self.sentences),
            "num_right": self.num_right,
            "accuracy": self.accuracy,
            "num_pairs_left_out": self.num_unknown,
            "num_pairs_with_unknown": self.num_with_unknown,
            "groups": {
                group: {"num_right": right, "num_pairs": count, "accuracy": right / count}
                for group, (right, count) in self.by_group().items()
            },
            "pairs": pairs,
        }

    def summary(self) -> str:
        """Return the result as a sentence with its numbers, and the first pairs judged wrong."""
        lines = [
            f"the good sentence is likelier in {self.num_right:,} of {len(self.sentences):,} pairs "
            f"({100 * self.accuracy:.1f} %)"
        ]
        groups = self.by_group()
        if len(groups) > 1:
            width = max(map(len, groups))
            lines += [
                f"  {group:<{width}}  {100 * right / count:5.1f} %  of {count:,}"
                for group, (right, count) in groups.items()
            ]
        if self.num_unknown:
            lines.append(f"{self.num_unknown:,} pairs are left out: they have words unknown here")
        if self.num_with_unknown:
            lines.append(
                f"{self.num_with_unknown:,} of them have words unknown here, which are judged as "
                "[ UNK ] whatever they are"
            )
        judged = zip(self.sentences, self.good_nats, self.bad_nats, strict=True)
        wrong = [row for row in judged if row[1] >= row[2]]
        for (good, bad), good_nats, bad_nats in wrong[:MOST_SHOWN]:
            verdict = "a tie" if good_nats == bad_nats else "the bad one is likelier"
            lines.append(
                f"  {verdict}: {nats_to_bits(good_nats):.2f} bits {good!r}, "
                f"{nats_to_bits(bad_nats):.2f} bits {bad!r}"
            )
        if len(wrong) > MOST_SHOWN:
            lines.append(f"  and {len(wrong) - MOST_SHOWN:,} more; --json has every pair")
        return "\n".join(lines)


def judge_pairs(
    trained: TrainedModel, path: Path, *, encoding: str, policy: UnknownPolicy | None = None
) -> JudgedPairs:
    """Score both sentences of each line `good⇥bad` or `good⇥bad⇥group`; blank ones do not count.

    `builtin:agreement` names the pairs of `elman.data.agreement`, of which those with words that
    the run does not know are left out, for both numbers of the subject. Raises `DataError` for
    another name of that kind, and naming each line that has not two or three columns, up to the
    first five.
    """
    left_out = strange = 0
    if str(path) == AGREEMENT:
        rows = list(agreement_pairs())
        # Both numbers of a frame go together: a model that sees no subject is right in one of them.
        odd = {row.frame for row in rows if not all(_is_known(trained, one) for one in row[:2])}
        known = [tuple(row[:3]) for row in rows if row.frame not in odd]
        left_out = len(rows) - len(known)
        if not known:
            raise DataError(f"the run knows not all words of any pair of {AGREEMENT}")
    elif str(path).startswith(BUILT_IN_PREFIX):
        raise DataError(
            "there is no built-in set of pairs of that name", got=str(path), allowed=AGREEMENT
        )
    else:
        known = _read(path, encoding)
        strange = sum(not all(_is_known(trained, one) for one in row[:2]) for row in known)
    flat = [sentence for row in known for sentence in row[:2]]
    nats = score_sentences(trained, flat, policy=policy)
    return JudgedPairs(
        tuple((row[0], row[1]) for row in known),
        tuple(nats[0::2]),
        tuple(nats[1::2]),
        tuple(row[2] for row in known),
        left_out,
        strange,
    )


def _is_known(trained: TrainedModel, sentence: str) -> bool:
    tokenizer = trained.tokenizer
    unk_id = tokenizer.vocabulary.unk_id
    try:
        return unk_id not in tokenizer.encode(sentence).tolist()
    except UnknownSymbolError:
        return False


def _read(path: Path, encoding: str) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    wrong: list[str] = []
    if path.is_dir():
        raise DataError("minimal pairs must be in a file", got=f"{path}, a folder")
    (source,) = open_sources([path], encoding=encoding)
    for number, line in enumerate(iter_lines(source.chunks()), start=1):
        columns = line.split("\t")
        if not line.strip():
            continue
        if len(columns) in (2, 3) and all(column.strip() for column in columns):
            rows.append((columns[0], columns[1], columns[2] if len(columns) == 3 else ""))
        else:
            filled = sum(bool(column.strip()) for column in columns)
            wrong.append(f"line {number} with {filled} text{'s'[: filled != 1]}")
    if wrong or not rows:
        raise DataError(
            f"{path} must have two texts divided by a tab on each line, good and bad",
            got=first_few(wrong) if wrong else "no pair",
            hint="a third column may name what the pair is an example of",
        )
    return rows
