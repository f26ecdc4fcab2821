"""The reversal task on names: make its pairs, and measure runs on them by length and without mask.

    python benchmarks/reversal.py pairs NAMES.txt PAIRS.tsv
    python benchmarks/reversal.py measure PAIRS.tsv RUN [RUN …]
    python benchmarks/reversal.py draw PAIRS.tsv PICTURE.png RUN [RUN …]

pairs: repeated names are left out, so that no name that is held out occurs in training; a twentieth
goes to PAIRS.test.tsv. measure: exact matches of greedy answers in batches of 64 of mixed lengths,
by the length of the name; then the same with padding read and attended to, as if it were source.
draw: the share of exact matches over the length of the name, a line for each run.
"""

import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from elman.data.reversal import reversal_pairs
from elman.decoding.translation_steps import TranslationSearch, search_answers
from elman.recipes.pair_preparing import target_ids
from elman.recipes.translating import Translator, open_translator

BATCH_SIZE = 64
TEST_SHARE = 20


def write_pairs(names: str, out: str) -> None:
    distinct = list(dict.fromkeys(Path(names).read_text(encoding="utf-8").split()))
    random.Random(1).shuffle(distinct)
    rows = [f"{pair.source}\t{pair.target}\n" for pair in reversal_pairs(distinct)]
    held_out = len(rows) // TEST_SHARE
    Path(out).write_text("".join(rows[held_out:]), encoding="utf-8")
    Path(out).with_suffix(".test.tsv").write_text("".join(rows[:held_out]), encoding="utf-8")


def measure(pairs: str, run: str) -> None:
    translator, rows = open_translator(run), read_rows(pairs)
    for masked in (True, False):
        right, total = counts_by_length(translator, rows, masked=masked)
        told = " ".join(f"{n}:{right[n] / total[n]:.3f}" for n in sorted(total))
        whole = sum(right.values()) / sum(total.values())
        how = "masked" if masked else "padding read"
        print(f"{run}\t{how}\t{sum(total.values())} pairs\texact {whole:.4f}\tby length {told}")


def draw(pairs: str, picture: str, runs: Sequence[str]) -> None:
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    for run in runs:
        right, total = counts_by_length(open_translator(run), read_rows(pairs), masked=True)
        lengths = sorted(total)
        shares = [100 * right[n] / total[n] for n in lengths]
        axes.plot(lengths, shares, marker="o", label=Path(run).name)
    axes.set(xlabel="letters of the name", ylabel="exact matches, %", ylim=(-3, 103))
    axes.legend()
    figure.savefig(picture, dpi=150)


def read_rows(pairs: str) -> list[tuple[str, str]]:
    lines = Path(pairs).read_text(encoding="utf-8").splitlines()
    return [(line.split("\t")[0], line.split("\t")[1]) for line in lines]


def counts_by_length(
    translator: Translator, rows: Sequence[tuple[str, str]], *, masked: bool
) -> tuple[Counter[int], Counter[int]]:
    right, total = Counter[int](), Counter[int]()
    for first in range(0, len(rows), BATCH_SIZE):
        batch = rows[first : first + BATCH_SIZE]
        found = answers(translator, [source for source, _ in batch], masked=masked)
        for answer, (_, target) in zip(found, batch, strict=True):
            total[len(target)] += 1
            right[len(target)] += answer == target
    return right, total


def answers(translator: Translator, sources: Sequence[str], *, masked: bool) -> list[str]:
    ids = [list(map(int, translator.source.encode(source))) for source in sources]
    if not masked:
        pad_id, longest = target_ids(translator.source).pad_id, max(map(len, ids))
        ids = [[*row, *[pad_id] * (longest - len(row))] for row in ids]
    search = translator.search(TranslationSearch())
    marks = target_ids(translator.target)
    found = search_answers(translator.models, ids, marks, search, plan=translator.plan)
    return [translator.target.decode(several[0].ids) for several in found]


if __name__ == "__main__":
    verb, first, *rest = sys.argv[1:]
    if verb == "pairs":
        write_pairs(first, rest[0])
    elif verb == "draw":
        draw(first, rest[0], rest[1:])
    else:
        for path in rest:
            measure(first, path)
