"""Several processes that train one run: who begins it, who joins, and how they find each other.

`torchrun` starts them and tells each its number in environment variables. The first begins or
resumes the run as a single process would, with nothing but the folder's own files; the others wait,
open what it has written, and go on from the same state. All must see the same folder.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from elman.checkpoints.run_folder import CACHE, STATE, RunFolder
from elman.errors import ElmanError, SettingError
from elman.processes import Processes, ProcessLostError, SeveralProcesses, lost_processes
from elman.recipes.launching import Launch, launch
from elman.recipes.learning import Run, restored_trainer, saved_run
from elman.recipes.task import BatchT, ModelT, PreparedT, Task

LONGEST_PREPARING = timedelta(days=30)
LONGEST_SILENCE = timedelta(minutes=30)
"""How long a process waits for the others within training before it takes them for lost."""

BEGUN, FINISHED, FAILED = "begun", "finished", "failed"
"""What the first process tells those that wait for it."""

_BEGUN = "begun"
_TOLD = "told"


@dataclass(frozen=True)
class Team:
    """What one process knows of the others before they train together."""

    launch: Launch
    store: Store | None = None

    @property
    def rank(self) -> int:
        """The number of this process; 0 leads."""
        return self.launch.rank

    @property
    def size(self) -> int:
        """How many there are."""
        return self.launch.size

    def tell_begun(self, what: str) -> None:
        """Let those who wait know that the run has begun, or that there is nothing to join."""
        if self.store is not None:
            self.store.set(_BEGUN, what)

    def wait_until_begun(self) -> str:
        """Wait for `tell_begun` of the first process and return what it said."""
        assert self.store is not None
        self.store.wait([_BEGUN], LONGEST_PREPARING)
        return str(self.store.get(_BEGUN), "utf-8")

    def connected(self) -> Processes:
        """Return this process and the others, connected; all of them have to call it."""
        if self.store is None:
            return Processes()
        with lost_processes():
            dist.init_process_group(
                "gloo",
                store=PrefixStore("group", self.store),
                rank=self.rank,
                world_size=self.size,
                timeout=LONGEST_SILENCE,
            )
        return SeveralProcesses()

    def is_first_to_tell(self) -> bool:
        """Return whether no other process has told of the loss that this one saw."""
        try:
            return self.store is None or self.store.add(_TOLD, 1) == 1
        except RuntimeError:  # nobody is left to ask
            return True

    def goes_on(self, out: Path, *, resume: bool) -> bool:
        """Return whether the run at `out` is gone on with: asked for, or after a restart."""
        return resume or (self.launch.restarts > 0 and (out / STATE).is_file())


@contextmanager
def joined_team() -> Iterator[Team]:
    """Give the team that this process was started in by `torchrun`; alone, a team of one.

    What is wrong is raised by the first of them to see it, whether it is a mistake that all meet or
    that one of them is lost; the rest end without a word, with status 2. Raises `SettingError`
    where the variables do not say enough.
    """
    started = launch()
    if started.size == 1:
        yield Team(started)
        return
    store, _, _ = next(rendezvous("env://"))
    # What an earlier attempt has told must not be taken for what this one tells.
    team = Team(started, PrefixStore(f"elman/attempt-{started.restarts}", store))
    try:
        yield team
    except BaseException as error:
        if team.rank == 0 and not isinstance(error, ProcessLostError):
            team.tell_begun(FAILED)  # in case that others still wait for it
        if isinstance(error, ElmanError) and not team.is_first_to_tell():
            raise SystemExit(2) from None
        raise
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def require_fit_for(team: Team, run: Run[PreparedT, ModelT, BatchT]) -> None:
    """Raise `SettingError` where a batch has fewer rows than there are processes."""
    if team.size == 1:
        return
    num_rows = run.trainer.source.batch(0, 0).num_rows
    if num_rows < team.size:
        raise SettingError(
            "each process needs a row of its own in a batch",
            got=f"{num_rows} rows for {team.size} processes",
            allowed=f"training.batch_size >= {team.size}, and data that fill it",
        )


def joined_run(
    task: Task[PreparedT, ModelT, BatchT], team: Team, out: Path, processes: Processes
) -> Run[PreparedT, ModelT, BatchT]:
    """Return the run that the first process has begun at `out`, shared with the others.

    Token arrays are those in its cache, mapped into memory; rows of tables are read again.
    """
    folder = RunFolder.open(out, purpose="resume")
    scratch = task.scratch_of(folder.path / CACHE, team.rank)
    return saved_run(task, folder, nullcontext(), scratch, processes)


def shared_run(
    run: Run[PreparedT, ModelT, BatchT], processes: Processes
) -> Run[PreparedT, ModelT, BatchT]:
    """Return the run that this process has begun, shared with the others, at the state saved."""
    if processes.size == 1:
        return run
    plan = run.trainer.plan
    trainer, _ = restored_trainer(run.task, run.folder, run.prepared, plan, processes)
    return replace(run, trainer=trainer)
