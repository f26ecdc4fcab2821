"""Minimal pairs: of two sentences that differ in one point, which does the model find likelier?"""

from dataclasses import dataclass
from pathlib import Path

from elman.config.text_settings import UnknownPolicy
from elman.errors import DataError, first_few
from elman.evaluation.units import nats_to_bits
from elman.recipes.scoring import score_sentences
from elman.recipes.trained import TrainedModel
from elman.text.reading import iter_lines, open_sources

MOST_SHOWN = 5
"""Pairs judged wrong that a summary shows."""


@dataclass(frozen=True)
class JudgedPairs:
    """The surprisal of each good and bad sentence, in nats, in the order of the file."""

    sentences: tuple[tuple[str, str], ...]
    good_nats: tuple[float, ...]
    bad_nats: tuple[float, ...]

    @property
    def num_right(self) -> int:
        """Pairs whose good sentence is strictly likelier; a tie is not right."""
        return sum(good < bad for good, bad in zip(self.good_nats, self.bad_nats, strict=True))

    @property
    def accuracy(self) -> float:
        """num_right over the number of pairs."""
        return self.num_right / len(self.sentences)

    def to_json(self) -> dict[str, object]:
        """Return counts, accuracy and every pair with its surprisals in bits."""
        pairs = [
            {
                "good": good,
                "bad": bad,
                "good_bits": nats_to_bits(good_nats),
                "bad_bits": nats_to_bits(bad_nats),
            }
            for (good, bad), good_nats, bad_nats in zip(
                self.sentences, self.good_nats, self.bad_nats, strict=True
            )
        ]
        return {
            "num_pairs": len(self.sentences),
            "num_right": self.num_right,
            "accuracy": self.accuracy,
            "pairs": pairs,
        }

    def summary(self) -> str:
        """Return the result as a sentence with its numbers, and the first pairs judged wrong."""
        lines = [
            f"the good sentence is likelier in {self.num_right:,} of {len(self.sentences):,} pairs "
            f"({100 * self.accuracy:.1f} %)"
        ]
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
    """Score both sentences of every line `good⇥bad` of a file; blank lines are passed over.

    Raises `DataError` naming each line that has not two columns, up to the first five.
    """
    pairs: list[tuple[str, str]] = []
    wrong: list[str] = []
    if path.is_dir():
        raise DataError("minimal pairs must be in a file", got=f"{path}, a folder")
    (source,) = open_sources([path], encoding=encoding)
    for number, line in enumerate(iter_lines(source.chunks()), start=1):
        columns = line.split("\t")
        if not line.strip():
            continue
        if len(columns) == 2 and all(column.strip() for column in columns):
            pairs.append((columns[0], columns[1]))
        else:
            filled = sum(bool(column.strip()) for column in columns)
            wrong.append(f"line {number} with {filled} text{'s'[: filled != 1]}")
    if wrong or not pairs:
        raise DataError(
            f"{path} must have two texts divided by a tab on each line, good and bad",
            got=first_few(wrong) if wrong else "no pair",
        )
    flat = [sentence for pair in pairs for sentence in pair]
    nats = score_sentences(trained, flat, policy=policy)
    return JudgedPairs(tuple(pairs), tuple(nats[0::2]), tuple(nats[1::2]))
