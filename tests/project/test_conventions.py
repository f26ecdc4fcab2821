"""docs/conventions.md says what the tests of the conversions hold."""

import re
import sys
from pathlib import Path

import pytest

from elman.cells.registry import CELLS

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "contracts"))
from conversion_promises import REFUSED  # noqa: E402 — it stands beside the contracts


def table() -> dict[str, dict[str, str]]:
    text = (ROOT / "docs" / "conventions.md").read_text(encoding="utf-8")
    section = text.split("## What each format cannot express")[1].split("\n## ")[0]
    found = {}
    for line in re.findall(r"^\| `.*$", section, re.MULTILINE):
        names, *entries = [cell.strip() for cell in line.strip("|").split("|")]
        for name in re.findall(r"`([^`]+)`", names):
            found[name] = dict(zip(("torch", "keras", "onnx", "py"), entries, strict=True))
    return found


@pytest.mark.parametrize("target", REFUSED)
def test_the_table_of_what_cannot_be_expressed_is_what_is_refused(target: str) -> None:
    told = table()
    for key in CELLS:
        if "," in key or key.count("+") > 1:
            continue  # biases and joined options are no rows of their own
        refused = told[key][target] == "no"
        assert refused == (key in REFUSED[target]), f"{key} to {target}"  # type: ignore[index]
