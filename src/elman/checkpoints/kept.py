"""Checkpoints kept beside the latest, each a run of its own: the last ones and the best ones."""

import json
import math
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from elman.atomic_files import (
    LEFTOVER_SUFFIX,
    read_utf8,
    read_whole,
    sync_folder,
    write_atomically,
)
from elman.checkpoints.json_values import readable_json
from elman.checkpoints.run_folder import KEPT, RUN_FILES, STATE, WEIGHTS, RunFolder
from elman.checkpoints.weights import save_weights
from elman.errors import RunError

FACTS = "kept.json"
_NAME = re.compile(r"update-(\d{8,})")


@dataclass(frozen=True)
class KeptCheckpoint:
    """One of them: where it lies, after which update it was made, and its validation loss, if any.

    The loss is in nats per token (of rows: per answer).
    """

    path: Path
    update: int
    loss: float | None


class KeptCheckpoints:
    """Those of one run: of the `last` newest and the `best` of lowest loss none is taken away.

    A checkpoint is put together under a name that nothing reads and then renamed, so that it is
    whole or not there. Files that do not change any more are links to those of the run.
    """

    def __init__(self, run: RunFolder, *, last: int, best: int) -> None:
        self._run, self._last, self._best = run, last, best

    def keep(self, model: nn.Module, update: int, loss: float | None) -> None:
        """Keep the weights of `model` with the state of the run, which was saved after `update`.

        Then take away those that are neither new nor good enough. Raises `RunError` where the disk
        is full or refuses.
        """
        if not self._last and not self._best:
            return
        folder = self._run.path / KEPT
        target = folder / f"update-{update:08d}"
        unfinished = folder / f"{target.name}{LEFTOVER_SUFFIX}"
        try:
            folder.mkdir(exist_ok=True)
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            self._fill(unfinished, model, update, loss)
            shutil.rmtree(target, ignore_errors=True)
            unfinished.rename(target)
            sync_folder(folder)
            self.rotate()
        except OSError as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise RunError(
                f"cannot keep a checkpoint in {folder}", got=error.strerror or str(error)
            ) from error
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise

    def _fill(self, place: Path, model: nn.Module, update: int, loss: float | None) -> None:
        for name in RUN_FILES:
            source = self._run.path / name
            if name == STATE:
                _link(source, place / name)
            elif name != WEIGHTS and source.exists():
                write_atomically(place / name, read_whole(source))
        save_weights(place / WEIGHTS, model, update=update, belonging=self._run.belonging)
        facts = {"update": update, "validation_nats": loss}
        write_atomically(place / FACTS, (readable_json(facts) + "\n").encode())

    def rotate(self) -> None:
        """Take away what is not to stay, and what a kill has left half made."""
        folder = self._run.path / KEPT
        found = kept_checkpoints(self._run.path)
        stay = {one.path for one in staying(found, last=self._last, best=self._best)}
        for path in folder.iterdir() if folder.is_dir() else ():
            ours = _NAME.fullmatch(path.name.removesuffix(LEFTOVER_SUFFIX))
            if ours and path.is_dir() and path not in stay:
                shutil.rmtree(path, ignore_errors=True)


def kept_checkpoints(run: Path) -> tuple[KeptCheckpoint, ...]:
    """Return the checkpoints that a run has kept, the oldest first; what is broken has no loss."""
    folder = run / KEPT
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        named = _NAME.fullmatch(path.name)
        if named and path.is_dir():
            found.append(KeptCheckpoint(path, int(named[1]), _loss_at(path)))
    return tuple(sorted(found, key=lambda one: one.update))


def staying(found: Sequence[KeptCheckpoint], *, last: int, best: int) -> tuple[KeptCheckpoint, ...]:
    """Return the `last` newest and the `best` of lowest loss (of equals the newest), oldest first.

    One without a finite loss is never among the best.
    """
    by_update = sorted(found, key=lambda one: one.update)
    newest = by_update[len(by_update) - min(last, len(by_update)) :]
    measured = [one for one in by_update if one.loss is not None and math.isfinite(one.loss)]
    lowest = sorted(measured, key=lambda one: (one.loss, -one.update))[:best]
    return tuple(one for one in by_update if one in newest or one in lowest)


def _loss_at(path: Path) -> float | None:
    try:
        loss = json.loads(read_utf8(path / FACTS))["validation_nats"]
    except (RunError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return float(loss) if isinstance(loss, int | float) else None


def _link(source: Path, place: Path) -> None:
    """Have `place` be the same file, which is never written in again; a copy where none can be."""
    try:
        os.link(source, place)
    except OSError:
        write_atomically(place, read_whole(source))
