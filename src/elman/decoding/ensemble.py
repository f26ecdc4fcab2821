"""Several models as the step functions of one: the mean of their probabilities."""

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from elman.decoding.search import StepFunctions
from elman.errors import SettingError
from elman.models.ensemble import mean_log_probs

S = TypeVar("S")


def averaged_steps(members: Sequence[StepFunctions[S]]) -> StepFunctions[tuple[S, ...]]:
    """Return the functions of an ensemble, whose state is those of its members in their order.

        p(y_t | y_1 … y_{t−1}, source) = (1/M) Σ_m p_m(y_t | y_1 … y_{t−1}, source)

    The members must have the same ids. The attention of a step is the mean of those that attend.
    Raises `SettingError` without members.
    """
    if not members:
        raise SettingError("an ensemble needs at least one model", got="none")

    def step(states: tuple[S, ...], last_ids_N: Tensor) -> tuple[Tensor, tuple[S, ...]]:
        pairs = [
            member.step(state, last_ids_N) for member, state in zip(members, states, strict=True)
        ]
        return mean_log_probs([one for one, _ in pairs]), tuple(state for _, state in pairs)

    def reorder(states: tuple[S, ...], rows_N: Tensor) -> tuple[S, ...]:
        return tuple(
            member.reorder(state, rows_N) for member, state in zip(members, states, strict=True)
        )

    def weights(states: tuple[S, ...]) -> Tensor:
        each = [
            member.weights(state)
            for member, state in zip(members, states, strict=True)
            if member.weights is not None
        ]
        return each[0] if len(each) == 1 else torch.stack(each).mean(dim=0)

    attends = any(member.weights is not None for member in members)
    return StepFunctions(step, reorder, weights if attends else None)
