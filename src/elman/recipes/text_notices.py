"""What a person should know of a text before a model learns from it."""

from collections.abc import Iterable, Iterator, Mapping

from elman.config.text_settings import TextSettings
from elman.evaluation.units import percent
from elman.text.reading import TextReport

FEW_TOKENS = 1_000
"""A figure of fewer tokens is mostly chance."""


def oddities(reports: Iterable[TextReport]) -> Iterator[str]:
    """Yield a line for each thing in the files that a person would want to know of."""
    for report in reports:
        for count, meaning in (
            (report.nul, "NUL characters (kept)"),
            (report.invisible, "invisible characters (kept)"),
            (report.carriage_returns, "carriage returns inside lines (kept)"),
        ):
            if count:
                yield f"{report.name}: {count:,} {meaning}"


def few_held_out(num_tokens: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each held-out part that is too small to say much, by its tokens."""
    for name, count in num_tokens.items():
        if name != "train" and count < FEW_TOKENS:
            yield f"the {name} part has {count:,} tokens: figures on so few say little"


def learnt_too(names: Iterable[str]) -> Iterator[str]:
    """Yield a line for each held-out part that is the training part itself."""
    for name in names:
        yield (
            f"the {name} part is the text that is learnt from: its figures are of what is known "
            "by heart"
        )


def unknown_words(
    text: TextSettings, unknown: Mapping[str, int], num_tokens: Mapping[str, int]
) -> Iterator[str]:
    """Yield a line where words are unknown by `text.min_count`, or unknown ones are never learnt.

    `unknown` are the unknown tokens of each part, `num_tokens` all of them.
    """
    if text.level != "word" or text.unknown != "replace":
        return
    learnt = unknown["train"]
    if learnt and text.min_count > 1:
        times = "once" if text.min_count == 2 else f"less than {text.min_count} times"
        share = percent(learnt / num_tokens["train"])
        yield (
            f"words seen {times} are read as unknown ({share} of what is learnt from), so "
            "that unknown words are learnt too; text.min_count = 1 keeps all"
        )
    elif not learnt and any(unknown.values()):
        yield (
            "no word of what is learnt from is unknown, and some that are held out are: what they "
            "cost is chance; text.min_count = 2 reads words seen once as unknown"
        )
