"""The facts of a saved training state, held to be of the types that the trainer works with."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from elman.errors import RunError

_Check = Callable[[Any], bool]
MOST = 2**63
"""Counters stay below: what counts further was not counted."""


def unfit_state(got: str) -> RunError:
    """Return the error for a saved state that no trainer has written, or none of this model."""
    return RunError(
        "the saved training state does not fit this run",
        got=got,
        hint="restore state.safetensors from a copy, or train anew",
    )


def require_facts(facts: Mapping[str, Any]) -> None:
    """Raise `RunError` naming the first fact that is missing or of another type than was saved."""
    _require(facts, _FACTS, "")
    _require(facts["selection"], _SELECTION, "selection.")
    for name in ("best", "last"):
        mark = facts["selection"][name]
        if mark is not None:
            _require(mark, _MARK, f"selection.{name}.")
            if odd := sorted(mark.keys() - _MARK.keys()):
                raise unfit_state(f"selection.{name}.{odd[0]}")


def _require(facts: Mapping[str, Any], wanted: Mapping[str, _Check], of: str) -> None:
    for name, fits in wanted.items():
        if name not in facts:
            if name in _LATER:
                continue
            raise unfit_state(f"no {of}{name}")
        if not fits(facts[name]):
            raise unfit_state(f"{of}{name} = {str(facts[name])[:60]}")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST


def _number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < MOST)


def _number_or_name(value: Any) -> bool:
    return _number(value) or value in ("nan", "inf", "-inf")


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_number_or_name, value))


def _mark(value: Any) -> bool:
    return value is None or isinstance(value, dict)


def _texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


_FACTS: Mapping[str, _Check] = MappingProxyType(
    {
        **dict.fromkeys(("update", "epoch", "index", "num_tokens", "nonfinite_steps"), _whole),
        **dict.fromkeys(("num_tensors", "average_updates"), _whole),
        "optimizer": lambda value: isinstance(value, str),
        "averages": lambda value: isinstance(value, bool),
        "smoothed": lambda value: (
            isinstance(value, list) and len(value) == 2 and all(map(_number, value))
        ),
        "selection": lambda value: isinstance(value, dict),
        "products": _texts,
    }
)
_SELECTION: Mapping[str, _Check] = MappingProxyType(
    {
        **dict.fromkeys(("best", "last"), _mark),
        **dict.fromkeys(("num_without_better", "checked_update"), _whole),
        "losses": _numbers,
    }
)
_MARK: Mapping[str, _Check] = MappingProxyType(
    {
        "update": _whole,
        "loss_nats": _number_or_name,
        "num_tokens": _whole,
        "training_nats": lambda value: value is None or _number(value),
    }
)
_LATER = ("averages", "losses")
"""Facts that states of earlier versions do not have."""
