"""How often `elman diagnose` finds a planted fault, and how often it sees one where none is.

    python benchmarks/diagnosis.py DATA FOLDER {calibration,held-out,fresh} [--only CONDITION…]

DATA is the folder of real data. Thresholds were set on the conditions of `calibration`; those of
`held-out` and of `fresh` have other texts, cells, sizes and seeds. Runs stay in FOLDER: the work
may be stopped and gone on with.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from elman.data.corpora import language_reference, unicode_names
from elman.recipes.diagnosing.planting import Texts, lines_by_chance
from elman.recipes.diagnosing.trials import (
    HEALTHY,
    Condition,
    Verdict,
    faults_for,
    found_in,
)

SMALL = ("training.batch_size=16", "training.window=32", "training.threads=1")


def parted(text: str, size: int, valid: int = 20_000) -> Texts:
    """The first `size` characters to learn from, and the next ones to choose by, in whole lines."""
    cut = text.index("\n", size) + 1
    end = text.find("\n", cut + valid) + 1
    return Texts(text[:cut], text[cut : end or len(text)])


def of_lines(lines: list[str], size: int, valid: int, seed: int) -> Texts:
    """Lines in an order by chance, none twice, so many to learn from and to choose by."""
    text = lines_by_chance("".join(f"{line}\n" for line in dict.fromkeys(lines)), seed)
    lines = text.splitlines(keepends=True)
    return Texts("".join(lines[:size]), "".join(lines[size : size + valid]))


def condition(name: str, texts: Texts, seed: int, *overrides: str) -> Condition:
    """A condition with small batches, which learns enough within a few hundred updates."""
    return Condition(name, texts, (*SMALL, *overrides), seed)


def calibration(data: Path) -> Iterator[Condition]:
    """What thresholds were set on."""
    plays = (data / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8")
    articles = (data / "wikitext-2" / "train.txt").read_text(encoding="utf-8")
    chars = ("model.embedding_size=24", "training.updates=600")
    yield condition("plays-lstm", parted(plays, 200_000), 1, "model.hidden_size=96", *chars)
    yield condition(
        *("plays-elman", parted(plays, 200_000), 2, "model.kind=elman", "model.hidden_size=128"),
        *("training.learning_rate=0.01", *chars),
    )
    yield condition(
        *("reference-gru", parted(language_reference(), 250_000), 3, "model.kind=gru"),
        *("model.hidden_size=96", *chars),
    )
    yield condition(
        *("articles-words", parted(articles, 700_000, 60_000), 4, "text.level=word"),
        *("text.min_count=3", "model.hidden_size=64", "model.embedding_size=64"),
        *("training.optimizer=adamw", "training.learning_rate=0.01", "training.updates=500"),
    )
    yield condition(
        *("names-gru", of_lines(unicode_names(), 8000, 600, 5), 5, "text.unit=line"),
        *("model.kind=gru", "model.hidden_size=64", "model.embedding_size=24"),
        "training.updates=600",
    )


def held_out(data: Path) -> Iterator[Condition]:
    """Other texts, cells, sizes and seeds."""
    novel = (data / "war-and-peace" / "warandpeace.txt").read_text(encoding="utf-8")
    articles = (data / "wikitext-2" / "train.txt").read_text(encoding="utf-8")
    pairs = (data / "tatoeba-fra-eng" / "fra.txt").read_text(encoding="utf-8").splitlines()
    given = (data / "names-makemore" / "names.txt").read_text(encoding="utf-8").splitlines()
    english = [pair.split("\t")[0] for pair in pairs]
    yield condition(
        *("novel-lstm-2", parted(novel, 300_000), 11, "model.hidden_size=64"),
        *("model.num_layers=2", "model.embedding_size=32", "training.updates=700"),
    )
    yield condition(
        *("novel-gru", parted(novel[900_000:], 200_000), 12, "model.kind=gru"),
        *("model.update=replace", "model.hidden_size=160", "training.updates=500"),
    )
    yield condition(
        *("novel-elman", parted(novel[1_800_000:], 150_000), 13, "model.kind=elman"),
        *("model.hidden_size=80", "training.learning_rate=0.01", "training.updates=800"),
    )
    yield condition(
        *("articles-mgu", parted(articles[3_000_000:], 250_000), 14, "model.kind=mgu"),
        *("model.hidden_size=112", "model.embedding_size=20", "training.updates=600"),
    )
    yield condition(
        *("novel-words", parted(novel, 900_000, 60_000), 15, "text.level=word"),
        *("text.min_count=2", "model.kind=gru", "model.hidden_size=80"),
        *("model.embedding_size=48", "training.optimizer=adamw", "training.learning_rate=0.008"),
        "training.updates=600",
    )
    yield condition(
        *("given-names", of_lines(given, 20_000, 1500, 16), 16, "text.unit=line"),
        *("model.hidden_size=48", "model.embedding_size=16", "training.updates=900"),
    )
    yield condition(
        *("sentences-minlstm", of_lines(english, 12_000, 800, 17), 17, "text.unit=line"),
        *("model.kind=minlstm", "model.hidden_size=128", "training.updates=700"),
    )


def fresh(data: Path) -> Iterator[Condition]:
    """A third set, looked at once what the second had shown was mended."""
    novel = (data / "war-and-peace" / "warandpeace.txt").read_text(encoding="utf-8")
    plays = (data / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8")
    files = sorted((data / "names-by-language").glob("*.txt"))
    names = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    yield condition(
        *("surnames-gru", of_lines(names, 12_000, 1500, 21), 21, "text.unit=line"),
        *("model.kind=gru", "model.hidden_size=56", "training.updates=700"),
    )
    yield condition(
        *("novel-late-lstm", parted(novel[2_400_000:], 220_000), 22, "model.hidden_size=72"),
        *("model.embedding_size=28", "model.forget_bias=2", "training.updates=600"),
    )
    yield condition(
        *("plays-words", parted(plays[300_000:], 500_000, 60_000), 23, "text.level=word"),
        *("text.min_count=2", "model.hidden_size=72", "model.embedding_size=40"),
        *("training.optimizer=adamw", "training.learning_rate=0.01", "training.updates=500"),
    )
    yield condition(
        *("plays-late-elman", parted(plays[600_000:], 220_000), 24, "model.kind=elman"),
        *("model.hidden_size=100", "training.learning_rate=0.01", "training.updates=700"),
    )


SETS = {"calibration": calibration, "held-out": held_out, "fresh": fresh}


def main() -> None:
    """Train and diagnose what is missing, and show the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("which", choices=tuple(SETS))
    parser.add_argument("--only", nargs="+", help="the conditions to go through")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = list[Verdict]()
    for one in SETS[given.which](given.data):
        if given.only and one.name not in given.only:
            continue
        for fault in faults_for(one):
            verdict = Verdict(one.name, fault, found_in(one, fault, given.folder / given.which))
            print(json.dumps({**verdict._asdict(), "right": verdict.is_right}), flush=True)
            found.append(verdict)
    show(found)


def show(found: list[Verdict]) -> None:
    """Print how many of each fault were found, and what was seen in healthy runs."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("planted", "found", "of", "missed in"):
        table.add_column(title, justify="right" if title in ("found", "of") else "left")
    planted = dict.fromkeys(one.planted for one in found if one.planted != HEALTHY)
    for fault in planted:
        rows = [one for one in found if one.planted == fault]
        missed = [one.condition for one in rows if not one.is_right]
        table.add_row(fault, str(len(rows) - len(missed)), str(len(rows)), ", ".join(missed))
    faulty = [one for one in found if one.planted != HEALTHY]
    healthy = [one for one in found if one.planted == HEALTHY]
    Console().print(table)
    print(f"missed: {sum(not one.is_right for one in faulty)} of {len(faulty)} planted faults")
    print(f"false alarms: {sum(not one.is_right for one in healthy)} of {len(healthy)} runs")
    for one in healthy:
        if one.found:
            print(f"    {one.condition}: {', '.join(one.found)}")


if __name__ == "__main__":
    main()
