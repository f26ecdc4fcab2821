"""The gates of every layer of a run, and of both its directions, over some of its text."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from elman.inspection.gate_statistics import GateStatistics
from elman.inspection.recording import record
from elman.layers.stack import RecurrentStack

RECORDED = 16
"""Rows that are gone through step by step."""
MOST_STEPS = 256
"""Steps of a row that are gone through, from its beginning."""


class GatesOfLayer(NamedTuple):
    """`where` names the layer, from 1, and the direction of one that reads both ways."""

    layer: int
    where: str
    statistics: GateStatistics

    @property
    def is_finite(self) -> bool:
        """Whether every part of the state is a number in every unit."""
        means = [each.mean_H for each in self.statistics.state.values()]
        return all(bool(torch.isfinite(mean_H).all()) for mean_H in means)


def gates_over(stack: RecurrentStack, inputs: Iterable[Tensor]) -> tuple[GatesOfLayer, ...]:
    """Return the gates over batches of rows, each x_BTE without padding, each row from no state."""
    found = tuple(
        GatesOfLayer(place // stack.num_directions, _where(place, stack.num_directions), each)
        for place in range(stack.num_layers * stack.num_directions)
        for each in (GateStatistics(stack.cell(place)),)
    )
    for x_BTE in inputs:
        with torch.no_grad():
            recording = record(stack, x_BTE[:, :MOST_STEPS])
        for gates, steps in zip(found, recording.steps, strict=True):
            gates.statistics.add(steps)
    return found


def _where(place: int, num_directions: int) -> str:
    way = "" if num_directions == 1 else (", read forward", ", read backward")[place % 2]
    return f"layer {place // num_directions + 1}{way}"
