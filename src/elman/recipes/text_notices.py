"""What a person should know of a text before a model learns from it."""

from collections.abc import Iterable, Iterator, Mapping

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
