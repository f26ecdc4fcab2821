"""Accuracy and time of the bag-of-words baselines on labelled text.

python benchmarks/bag_of_words.py polarity FOLDER  ten folds of rt-polarity, row i in fold i % 10
python benchmarks/bag_of_words.py intents FILE     data_full.json of clinc150, in scope, test part
python benchmarks/bag_of_words.py names FOLDER     a file per language; every fifth name is held out
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from elman.evaluation.labels import LabelScores, label_scores, majority_label
from elman.models.bag_of_words import BagKind, BagOfWords, TokenRow

Labelled = list[tuple[str, str]]
SETTINGS: tuple[tuple[BagKind, int], ...] = (
    ("naive_bayes", 1),
    ("naive_bayes", 2),
    ("logistic", 1),
    ("logistic", 2),
)
NAME_SETTINGS: tuple[tuple[BagKind, int], ...] = (*SETTINGS, ("naive_bayes", 4), ("logistic", 4))
FOLDS = 10


def words(text: str) -> TokenRow:
    return text.lower().split()


def framed_characters(text: str) -> TokenRow:
    return f"^{text.lower()}$"


def lines_of(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def polarity(folder: Path) -> list[tuple[Labelled, Labelled]]:
    rows = [
        (number, line, label)
        for label in ("pos", "neg")
        for number, line in enumerate(lines_of(folder / f"rt-polarity.{label}"))
    ]
    return [
        (
            [(text, label) for number, text, label in rows if number % FOLDS != fold],
            [(text, label) for number, text, label in rows if number % FOLDS == fold],
        )
        for fold in range(FOLDS)
    ]


def intents(path: Path) -> list[tuple[Labelled, Labelled]]:
    data = json.loads(path.read_text(encoding="utf-8"))
    return [([tuple(row) for row in data["train"]], [tuple(row) for row in data["test"]])]


def names(folder: Path) -> list[tuple[Labelled, Labelled]]:
    train: Labelled = []
    test: Labelled = []
    for path in sorted(folder.glob("*.txt")):
        if path.stem != "LICENCE":
            for number, name in enumerate(lines_of(path)):
                (test if number % 5 == 4 else train).append((name, path.stem))
    return [(train, test)]


def measure(
    folds: list[tuple[Labelled, Labelled]],
    kind: BagKind | None,
    longest: int,
    cut: Callable[[str], TokenRow],
) -> list[str]:
    """One row of the table; without a kind it is the majority label."""
    gold: list[str] = []
    predicted: list[str] = []
    seconds = features = 0.0
    for train, test in folds:
        labels = [label for _, label in train]
        started = time.perf_counter()
        if kind is None:
            given = [majority_label(labels)] * len(test)
        else:
            model = BagOfWords.fit(
                [cut(text) for text, _ in train], labels, kind=kind, longest=longest
            )
            features = model.num_features
            given = model.predict([cut(text) for text, _ in test])
        seconds += time.perf_counter() - started
        gold += [label for _, label in test]
        predicted += given
    scores: LabelScores = label_scores(gold, predicted)
    interval = scores.accuracy_interval
    assert interval is not None
    return [
        "majority" if kind is None else kind,
        str(longest) if kind else "–",
        f"{features:,.0f}",
        f"{100 * scores.num_right / scores.num_rows:.2f}",
        f"{100 * interval.low:.2f}–{100 * interval.high:.2f}",
        f"{scores.macro_f1:.4f}",
        f"{seconds / len(folds):.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["polarity", "intents", "names"])
    parser.add_argument("path", type=Path)
    arguments = parser.parse_args()
    readers = {"polarity": polarity, "intents": intents, "names": names}
    folds = readers[arguments.task](arguments.path)
    is_names = arguments.task == "names"
    table = Table("model", "longest", "features", "accuracy %", "95 %", "macro F1", "s a fold")
    cut = framed_characters if is_names else words
    table.add_row(*measure(folds, None, 1, cut))
    for kind, longest in NAME_SETTINGS if is_names else SETTINGS:
        table.add_row(*measure(folds, kind, longest, cut))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
