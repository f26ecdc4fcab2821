"""A disk that is full, a folder that is for reading only, a file that cannot be read: one line."""

import errno
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elman.errors import DataError, RunError
from elman.recipes.language_model import LanguageTask
from elman.recipes.learning import resume_run, start_run, train_run
from elman.recipes.scoring import ScoreRequest, score_files
from elman.recipes.trained import open_trained
from elman.recipes.training_request import TrainRequest
from elman.text import raw_files

CAPABILITIES = "-dac_override,-dac_read_search"
"""What lets root read and write whatever the rights of a file say."""
TINY = (
    *("--set=model.hidden_size=8", "--set=training.threads=1", "--set=training.updates=400"),
    *("--set=training.evaluate_every=50", "--set=training.batch_size=4", "--seed=5"),
)
CLOCKS = r"time\.time\(|time_ns|datetime\.now|utcnow|datetime\.today|localtime"
READ_FOR_PEOPLE = {"benchmark/running.py", "checkpoints/run_lock.py", "cli/demonstration.py"}
"""Where the time of day is told to people, and nothing is decided by it."""


def command(
    *arguments: str | Path, file_bytes: int = -1, by_rights: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Run the command with files of at most `file_bytes`; `by_rights`: as one who is not root."""
    drop: list[str] = []
    if by_rights and not os.geteuid():
        if not shutil.which("setpriv"):
            pytest.skip("root without setpriv: no right is refused to it")
        drop = ["setpriv", f"--bounding-set={CAPABILITIES}", f"--inh-caps={CAPABILITIES}"]

    def limit() -> None:
        if file_bytes >= 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    return subprocess.run(
        [*drop, sys.executable, "-m", "elman", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100", "HOME": "/nonexistent"},
        preexec_fn=limit,
        timeout=300,
        check=False,
    )


def refusal(done: "subprocess.CompletedProcess[str]") -> str:
    """The one line of a refusal, its blanks as one."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("elman: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.fixture(scope="module")
def whole(story: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing has stopped."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    done = command("train", "lm", "--data", story, "--out", run, *TINY)
    assert done.returncode == 0, done.stderr
    return run


def test_a_disk_full_at_the_start_leaves_nothing(story: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    told = refusal(command("train", "lm", "--data", story, "--out", run, *TINY, file_bytes=3000))
    assert re.search(r"cannot write .*run/\S+; got File too large", told)
    assert not run.exists()


def test_a_disk_that_fills_up_loses_nothing(story: Path, tmp_path: Path, whole: Path) -> None:
    run = tmp_path / "run"
    room = (whole / "metrics.jsonl").stat().st_size // 2
    assert room > (whole / "state.safetensors").stat().st_size
    told = refusal(command("train", "lm", "--data", story, "--out", run, *TINY, file_bytes=room))
    assert "cannot write" in told
    assert "File too large" in told
    used = command("score", run, story)
    assert used.returncode == 0, used.stderr
    on = command("train", "lm", "--out", run, "--resume")
    assert on.returncode == 0, on.stderr
    for name in ("model.safetensors", "state.safetensors"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()


def test_answers_that_do_not_fit_leave_the_file_of_before(
    story: Path, tmp_path: Path, whole: Path
) -> None:
    out = tmp_path / "tokens.jsonl"
    out.write_text("before\n", encoding="utf-8")
    done = command("score", whole, story, "--per-token", out, file_bytes=2000)
    assert "cannot write" in refusal(done)
    assert out.read_text(encoding="utf-8") == "before\n"
    assert list(tmp_path.iterdir()) == [out]


@pytest.fixture
def read_only(whole: Path, tmp_path: Path) -> Iterator[Path]:
    """A folder that must not be written in, with a finished and an unfinished run in it."""
    folder = tmp_path / "read-only"
    for name in ("run", "unfinished"):
        shutil.copytree(whole, folder / name)
    manifest = folder / "unfinished" / "manifest.json"
    table = json.loads(manifest.read_text("utf-8"))
    del table["results"]["training"]
    manifest.write_text(json.dumps(table), encoding="utf-8")
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    yield folder
    for path in folders:
        path.chmod(0o755)


def test_a_folder_for_reading_only_is_read_and_not_written(read_only: Path, story: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in read_only.rglob("*")}
    new = command("train", "lm", "--data", story, "--out", read_only / "new", *TINY, by_rights=True)
    assert re.search(r"cannot make the folder \S+/new; got Permission denied", refusal(new))
    for run in ("run", "unfinished"):
        used = command("score", read_only / run, story, by_rights=True)
        assert used.returncode == 0, used.stderr
    again = command("train", "lm", "--out", read_only / "unfinished", "--resume", by_rights=True)
    assert "run.lock; got Permission denied" in refusal(again)
    done = command("train", "lm", "--out", read_only / "run", "--resume", by_rights=True)
    assert "this run is finished" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in read_only.rglob("*")} == before


def test_a_file_that_must_not_be_read_is_named(story: Path, tmp_path: Path) -> None:
    corpus = corpus_of_three(tmp_path / "corpus", story)
    (corpus / "b.txt").chmod(0)
    out = tmp_path / "run"
    done = command("train", "lm", "--data", corpus, "--out", out, *TINY, by_rights=True)
    assert f"{corpus}/b.txt must not be read by this user" in refusal(done)
    assert not out.exists()


def breaking(monkeypatch: pytest.MonkeyPatch, name: str, after: int) -> None:
    """Have the file `name` answer with an error of the disk after so many bytes."""

    class Broken:
        def __init__(self, file: Any) -> None:
            self.file, self.left = file, after

        def read(self, count: int) -> bytes:
            self.left -= count
            if self.left < 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return bytes(self.file.read(count))

        def close(self) -> None:
            self.file.close()

        def __getattr__(self, attribute: str) -> Any:
            return getattr(self.file, attribute)

    plain = raw_files._Rejoined

    def rejoined(start: bytes, rest: Any) -> Any:
        return plain(start, Broken(rest) if rest.name.endswith(name) else rest)

    monkeypatch.setattr(raw_files, "_Rejoined", rejoined)


def corpus_of_three(folder: Path, story: Path) -> Path:
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.txt").write_text(story.read_text("utf-8") * 9, encoding="utf-8")
    return folder


def request(out: Path, data: Path) -> TrainRequest:
    overrides = tuple(option.removeprefix("--set=") for option in TINY if "--set" in option)
    few = ("training.updates=4", f"data.train=['{data}']")
    return TrainRequest(out, overrides=(*overrides, *few))


@pytest.mark.parametrize("after", [0, 20_000])
def test_a_disk_error_in_the_middle_of_a_corpus_is_told_by_its_file(
    story: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    corpus = corpus_of_three(tmp_path / "corpus", story)
    run = train_run(start_run(LanguageTask(), request(tmp_path / "run", corpus))).path
    breaking(monkeypatch, "b.txt", after)
    with pytest.raises(DataError, match=r"b\.txt cannot be read; got Input/output error"):
        start_run(LanguageTask(), request(tmp_path / "other", corpus))
    assert not (tmp_path / "other").exists()
    with pytest.raises(DataError, match=r"b\.txt cannot be read; got Input/output error"):
        score_files(open_trained(run), ScoreRequest((str(corpus),)))


def test_a_run_goes_on_without_its_corpus_while_its_ids_are_there(
    story: Path, tmp_path: Path
) -> None:
    corpus = corpus_of_three(tmp_path / "corpus", story)
    run = start_run(LanguageTask(), request(tmp_path / "run", corpus))
    train_run(run, should_stop=lambda: run.trainer.update >= 2)
    (corpus / "b.txt").unlink()
    again = resume_run(LanguageTask(), tmp_path / "run")
    train_run(again, should_stop=lambda: True)
    shutil.rmtree(tmp_path / "run" / "cache")
    with pytest.raises(RunError, match="the train text is not the one that the run began with"):
        resume_run(LanguageTask(), tmp_path / "run")


def test_nothing_is_decided_by_the_time_of_day() -> None:
    package = Path(raw_files.__file__).parents[1]
    found = {
        "/".join(path.parts[-2:])
        for path in package.rglob("*.py")
        if re.search(CLOCKS, path.read_text("utf-8"))
    }
    assert found == READ_FOR_PEOPLE


def test_a_clock_that_jumps_changes_nothing(
    story: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = train_run(start_run(LanguageTask(), request(tmp_path / "plain", story)))
    jumps = iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: 2e9 if next(jumps) % 2 else -1.0)
    other = train_run(start_run(LanguageTask(), request(tmp_path / "other", story)))
    one, two = (report.path / "model.safetensors" for report in (plain, other))
    assert one.read_bytes() == two.read_bytes()
    assert other.fit.elapsed_seconds >= 0
