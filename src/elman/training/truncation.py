"""Carry, detach, reset: three different things to do with a state between two windows.

| | value | gradient |
| --- | --- | --- |
| `carry` | kept | kept: the next loss reaches back into the window before |
| `detach` | kept | cut: the next loss ends at the border of the window |
| `reset` | discarded | discarded |

Truncated back-propagation is `carry(detach(state))`: what was read still counts, who is to blame
for it does not (R. J. Williams, J. Peng, Neural Computation 2(4), 1990, with k1 = k2 = window). A
state is a tensor, or a tuple or `NamedTuple` of states; None stands for zeros. This is the only
file that detaches anything.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from torch import Tensor

State = TypeVar("State")


def carry(state: State) -> State:
    """Return `state` as it is, value and gradient: the next window goes on from here."""
    return state


def detach(state: State) -> State:
    """Return a state of the same values that no gradient passes through.

    Without it, a second backward pass reaches into the graph of the first, which is freed. Values
    are shared with `state`, not copied.
    """
    return cast(State, _map(lambda tensor: tensor.detach(), state))


def reset(state: State) -> State | None:
    """Return None, the state before any token, whatever `state` was: no value, no gradient."""
    return None


def _map(function: Callable[[Tensor], Tensor], state: object) -> object:
    if state is None:
        return None
    if isinstance(state, Tensor):
        return function(state)
    if not isinstance(state, tuple):
        raise TypeError(f"a state is made of tensors and tuples; got {type(state).__name__}")
    parts: list[Any] = [_map(function, part) for part in state]
    return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
