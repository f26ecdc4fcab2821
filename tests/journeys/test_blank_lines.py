"""A blank line to answer has a blank answer in its place, whatever answers."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Elman = Callable[..., "CompletedProcess[str]"]
SMALL = ("--set=model.hidden_size=8", "--set=training.updates=2", "--set=training.batch_size=8")
DATA = {
    "classify": ("rows.tsv", "x y\tpos\ny x\tneg\n" * 20),
    "tag": ("rows.conll", "x\tA\ny\tB\n\ny\tB\n\n" * 20),
    "translate": ("rows.tsv", "x y\ty x\ny\tx\nx\ty\n" * 20),
}


@pytest.mark.parametrize("task", DATA)
def test_blank_lines_stay_blank_for_every_task(  # case D11
    elman: Elman, tmp_path: Path, task: str
) -> None:
    name, content = DATA[task]
    data, run = tmp_path / name, tmp_path / "run"
    data.write_text(content, encoding="utf-8")
    done = elman("train", task, "--data", data, "--out", run, *SMALL)
    assert done.returncode == 0, done.stderr
    alone = [elman("predict", run, "-", stdin=f"{line}\n").stdout for line in "xy"]
    assert all(answer.count("\n") == 1 for answer in alone)
    for size in ("1", "2", "1024"):
        done = elman("predict", run, "-", "--batch-size", size, stdin="x\n\n   \ny\n")
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{alone[0]}\n\n{alone[1]}"
