"""Cut the public texts as the figures that Elman is measured against cut them.

python benchmarks/prepare.py DATA_FOLDER OUT_FOLDER
"""

import random
import shutil
import sys
from pathlib import Path


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


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for cut in (tinyshakespeare, names, wikitext2):
        cut(data, out)
        print(f"{cut.__name__}: written to {out}")
