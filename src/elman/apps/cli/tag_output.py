"""The figures of taggers as tables for people."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from elman.errors import first_few
from elman.evaluation.label_tables import class_table
from elman.evaluation.ratios import ClassCounts

USUAL = "usual tags"
"""How the baseline is called: each word has the tag that it had most often."""

MOST_TAGS = 40
"""Tags in the table for people; of more those with the most mistakes are shown."""

MOST_UNKNOWN = 10
"""Tags that training does not have, told by name; of more the number is told."""

_SHARES = (
    ("tokens right", "token_accuracy", "num_tokens"),
    ("words never seen right", "unseen_accuracy", "num_unseen"),
    ("sentences right", "sentence_accuracy", "num_sentences"),
)
_RULES = (("spans, strict", "strict"), ("spans, as conlleval", "conll"))


def tag_table(scores: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the figures of each named part, a column a part and one for its baseline."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for name in scores:
        table.add_column(name, justify="right")
        table.add_column(USUAL, justify="right", header_style="")
    for label, key, count in _SHARES:
        cells = [_share(figures, key) for figures in _pairs(scores)]
        if any(score[count] for score in scores.values()):
            table.add_row(label, *cells)
    for label, rule in _RULES:
        if all(score["spans"] for score in scores.values()):
            found = [figures["spans"][rule] for figures in _pairs(scores)]
            table.add_row(f"{label}: F1", *(_number(each["f1"]) for each in found))
            table.add_row("  precision", *(_number(each["precision"]) for each in found))
            table.add_row("  recall", *(_number(each["recall"]) for each in found))
    for label, key in (("nats per token", "nats_per_token"),):
        values = [_number(score[key]) for score in scores.values()]
        table.add_row(label, *(cell for value in values for cell in (value, "")))
    for label, key in (("tokens", "num_tokens"), ("words never seen", "num_unseen")):
        values = [f"{score[key]:,}" for score in scores.values()]
        table.add_row(label, *(cell for value in values for cell in (value, "")))
    if any(score["spans"] for score in scores.values()):
        values = [f"{score['spans']['strict']['num_gold_spans']:,}" for score in scores.values()]
        table.add_row("spans", *(cell for value in values for cell in (value, "")))
    return table


def tags_table(score: Mapping[str, Any]) -> str:
    """Return precision, recall and F1 of each tag that occurs, and of each type of spans.

    Plain text; tags beyond `MOST_TAGS` are those with the fewest mistakes, and only counted.
    """
    counts = [_counts(each) for each in score["tokens"]["classes"]]
    parts = [_most_mistaken([each for each in counts if each.num_gold or each.num_predicted])]
    if score["spans"]:
        spans = [_counts(each) for each in score["spans"]["strict"]["classes"]]
        parts.append("spans, strict\n" + _most_mistaken(spans))
    return "\n\n".join(parts)


def tag_warnings(score: Mapping[str, Any]) -> list[str]:
    """Return what makes the figures of one part doubtful, a line each."""
    told = []
    if score["tokens"]["unknown_labels"]:
        # Of a manifest the tags come in the order of its keys, and of a score in another.
        unknown = sorted(score["tokens"]["unknown_labels"].items(), key=lambda one: (-one[1], one))
        listed = first_few([f"{tag} ({n:,})" for tag, n in unknown], MOST_UNKNOWN)
        told.append(f"training has not the tags {listed}: these tokens count as wrong")
    if score["spans"] and score["spans"]["strict"]["warning"]:
        told.append(score["spans"]["strict"]["warning"])
    return told


def _most_mistaken(classes: list[ClassCounts]) -> str:
    """Return the table of the classes, in their order, of those with the most mistakes alone."""
    ranked = sorted(
        classes, key=lambda each: 2 * each.num_right - each.num_gold - each.num_predicted
    )
    shown = {each.label for each in ranked[:MOST_TAGS]}
    table = class_table([each for each in classes if each.label in shown])
    left = len(classes) - len(shown)
    return table + (f"\nand {left:,} more with fewer mistakes (--json)" if left else "")


def _counts(facts: Mapping[str, Any]) -> ClassCounts:
    return ClassCounts(
        facts["label"], facts["num_gold"], facts["num_predicted"], facts["num_right"]
    )


def _pairs(scores: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the figures of the model and of its baseline for each part in turn."""
    return [each for score in scores.values() for each in (score, score["usual_tags"])]


def _share(figures: Mapping[str, Any], key: str) -> str:
    value = figures[key]
    return "–" if value is None else f"{100 * value:.2f} %"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
