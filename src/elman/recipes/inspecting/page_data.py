"""A run at work on one text as a page: everything recorded, in one file that needs no network."""

import base64
import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType

import numpy as np
import torch

from elman.cells.cell import Cell
from elman.cells.lstm import LSTMCell, LSTMState
from elman.evaluation.units import nats_to_bits
from elman.inspection.gate_statistics import is_share
from elman.inspection.recording import CellStep, record_step
from elman.inspection.trace import TokenStep, trace
from elman.recipes.inspecting.gate_view import LayerGates
from elman.recipes.inspecting.gradient_view import GradientView
from elman.recipes.inspecting.language_subject import LanguageSubject
from elman.recipes.inspecting.page_panels import charts, gates_panel
from elman.recipes.inspecting.step_lines import step_lines

MOST_BYTES = 4_000_000
"""Of recorded numbers; a longer text is shown as far as they reach."""

WORKED: Mapping[str, float] = MappingProxyType(
    {"forget": 0.8, "input": 0.3, "candidate": 0.4, "output": 0.6}
)
WORKED_MEMORY = 0.5
"""A step with round numbers: c = 0.8 · 0.5 + 0.3 · 0.4 = 0.52, h = 0.6 tanh 0.52 = 0.287."""


def page(
    subject: LanguageSubject,
    gates: Sequence[LayerGates],
    gradients: GradientView,
    layer: int,
    *,
    top: int,
) -> tuple[str, int]:
    """Return the page, and how many tokens of the text it shows."""
    example, shown = _example_of(subject, top)
    settings, layers = subject.trained.settings, subject.model.stack.num_layers
    count = len(subject.ids_N)
    covered = f"{shown:,} of {count:,}" if shown < count else f"all {count:,}"
    data = {
        "title": f"{subject.trained.path.resolve().name}: what happens inside",
        "facts": f"{settings.model.kind}, {layers} layer{'s'[: layers != 1]} of "
        f"{settings.model.hidden_size} units, {subject.model.parameter_count():,} parameters; "
        f"{covered} tokens shown",
        "examples": [worked_step(), example],
        "gates": gates_panel(gates, shown),
        "charts": charts(subject, gradients, layer, shown),
    }
    return _filled(data), shown


def worked_step() -> dict[str, object]:
    """Return one step of an LSTM unit with round numbers, combined by the cell itself."""
    cell = LSTMCell(1, 1).double()
    gates = {name: torch.tensor([[WORKED[name]]]).double() for name in cell.gate_names}
    before = LSTMState(torch.zeros(1, 1).double(), torch.full((1, 1), WORKED_MEMORY).double())
    step = record_step(cell, torch.zeros(1, 1).double(), before)
    step = step._replace(gates=gates, after=cell.combine(gates, before))
    return {
        "name": "a worked step of an LSTM",
        "steps": [{"token": "x"}],
        "layers": [_layer(cell, _Columns(cell, [step]))],
    }


def _example_of(subject: LanguageSubject, top: int) -> tuple[dict[str, object], int]:
    stack = subject.model.stack
    cells = [stack.cell(layer) for layer in range(stack.num_layers)]
    numbers = sum(
        cell.hidden_size * len(cell.gate_names) + 2 * sum(cell.state_sizes) for cell in cells
    )
    shown = max(1, min(len(subject.ids_N), MOST_BYTES // (6 * numbers)))
    columns = [_Columns(cell, []) for cell in cells]
    steps = []
    for step in trace(subject.model, subject.ids_N, top=top):
        if step.position == shown:
            break
        for one, cell_step in zip(columns, step.cells, strict=True):
            one.add(cell_step)
        steps.append(_step(subject, step))
    layers = [_layer(cell, one) for cell, one in zip(cells, columns, strict=True)]
    return {"name": "your text", "steps": steps, "layers": layers}, shown


def _step(subject: LanguageSubject, step: TokenStep) -> dict[str, object]:
    following = step.following
    real = None if following is None else following.choice.token_id
    choices = [
        {
            "token": subject.token(choice.token_id),
            "probability": choice.probability,
            "real": choice.token_id == real,
        }
        for choice in step.top
    ]
    told: dict[str, object] = {"token": subject.shown[step.position], "top": choices}
    if following is not None:
        told["bits"] = nats_to_bits(following.nats)
        told["next"] = {
            "token": subject.shown[step.position + 1],
            "quoted": subject.token(following.choice.token_id),
            "rank": following.rank,
            "probability": following.choice.probability,
        }
    return told


class _Columns:
    """The numbers of one cell, step after step, as float32."""

    def __init__(self, cell: Cell, steps: Sequence[CellStep]) -> None:
        self._cell = cell
        self._rows: dict[str, list[np.ndarray]] = {}
        for step in steps:
            self.add(step)

    def add(self, step: CellStep) -> None:
        names = self._cell.state_names
        for name, part in zip(names, step.before, strict=True):
            self._keep(f"{name} before", part)
        for name, value in step.gates.items():
            self._keep(name, value)
        for name, part in zip(names, step.after, strict=True):
            self._keep(name, part)

    def parts(self) -> list[dict[str, object]]:
        return [
            {
                "name": name,
                "units": len(rows[0]),
                "signed": (name in self._cell.gate_names and not is_share(name))
                or name not in self._cell.gate_names,
                "values": base64.b64encode(np.stack(rows).astype("<f4").tobytes()).decode(),
            }
            for name, rows in self._rows.items()
        ]

    def _keep(self, name: str, value_BH: torch.Tensor) -> None:
        self._rows.setdefault(name, []).append(value_BH[0].numpy().astype(np.float32))


def _layer(cell: Cell, columns: _Columns) -> dict[str, object]:
    lines = [line._asdict() for line in step_lines(cell)]
    return {"cell": cell.key, "lines": lines, "parts": columns.parts()}


def _filled(data: Mapping[str, object]) -> str:
    """Return the page with `data` in it; nothing in the text of a person can end the script."""
    folder = files("elman.recipes.inspecting").joinpath("page")
    whole, style, script = (
        folder.joinpath(name).read_text(encoding="utf-8")
        for name in ("page.html", "page.css", "page.js")
    )
    told = json.dumps(data, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    for place, text in (
        ("/*TITLE*/", html.escape(str(data["title"]))),
        ("/*STYLE*/", style),
        ("/*SCRIPT*/", script),
        ("/*DATA*/", told),
    ):
        whole = whole.replace(place, text, 1)
    return whole
