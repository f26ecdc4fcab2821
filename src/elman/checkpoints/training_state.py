"""Where training stands: `state.safetensors`, from which it goes on to the same bits.

Tensors and facts are one file, so that no kill can leave them apart. `state.json` is a copy of the
facts for people; nothing reads it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from elman.atomic_files import write_atomically
from elman.checkpoints.belonging import Belonging
from elman.checkpoints.json_values import readable_json
from elman.checkpoints.tensor_file import read_tensor_file, read_tensor_header, write_tensor_file
from elman.errors import RunError


class SavedState(NamedTuple):
    """The state of a trainer as it was written: tensors by name, and facts as JSON holds them."""

    tensors: dict[str, Tensor]
    facts: dict[str, object]
    belonging: Belonging


def write_training_state(
    path: Path,
    tensors: Mapping[str, Tensor],
    facts: Mapping[str, object],
    *,
    belonging: Belonging,
    readable_copy: Path,
) -> str:
    """Write the state to `path`, then its readable copy; return the digest.

    Facts are dicts with str keys, lists, str, bool, int, float (infinities too) and None; tuples
    come back as lists.
    """
    both = {"trainer": facts, **belonging.to_facts()}
    digest = write_tensor_file(path, "training state", tensors, both)
    copy = {"copied_from": path.name, "digest": digest, "facts": facts}
    write_atomically(readable_copy, (readable_json(copy, indent=2) + "\n").encode())
    return digest


def read_training_state(path: Path) -> SavedState:
    """Return the state at `path`, verified. Raises `RunError` where it is broken or altered."""
    file = read_tensor_file(path, "training state")
    file.verify()
    facts = file.facts.get("trainer")
    if not isinstance(facts, dict):
        raise RunError(f"{path} holds no facts of a trainer")
    return SavedState(file.tensors, facts, Belonging.from_facts(file.facts, path))


def read_state_update(path: Path) -> int | None:
    """Return the update that the state at `path` was saved after, from its header alone.

    None where there is no state, or none that can be read: it matters to those who go on from it.
    """
    try:
        facts = read_tensor_header(path, "training state").facts.get("trainer")
    except RunError:
        return None
    update = facts.get("update") if isinstance(facts, dict) else None
    return update if isinstance(update, int) else None


def read_state_belonging(path: Path) -> Belonging:
    """Return what the state at `path` belongs to, from its header alone. Raises `RunError`."""
    return Belonging.from_facts(read_tensor_header(path, "training state").facts, path)
