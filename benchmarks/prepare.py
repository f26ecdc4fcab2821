"""Cut the public texts as the figures that Elman is measured against cut them.

python benchmarks/prepare.py DATA_FOLDER OUT_FOLDER
"""

import json
import random
import shutil
import sys
import unicodedata
from pathlib import Path

MARKS = ("Lm", "Mn")
"""Unicode categories of what modifies a letter of the phonetic alphabet."""

TIES = "\u0361\u035c"


def tinyshakespeare(data: Path, out: Path) -> None:
    """First 90 % of the characters for training, the last 10 % held out."""
    text = (data / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8")
    cut = int(len(text) * 0.9)
    (out / "shakespeare.train.txt").write_text(text[:cut], encoding="utf-8")
    (out / "shakespeare.held-out.txt").write_text(text[cut:], encoding="utf-8")


def names(data: Path, out: Path) -> None:
    """`random.seed(123)`, shuffle, 80/10/10; and the validation names that training never saw."""
    lines = (data / "names-makemore" / "names.txt").read_text(encoding="utf-8").splitlines()
    random.seed(123)
    random.shuffle(lines)
    first, second = int(len(lines) * 0.8), int(len(lines) * 0.9)
    parts = {"train": lines[:first], "valid": lines[first:second], "test": lines[second:]}
    seen = set(parts["train"])
    parts["valid-unseen"] = [name for name in parts["valid"] if name not in seen]
    for part, rows in parts.items():
        (out / f"names.{part}.txt").write_text(
            "".join(f"{row}\n" for row in rows), encoding="utf-8"
        )


def wikitext2(data: Path, out: Path) -> None:
    """The three files as they are."""
    for part in ("train", "valid", "test"):
        shutil.copyfile(data / "wikitext-2" / f"{part}.txt", out / f"wikitext2.{part}.txt")


def write_labelled(path: Path, rows: list[tuple[str, str]]) -> None:
    """One JSON object a line: a text and its label."""
    lines = (json.dumps({"text": t, "label": label}, ensure_ascii=False) for t, label in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def intents(data: Path, out: Path) -> None:
    """The in-scope parts of clinc150 as they are: 15,000, 3,000 and 4,500 rows of 150 intents."""
    whole = json.loads((data / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    for part, name in (("train", "train"), ("val", "valid"), ("test", "test")):
        write_labelled(out / f"intents.{name}.jsonl", [(t, label) for t, label in whole[part]])


def polarity(data: Path, out: Path) -> None:
    """Ten folds of rt-polarity: row i of each file is in the test part of fold i % 10."""
    rows = [
        (number, line, label)
        for label in ("neg", "pos")
        for number, line in enumerate(
            (data / "rt-polarity" / f"rt-polarity.{label}").read_text(encoding="utf-8").split("\n")
        )
        if line.strip()
    ]
    for fold in range(10):
        for part, inside in (("train", False), ("test", True)):
            chosen = [(t, label) for n, t, label in rows if (n % 10 == fold) == inside]
            write_labelled(out / f"polarity.{fold}.{part}.jsonl", chosen)


def languages(data: Path, out: Path) -> None:
    """Names by language; every fifth name of a language is held out."""
    parts: dict[str, list[tuple[str, str]]] = {"train": [], "test": []}
    for path in sorted((data / "names-by-language").glob("*.txt")):
        if path.stem != "LICENCE":
            lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
            for number, line in enumerate(lines):
                parts["test" if number % 5 == 4 else "train"].append((line, path.stem))
    for part, rows in parts.items():
        write_labelled(out / f"languages.{part}.jsonl", rows)


def translations(data: Path, out: Path) -> None:
    """English to French: 2,000 pairs of test and of choice; no source of theirs is learnt from.

    All pairs of a source are drawn together. What a drawn source has beyond the 2,000 is left out.
    """
    lines = (data / "tatoeba-fra-eng" / "fra.txt").read_text(encoding="utf-8").split("\n")
    by_source: dict[str, list[str]] = {}
    for line in lines:
        if line.strip():
            by_source.setdefault(line.split("\t")[0], []).append(line)
    sources = list(by_source)
    random.Random(1).shuffle(sources)
    for part in ("test", "valid", "train"):
        rows: list[str] = []
        while sources and (part == "train" or len(rows) < 2_000):
            rows += by_source[sources.pop()]
        kept = rows if part == "train" else rows[:2_000]
        (out / f"tatoeba.{part}.tsv").write_text(
            "".join(f"{row}\n" for row in kept), encoding="utf-8"
        )


def phones(data: Path, out: Path) -> None:
    """Letters to phones, a phone's marks (long, aspirated, nasal …) apart where they tell phones.

    A mark at the end of a phone is a token of its own where the rest is a phone of the training
    part too, so that a long t is learnt from every long sound. A mark never stands alone: the
    phones can be put together again, and a word is right if and only if its parts are.
    """
    for train in sorted((data / "g2p-sigmorphon2021").glob("*_train.tsv")):
        language = train.name.removesuffix("_train.tsv")
        known: set[str] = set()
        for part in ("train", "dev", "test"):
            text = train.with_name(f"{language}_{part}.tsv").read_text(encoding="utf-8")
            rows = [unicodedata.normalize("NFD", row).split("\t") for row in text.splitlines()]
            known = known or {phone for _, written in rows for phone in written.split()}
            apart = (
                (word, " ".join(part for phone in written.split() for part in parted(phone, known)))
                for word, written in rows
            )
            lines = "".join(f"{word}\t{written}\n" for word, written in apart)
            (out / f"g2p.{language}.{part}.tsv").write_text(lines, encoding="utf-8")


def parted(phone: str, known: set[str]) -> list[str]:
    """Return a phone of `known`, then each mark behind it."""
    marks: list[str] = []
    while len(phone) > 1 and unicodedata.category(phone[-1]) in MARKS and phone[-1] not in TIES:
        if phone[:-1] not in known:
            break
        phone, mark = phone[:-1], phone[-1]
        marks.insert(0, mark)
    return [phone, *marks]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    cuts = (tinyshakespeare, names, wikitext2, intents, polarity, languages, translations, phones)
    for cut in cuts:
        cut(data, out)
        print(f"{cut.__name__}: written to {out}")
