"""Several processes that make the shards of one text, handed on in the order of the text."""

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue

from elman.atomic_files import write_atomically
from elman.config.text_settings import TextSettings
from elman.errors import DataError
from elman.recipes.sharding.shard import (
    MADE,
    TEXT,
    Shard,
    depends_on,
    make_shard,
    read_shard,
    shard_name,
)
from elman.recipes.sharding.worker import SETTINGS, TOKENIZER
from elman.text.tokenizer import Tokenizer

AHEAD = 2
"""Shards a process that are made, or wait to be, before the first of them is handed on."""


class _Worker:
    """One process; `make` is called by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "elman.recipes.sharding.worker", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"},
        )

    def make(self, name: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{name}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise DataError(
                "a process that prepares a part of the text was ended",
                got=f"status {self._process.wait()}",
                hint="what is done is kept: the same command goes on; fewer data.workers "
                "take less memory",
            )
        if told := answer.strip():
            raise DataError(told)

    def close(self) -> None:
        self._process.communicate()


class _Here:
    """The same work in this process, where no other would help."""

    def __init__(self, folder: Path, settings: TextSettings, tokenizer: Tokenizer | None) -> None:
        self._folder, self._settings, self._tokenizer = folder, settings, tokenizer

    def make(self, name: str) -> None:
        make_shard(self._folder, name, self._settings, self._tokenizer)


def made_shards(
    texts: Iterable[str],
    folder: Path,
    settings: TextSettings,
    tokenizer: Tokenizer | None,
    *,
    workers: int,
) -> Iterator[Shard]:
    """Yield the shard of each of `texts`, in order; those that `folder` has are not made again.

    `tokenizer` None: words are counted and numbered. At most `AHEAD` shards a worker lie ahead.
    Raises `DataError` where a shard cannot be made, and where a worker was ended.
    """
    depends = depends_on(settings, tokenizer)
    with _pool(folder, settings, tokenizer, workers) as submit:
        waiting: deque[tuple[str, Future[None] | None]] = deque()
        for text in texts:
            name = shard_name(text, depends)
            there = (folder / (name + MADE)).exists()
            waiting.append((name, None if there else submit(name, text)))
            if len(waiting) > AHEAD * workers:
                yield _first(waiting, folder)
        while waiting:
            yield _first(waiting, folder)


def _first(waiting: deque[tuple[str, Future[None] | None]], folder: Path) -> Shard:
    name, future = waiting.popleft()
    if future is not None:
        future.result()
    return read_shard(folder / (name + MADE))


class _Submitter:
    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        self._folder, self._pool = folder, pool
        self.idle: SimpleQueue[_Worker | _Here] = SimpleQueue()

    def __call__(self, name: str, text: str) -> Future[None]:
        write_atomically(self._folder / (name + TEXT), text.encode("utf-8"))
        return self._pool.submit(self._made, name)

    def _made(self, name: str) -> None:
        worker = self.idle.get()
        try:
            worker.make(name)
        finally:
            self.idle.put(worker)


@contextmanager
def _pool(
    folder: Path, settings: TextSettings, tokenizer: Tokenizer | None, workers: int
) -> Iterator[_Submitter]:
    write_atomically(folder / SETTINGS, json.dumps(asdict(settings)).encode("ascii"))
    (folder / TOKENIZER).unlink(missing_ok=True)
    if tokenizer is not None:
        write_atomically(folder / TOKENIZER, tokenizer.to_json().encode("ascii"))
    with ExitStack() as opened:
        pool = ThreadPoolExecutor(max_workers=workers)
        submit = _Submitter(folder, pool)
        for _ in range(workers if workers > 1 else 0):
            submit.idle.put(opened.enter_context(closing(_Worker(folder))))
        if workers == 1:
            submit.idle.put(_Here(folder, settings, tokenizer))
        opened.callback(pool.shutdown, wait=True, cancel_futures=True)
        yield submit
