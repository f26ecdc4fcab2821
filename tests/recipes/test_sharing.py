"""The same run on one, two and four processes: the same losses, weights and saved state."""

import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from shared_worker import CASES, PAUSE, UPDATES

from elman.checkpoints.run_folder import RunFolder

TOLERANCE = 2e-5
"""Relative difference of a loss after some updates: float32 sums in another order."""
WORKER = Path(__file__).with_name("shared_worker.py")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """All cases on one, four and two processes, and a run begun on four and ended on two."""
    folder = tmp_path_factory.mktemp("shared")
    write_data(folder)
    outs = {}
    for size in (1, 4, 2):
        outs[size] = folder / f"by-{size}"
        more = [] if size == 1 else [str(folder / "moved")]
        start_together(size, [str(folder), str(outs[size]), *more])
    outs[0] = folder / "moved"
    return outs


def write_data(folder: Path) -> None:
    draw = random.Random(5)
    words = ["".join(draw.choices("abcdefg", k=draw.randint(1, 6))) for _ in range(120)]
    lines = [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(90)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "labels.tsv").write_text(
        "text\tlabel\n" + "".join(f"{line}\t{len(line) % 3}\n" for line in lines), encoding="utf-8"
    )
    (folder / "pairs.tsv").write_text(
        "".join(f"{word}\t{word[::-1]}\n" for word in sorted(set(words))), encoding="utf-8"
    )
    (folder / "sources.txt").write_text(
        "".join(f"{word}\n" for word in sorted(set(words))), encoding="utf-8"
    )
    (folder / "tags.conll").write_text(
        "\n".join("".join(f"{word} {word[0]}\n" for word in line.split()) for line in lines),
        encoding="utf-8",
    )


def start_together(size: int, arguments: list[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
    workers = [
        subprocess.Popen(
            [sys.executable, str(WORKER), *arguments],
            env={**os.environ, **group, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    ends = [worker.communicate(timeout=300)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * size, "\n".join(ends)


def losses(run: Path, event: str = "update") -> list[float]:
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    key = {"update": "loss_nats", "validation": "nats_per_token"}[event]
    return [row[key] for row in rows if row["event"] == event]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("case", CASES)
def test_the_number_of_processes_changes_no_loss_beyond_rounding(
    trained: dict[int, Path], case: str, size: int
) -> None:
    alone, shared = trained[1] / case, trained[size] / case
    assert len(losses(alone)) == UPDATES
    assert losses(shared) == pytest.approx(losses(alone), rel=TOLERANCE)
    assert losses(shared, "validation") == pytest.approx(losses(alone, "validation"), rel=TOLERANCE)
    # Exact scores of what is held out, made by one process from the weights of all.
    mine, theirs = (
        json.loads((run / "manifest.json").read_text())["results"]["scores"]
        for run in (alone, shared)
    )
    assert mine.keys() == theirs.keys()


@pytest.mark.parametrize("case", ["stream", "transformer"])
def test_a_saved_state_is_that_of_all_processes(trained: dict[int, Path], case: str) -> None:
    states = [RunFolder.open(trained[size] / case).load_state() for size in (1, 2, 4)]
    assert states[0].facts["num_tokens"] == states[1].facts["num_tokens"]
    for state in states[1:]:
        assert state.tensors.keys() == states[0].tensors.keys()
        for name, tensor in state.tensors.items():
            assert tensor.shape == states[0].tensors[name].shape, name
    # Every process draws for every row: the generators stay in step, bit by bit.
    draws = [state.tensors["generator.dropout"] for state in states]
    assert draws[0].equal(draws[1])
    assert draws[0].equal(draws[2])


def test_a_run_stopped_on_four_processes_goes_on_on_two(trained: dict[int, Path]) -> None:
    moved, alone, by_four = losses(trained[0]), losses(trained[1] / "stream"), trained[4] / "stream"
    assert moved[:PAUSE] == losses(by_four)[:PAUSE]  # to the same bits, as long as they were four
    assert len(moved) == UPDATES
    assert moved == pytest.approx(alone, rel=TOLERANCE)


@pytest.mark.parametrize("size", [2, 4])
def test_the_number_of_processes_changes_no_answer(trained: dict[int, Path], size: int) -> None:
    for name in ("classify", "tag", "translate"):
        alone, shared = (trained[number] / f"{name}.answers" for number in (1, size))
        assert len(alone.read_bytes().splitlines()) >= 90
        assert shared.read_bytes() == alone.read_bytes()


@pytest.mark.parametrize("size", [2, 4])
def test_the_number_of_processes_changes_no_score(trained: dict[int, Path], size: int) -> None:
    alone, shared = (
        json.loads((trained[number] / "scores.json").read_text()) for number in (1, size)
    )
    tags = 2  # its loss is the sum of what each process has: added in another order
    for name in ("loss_nats", "nats_per_token"):
        assert shared[tags].pop(name, 0.0) == pytest.approx(alone[tags].pop(name, 0.0), rel=1e-12)
    assert shared == alone
