"""Journeys run the real command in real processes, on small texts, with one thread each."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_server import CommandServer

Elman = Callable[..., subprocess.CompletedProcess[str]]

SENTENCES = (
    "the cat sat on the mat and the dog sat on the log",
    "a bird sang in the tree while the cat slept on the mat",
    "the dog ran to the tree and the bird flew to the log",
)
TIMEOUT_S = 300
SMALL = (
    "--set=model.hidden_size=16",
    "--set=model.embedding_size=8",
    "--set=training.batch_size=4",
    "--set=training.window=16",
)


def environment(**extra: str) -> dict[str, str]:
    """The environment of a journey: one thread, and no terminal width to depend on."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return {**kept, "OMP_NUM_THREADS": "1", "COLUMNS": "100", **extra}


@pytest.fixture(scope="session")
def elman() -> Iterator[Elman]:
    """Run `elman` with the given arguments; standard input may be given as text.

    With another environment it is started anew, otherwise in a child of a process that has loaded
    torch already.
    """
    server = CommandServer(environment())

    def run(
        *arguments: str | Path, stdin: str = "", **extra: str
    ) -> subprocess.CompletedProcess[str]:
        given = list(map(str, arguments))
        if not extra and environment() == begun_with:
            return server.run(given, stdin=stdin, timeout_s=TIMEOUT_S)
        return subprocess.run(
            [sys.executable, "-m", "elman", *given],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=environment(**extra),
            timeout=TIMEOUT_S,
            check=False,
        )

    begun_with = environment()
    yield run
    server.close()


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of a few thousand characters, ended by a line end."""
    path = tmp_path_factory.mktemp("text") / "story.txt"
    path.write_text("".join(f"{s}\n" for s in SENTENCES * 40), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def stream_run(elman: Elman, story: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run of a stream of characters. Read it, do not change it."""
    run = tmp_path_factory.mktemp("runs") / "stream"
    done = elman("train", "lm", "--data", story, "--out", run, *SMALL, "--set=training.updates=60")
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture(scope="session")
def line_run(elman: Elman, story: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run of lines of characters. Read it, do not change it."""
    run = tmp_path_factory.mktemp("runs") / "line"
    done = elman(
        *("train", "lm", "--data", story, "--out", run, "--unit", "line"),
        *(*SMALL, "--set=training.updates=40"),
    )
    assert done.returncode == 0, done.stderr
    return run
