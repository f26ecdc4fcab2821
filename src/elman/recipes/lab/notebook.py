"""An experiment as a Jupyter notebook whose cells have been run: text, code, tables, the picture.

The file is notebook format 4.5 (https://nbformat.readthedocs.io/en/latest/format_description.html).
"""

import base64
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from elman.recipes.lab.checking import LabReport, run_experiments
from elman.recipes.lab.experiment import Experiment

Output = Mapping[str, object]
"""What a cell has printed or shown, in the notebook's format."""

RUN = """from elman.recipes.lab.checking import run_experiments
from elman.recipes.lab.registry import EXPERIMENTS

experiment = EXPERIMENTS["{name}"]
report = run_experiments([experiment])"""

SHOW = """from elman.recipes.lab.notebook import told_findings

print(told_findings(report))"""

DRAW = """import tempfile
from pathlib import Path

from IPython.display import Image

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "picture.png"
    experiment.draw(path)
    shown = Image(path.read_bytes())
shown"""


def told_findings(report: LabReport) -> str:
    """Return each claim with its verdict, what was expected and what was measured, as text."""
    lines = []
    for finding in report.findings:
        claim, expected = finding.claim, finding.claim.expected
        lines.append(f"{claim.name}  {finding.verdict}: {claim.says}")
        if expected is not None:
            lines.append(f"         expected {expected.kind} {expected.value} ± {expected.within}")
        if finding.measured is not None:
            lines.append(f"         measured {finding.measured.value}: {finding.measured.how}")
    return "\n".join(lines)


def notebook(experiment: Experiment) -> str:
    """Return the notebook of `experiment`, with what its cells gave when it was written."""
    printed = told_findings(run_experiments([experiment])) + "\n"
    stream: Output = {"output_type": "stream", "name": "stdout", "text": printed}
    cells = [
        _markdown("title", f"# {experiment.title}\n\nSource: {experiment.source}."),
        _code("step-1", 1, RUN.format(name=experiment.name), []),
        _code("step-2", 2, SHOW, [stream]),
    ]
    if experiment.draw is not None:
        with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
            path = Path(scratch) / "picture.png"
            experiment.draw(path)
            picture = base64.b64encode(path.read_bytes()).decode()
        shown = {"output_type": "execute_result", "execution_count": 3, "metadata": {}}
        data = {"image/png": picture, "text/plain": "<IPython.core.display.Image object>"}
        cells.append(_code("picture", 3, DRAW, [shown | {"data": data}]))
    whole = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _markdown(name: str, text: str) -> dict[str, object]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": text}


def _code(name: str, count: int, source: str, outputs: Sequence[Output]) -> dict[str, object]:
    return {
        "cell_type": "code",
        "id": name,
        "metadata": {},
        "execution_count": count,
        "source": source,
        "outputs": list(outputs),
    }
