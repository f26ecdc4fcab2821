"""The view trace: each token with what every unit of a layer did and what was said there."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TextIO

from elman.errors import SettingError
from elman.inspection.recording import CellStep
from elman.recipes.inspecting.subject import Said, Subject

FEW_UNITS = 8
"""Units shown where nobody asks for others: those whose state changes most over the text."""


class ChosenUnit(NamedTuple):
    """A unit, from 0, of the cell at a place of the stack."""

    place: int
    unit: int


@dataclass(frozen=True)
class UnitStep:
    """One unit at one step: its state before, its gates by name, its state after, by part.

    `direction` says which way its cell reads where there are two: before a step backward is after
    the next one of the text.
    """

    unit: int
    direction: str
    before: Mapping[str, float]
    gates: Mapping[str, float]
    after: Mapping[str, float]

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold; units are numbered from 1."""
        way = {"direction": self.direction} if self.direction else {}
        states = {"before": self.before, "gates": self.gates, "after": self.after}
        return {**way, "unit": self.unit + 1, **states}

    def columns(self, names: Sequence[str]) -> dict[str, object]:
        """Return a cell for each column; `names` are the parts of the state, "" for none of it."""
        way = {"direction": self.direction} if self.direction else {}
        return {
            **way,
            "unit": self.unit + 1,
            **{f"{name} before": self.before.get(name, "") for name in names},
            **self.gates,
            **{f"{name} after": self.after.get(name, "") for name in names},
        }


@dataclass(frozen=True)
class TracedToken:
    """One step as a person reads it: the token, what is said there, units of the layer shown."""

    position: int
    token: str
    said: Said
    units: tuple[UnitStep, ...]

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        told = {"position": self.position, "token": self.token, **self.said.to_json()}
        return {**told, "units": [unit.to_json() for unit in self.units]}


def require_units(subject: Subject, layer: int, units: Sequence[int]) -> None:
    """Raise `SettingError` for a unit, numbered from 1, that the layer does not have."""
    size = subject.stack.cell(subject.places(layer)[0]).hidden_size
    for unit in units:
        if not 1 <= unit <= size:
            raise SettingError(
                "--unit must be one of the layer's", got=str(unit), allowed=f"1 to {size}"
            )


def chosen_units(subject: Subject, layer: int, units: Sequence[int]) -> tuple[ChosenUnit, ...]:
    """Return the units asked for (from 1) of each direction, or those that change most.

    Raises `SettingError` for one that the layer does not have.
    """
    require_units(subject, layer, units)
    places = subject.places(layer)
    size = subject.stack.cell(places[0]).hidden_size
    if units:
        return tuple(ChosenUnit(place, unit - 1) for place in places for unit in units)
    changes = {place: [0.0] * size for place in places}
    for cells in subject.cells():
        for place, so_far in changes.items():
            moved = (cells[place].after[-1] - cells[place].before[-1]).abs()[0].tolist()
            changes[place] = [change + by for change, by in zip(so_far, moved, strict=True)]
    found = list[ChosenUnit]()
    for place, moved in changes.items():
        most = sorted(range(size), key=lambda unit: -moved[unit])[:FEW_UNITS]
        found += [ChosenUnit(place, unit) for unit in sorted(most)]
    return tuple(found)


def traced(subject: Subject, units: Sequence[ChosenUnit], top: int) -> Iterator[TracedToken]:
    """Yield every step of the text; memory does not grow with it beyond what the subject holds."""
    for position, step in enumerate(subject.steps(top)):
        told = tuple(_unit_step(subject, step.cells, chosen) for chosen in units)
        yield TracedToken(position, subject.shown[position], step.said, told)


def _unit_step(subject: Subject, cells: Sequence[CellStep], chosen: ChosenUnit) -> UnitStep:
    place, unit = chosen
    step, names = cells[place], subject.stack.cell(place).state_names

    def parts(state: tuple[object, ...]) -> dict[str, float]:
        # The output of an LSTM with a projection is narrower than its memory.
        return {
            name: part[0, unit].item()  # type: ignore[index]
            for name, part in zip(names, state, strict=True)
            if unit < part.shape[1]  # type: ignore[attr-defined]
        }

    gates = {name: value_BH[0, unit].item() for name, value_BH in step.gates.items()}
    return UnitStep(unit, subject.direction(place), parts(step.before), gates, parts(step.after))


def write_csv(rows: Sequence[TracedToken], file: TextIO) -> None:
    """Write one line a step and unit, the same columns in each."""
    writer = csv.writer(file, lineterminator="\n")
    names = tuple(dict.fromkeys(name for unit in rows[0].units for name in unit.after))
    for row in rows:
        beginning = {"position": row.position, "token": row.token, **row.said.columns()}
        for unit in row.units:
            columns = unit.columns(names)
            if row is rows[0] and unit is row.units[0]:
                writer.writerow([*beginning, *columns])
            writer.writerow([*beginning.values(), *columns.values()])
