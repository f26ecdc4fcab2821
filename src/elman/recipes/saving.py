"""What a run in training writes to its folder at each save, and the room that this takes."""

from collections.abc import Callable
from typing import Any

from elman.checkpoints.free_space import require_space
from elman.checkpoints.kept import KeptCheckpoints, kept_checkpoints
from elman.checkpoints.run_folder import RunFolder
from elman.training.loop import Trainer
from elman.training.trainer_state import TrainerState

MOMENTS = 2
"""Numbers that an optimiser keeps for each weight, at most."""


def saver(folder: RunFolder, trainer: Trainer[Any, Any]) -> Callable[[TrainerState, bool], None]:
    """Return what saves the state of `trainer`, its weights where they are best, and what is kept.

    Of several processes the first alone writes.
    """
    kept = _kept(folder, trainer)

    def save(state: TrainerState, best: bool) -> None:
        if trainer.processes.rank:
            return
        if best:
            folder.save_weights(trainer.model, update=trainer.update)
        folder.save_state(state.tensors, state.facts)
        if trainer.update:
            kept.keep(trainer.model, trainer.update, _validation_loss(trainer))

    return save


def keep_saved(folder: RunFolder, trainer: Trainer[Any, Any]) -> None:
    """Bring what is kept of a run that goes on to where it was stopped, in saving or in keeping.

    Of several processes the first alone writes.
    """
    if trainer.processes.rank or not trainer.update:
        return
    kept = _kept(folder, trainer)
    newest = max((one.update for one in kept_checkpoints(folder.path)), default=0)
    if newest < trainer.update:
        with trainer.kept_weights():
            kept.keep(trainer.model, trainer.update, _validation_loss(trainer))
    else:
        kept.rotate()


def require_room(folder: RunFolder, trainer: Trainer[Any, Any]) -> None:
    """Raise `RunError` where the disk has no room for what training will save.

    At the most there are the weights, the state, a new state beside the old one, and the same for
    each checkpoint that is kept and the one that takes its place.
    """
    settings = trainer.settings
    numbers = sum(one.numel() * one.element_size() for one in trainer.model.parameters())
    own = trainer.state().tensors.values()
    state = sum(one.numel() * one.element_size() for one in own)
    if not trainer.update:  # the optimiser has yet to make its own
        state += MOMENTS * numbers
    kept = settings.keep_last + settings.keep_best
    checkpoints = (kept + 1) * (numbers + state) if kept else 0
    there = sum(path.stat().st_size for path in folder.path.rglob("*") if path.is_file())
    needed = numbers + 2 * state + checkpoints - there
    require_space(folder.path, needed, "what training saves")


def _kept(folder: RunFolder, trainer: Trainer[Any, Any]) -> KeptCheckpoints:
    settings = trainer.settings
    return KeptCheckpoints(folder, last=settings.keep_last, best=settings.keep_best)


def _validation_loss(trainer: Trainer[Any, Any]) -> float | None:
    last = trainer.selection.last
    fresh = last is not None and last.update == trainer.update and last.num_tokens > 0
    return last.nats_per_token if last is not None and fresh else None
