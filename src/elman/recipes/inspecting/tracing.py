"""The view trace: each token with what every unit of a layer did and what was expected next."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from elman.errors import SettingError
from elman.evaluation.units import nats_to_bits
from elman.inspection.recording import CellStep
from elman.inspection.trace import Choice, TokenStep, trace
from elman.recipes.inspecting.subject import Subject

FEW_UNITS = 8
"""Units shown where nobody asks for others: those whose state changes most over the text."""


@dataclass(frozen=True)
class UnitStep:
    """One unit at one step: its state before, its gates by name, its state after, by part."""

    unit: int
    before: Mapping[str, float]
    gates: Mapping[str, float]
    after: Mapping[str, float]


@dataclass(frozen=True)
class TracedToken:
    """One step as a person reads it; `step` has the figures, its cells left out; `units` those of
    the layer shown.
    """

    token: str
    following: str | None
    step: TokenStep
    units: tuple[UnitStep, ...]

    def to_json(self, subject: Subject) -> dict[str, object]:
        """Return what JSON can hold; `units` are numbered from 1."""
        step, found = self.step, self.step.following
        told: dict[str, object] = {
            "position": step.position,
            "token": self.token,
            "token_id": step.token_id,
            "top": [_choice_json(subject, choice) for choice in step.top],
            "greedy_differs": step.greedy_differs,
        }
        if found is not None:
            told["next"] = _choice_json(subject, found.choice) | {
                "token": self.following,
                "rank": found.rank,
                "surprisal_bits": nats_to_bits(found.nats),
            }
        told["units"] = [
            {"unit": u.unit + 1, "before": u.before, "gates": u.gates, "after": u.after}
            for u in self.units
        ]
        return told


def _choice_json(subject: Subject, choice: Choice) -> dict[str, object]:
    return {
        "token": subject.token(choice.token_id),
        "token_id": choice.token_id,
        "logit": choice.logit,
        "probability": choice.probability,
    }


def chosen_units(subject: Subject, layer: int, units: Sequence[int]) -> tuple[int, ...]:
    """Return the units asked for (from 1) as places, or those that change most.

    Raises `SettingError` for one that the layer does not have.
    """
    size = subject.model.stack.cell(layer).hidden_size
    for unit in units:
        if not 1 <= unit <= size:
            raise SettingError(
                "--unit must be one of the layer's", got=str(unit), allowed=f"1 to {size}"
            )
    if units:
        return tuple(unit - 1 for unit in units)
    changes = [0.0] * size
    for step in trace(subject.model, subject.ids_N, top=1):
        cell = step.cells[layer]
        moved = (cell.after[-1] - cell.before[-1]).abs()[0].tolist()
        changes = [change + by for change, by in zip(changes, moved, strict=True)]
    most = sorted(range(size), key=lambda unit: -changes[unit])[:FEW_UNITS]
    return tuple(sorted(most))


def traced(subject: Subject, layer: int, units: Sequence[int], top: int) -> Iterator[TracedToken]:
    """Yield every step of the text; memory does not grow with it."""
    shown, cell = subject.shown, subject.model.stack.cell(layer)
    for step in trace(subject.model, subject.ids_N, top=top):
        following = shown[step.position + 1] if step.following is not None else None
        told = tuple(_unit_step(step.cells[layer], cell.state_names, unit) for unit in units)
        # Tensors are not kept: a long text would hold them all.
        yield TracedToken(shown[step.position], following, step._replace(cells=()), told)


def _unit_step(step: CellStep, names: Sequence[str], unit: int) -> UnitStep:
    def parts(state: tuple[object, ...]) -> dict[str, float]:
        # The output of an LSTM with a projection is narrower than its memory.
        return {
            name: part[0, unit].item()  # type: ignore[index]
            for name, part in zip(names, state, strict=True)
            if unit < part.shape[1]  # type: ignore[attr-defined]
        }

    gates = {name: value_BH[0, unit].item() for name, value_BH in step.gates.items()}
    return UnitStep(unit, parts(step.before), gates, parts(step.after))


def write_csv(rows: Iterable[TracedToken], subject: Subject, file: TextIO) -> None:
    """Write one line a step and unit."""
    writer, header = csv.writer(file, lineterminator="\n"), False
    for row in rows:
        found = row.step.following
        beginning: list[object] = [row.step.position, row.token, row.following or ""]
        if found is None:
            beginning += ["", "", "", ""]
        else:
            choice = found.choice
            beginning += [choice.logit, choice.probability, found.rank, nats_to_bits(found.nats)]
        beginning += [subject.token(row.step.top[0].token_id), int(row.step.greedy_differs)]
        for unit in row.units:
            columns = {f"{name} before": value for name, value in unit.before.items()}
            columns |= dict(unit.gates)
            columns |= {f"{name} after": value for name, value in unit.after.items()}
            if not header:
                writer.writerow([*_COLUMNS, "unit", *columns])
                header = True
            writer.writerow([*beginning, unit.unit + 1, *columns.values()])


_COLUMNS = (
    "position",
    "token",
    "next",
    "next logit",
    "next probability",
    "next rank",
    "next surprisal bits",
    "greedy",
    "greedy differs",
)
