"""The view gates: how open and how saturated, how long each unit carries, which are dead."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from elman.inspection.gate_statistics import GateStatistics, UnitMoments, is_share
from elman.inspection.recording import record
from elman.layers.stack import StackState
from elman.recipes.inspecting.subject import Subject

LONGEST = 5
"""Units named for carrying longest."""

LEAST_STEPS = 10
"""Steps below which nothing is said of units that hardly vary."""


@dataclass(frozen=True)
class GateSummary:
    """One gate of a layer over all units and steps. below and above are shares of both ends."""

    name: str
    mean: float
    below: float
    above: float
    stuck_units: tuple[int, ...]


@dataclass(frozen=True)
class LayerGates:
    """The gates of one layer; units count from 0, time constants are in tokens.

    `direction` is which way they read where a layer has two, "" where it has one.
    """

    layer: int
    direction: str
    cell: str
    num_steps: int
    gates: tuple[GateSummary, ...]
    dead_units: tuple[int, ...]
    time_constants: tuple[float, ...]

    @property
    def name(self) -> str:
        """The layer, numbered from 1, and its direction where it has two."""
        return f"{self.layer + 1} {self.direction}".rstrip()

    @property
    def tells_stuck(self) -> bool:
        """Whether there are steps enough to say which gates are stuck and which units dead."""
        return self.num_steps >= LEAST_STEPS

    @property
    def longest(self) -> list[tuple[int, float]]:
        """The units that carry longest, with their time constants."""
        order = sorted(range(len(self.time_constants)), key=lambda u: -self.time_constants[u])
        return [(unit, self.time_constants[unit]) for unit in order[:LONGEST]]

    @property
    def median_time_constant(self) -> float:
        """That of the units that carry anything; 0 where none does."""
        known = sorted(tau for tau in self.time_constants if tau > 0.0)
        return known[len(known) // 2] if known else 0.0

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold; layers and units are numbered from 1.

        Which units are stuck or dead is None where there are too few steps to tell.
        """
        way = {"direction": self.direction} if self.direction else {}
        return {
            "layer": self.layer + 1,
            **way,
            "cell": self.cell,
            "num_steps": self.num_steps,
            "gates": {
                gate.name: {
                    "mean": gate.mean,
                    "below": gate.below,
                    "above": gate.above,
                    "stuck_units": self._numbered(gate.stuck_units),
                }
                for gate in self.gates
            },
            "dead_units": self._numbered(self.dead_units),
            "time_constants": list(self.time_constants),
        }

    def _numbered(self, units: tuple[int, ...]) -> list[int] | None:
        return [unit + 1 for unit in units] if self.tells_stuck else None


def gates_over_text(subject: Subject) -> list[LayerGates]:
    """Return the gates of every layer, and of every direction of it, over the text."""
    return _layers(subject, subject.texts())


def gates_over_vocabulary(subject: Subject) -> list[LayerGates]:
    """Return the gates of every layer when each token of the vocabulary is read first of all.

    Nothing where there is no vocabulary.
    """
    return _layers(subject, ([x_B1E] for x_B1E in subject.vocabulary_pieces()))


def _layers(subject: Subject, texts: Iterable[Iterable[Tensor]]) -> list[LayerGates]:
    """Return the gates over texts, each given as pieces that are read one after another."""
    stack = subject.stack
    places = range(stack.num_layers * stack.num_directions)
    found = [GateStatistics(stack.cell(place)) for place in places]
    for pieces in texts:
        state: StackState | None = None
        for x_BTE in pieces:
            with torch.no_grad():
                recording = record(stack, x_BTE, state)
            state = recording.state
            for statistics, steps in zip(found, recording.steps, strict=True):
                statistics.add(steps)
    if not found[0].num_steps:
        return []
    return [_summary(subject, place, statistics) for place, statistics in enumerate(found)]


def _summary(subject: Subject, place: int, statistics: GateStatistics) -> LayerGates:
    dead_H = statistics.state[statistics.cell.state_names[-1]].stuck()
    return LayerGates(
        place // subject.stack.num_directions,
        subject.direction(place),
        statistics.cell.key,
        statistics.num_steps,
        tuple(_gate(name, moments) for name, moments in statistics.gates.items()),
        _places(dead_H),
        tuple(statistics.time_constants().tolist()),
    )


def _gate(name: str, moments: UnitMoments) -> GateSummary:
    below, above = moments.below_H.mean().item(), moments.above_H.mean().item()
    stuck = _places(moments.stuck()) if is_share(name) else ()
    return GateSummary(name, moments.mean_H.mean().item(), below, above, stuck)


def _places(which_H: Tensor) -> tuple[int, ...]:
    return tuple(which_H.nonzero().flatten().tolist())
