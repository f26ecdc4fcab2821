"""Simpler models on the very rows and tokens of a classifier: what reading in order has to beat."""

from collections.abc import Mapping, Sequence

from elman.evaluation.label_report import BaselineLabels
from elman.models.bag_of_words import BagOfWords
from elman.recipes.classifying import USUAL, usual_labels
from elman.recipes.label_preparing import LabelPart, PreparedLabels
from elman.recipes.prepared_text import PartName

MOST_SEPARATE_LABELS = 50
"""Of several answers a bag is learnt for each label; of more labels than these none is."""

MOST_NGRAM_WORK = 50_000_000
"""Tokens times labels, above which n-grams would take longer to learn than they are worth."""

YES, NO = "yes", "no"

Given = Sequence[tuple[str, ...]]


def baseline_labels(
    prepared: PreparedLabels, *, level: str, is_series: bool
) -> Mapping[PartName, Mapping[str, BaselineLabels]]:
    """Return what simpler models say of each row of each part held out, by the name of the model.

    All learn from the same training rows, cut into the same tokens: the most frequent label; the
    bag of single tokens, which is blind to order; and, of texts, the bag of pairs of words or
    strings of up to four characters, which sees a little of it.
    """
    held: dict[PartName, LabelPart] = {
        name: part for name, part in prepared.parts.items() if name != "train"
    }
    usual = usual_labels(prepared.labels)
    found = {
        name: {USUAL: BaselineLabels([usual] * part.num_rows, is_order_blind=True)}
        for name, part in held.items()
    }
    for title, longest in _bags(prepared, level=level, is_series=is_series):
        for name, given in _bag_labels(prepared, held, longest).items():
            found[name][title] = BaselineLabels(given, is_order_blind=longest == 1)
    return found


def _bags(prepared: PreparedLabels, *, level: str, is_series: bool) -> list[tuple[str, int]]:
    labels = prepared.labels
    if labels.answers == "several" and len(labels) > MOST_SEPARATE_LABELS:
        return []
    if is_series:
        return [("histogram of the numbers", 1)]
    word = {"word": "words", "bpe": "subwords", "byte": "bytes"}.get(level, "characters")
    longest = 2 if level in ("word", "bpe") else 4
    bags = [(f"bag of {word}", 1)]
    work = prepared.parts["train"].num_steps * len(labels) * longest
    if work <= MOST_NGRAM_WORK:
        bags.append((f"bag of 1 to {longest} {word} in a row", longest))
    return bags


def _bag_labels(
    prepared: PreparedLabels, held: Mapping[PartName, LabelPart], longest: int
) -> dict[PartName, Given]:
    train = prepared.parts["train"]
    rows = prepared.encoder.tokens(train.rows)
    asked = {name: prepared.encoder.tokens(part.rows) for name, part in held.items()}
    if prepared.labels.answers == "one":
        bag = BagOfWords.fit(rows, [row[0] for row in train.gold], longest=longest)
        return {name: [(label,) for label in bag.predict(part)] for name, part in asked.items()}
    given: dict[PartName, list[list[str]]] = {
        name: [[] for _ in part] for name, part in asked.items()
    }
    for label in prepared.labels.labels:
        has = [YES if label in row else NO for row in train.gold]
        bag = BagOfWords.fit(rows, has, longest=longest)
        for name, part in asked.items():
            for place, answer in enumerate(bag.predict(part)):
                if answer == YES:
                    given[name][place].append(label)
    return {name: [tuple(row) for row in part] for name, part in given.items()}
