"""docs/seeds.md of what a laboratory found: every claim, expected, measured, verdict, reason.

elman lab --all --json > lab.json
python -m elman.recipes.lab.claims_page lab.json 2026-11-30 > docs/seeds.md
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any

from elman.recipes.lab.claims import told_value

HEAD = """# The claims, measured

Five documents that describe recurrent networks make statements that can be checked. Every one of
them stands here, with what is expected of it, what the classes of this package make of it, and
whether that is the same. The page is made from `elman lab --all --json`; its experiments are in
`src/elman/recipes/lab/`, the expectations beside them in `claims/`.
"""


def claims_page(told: Mapping[str, Any], *, dated: str) -> str:
    """Return the page, in Markdown."""
    verdicts = told["verdicts"].items()
    counts = ", ".join(f"{count:,} {_VERBS.get(name, name)}" for name, count in verdicts)
    lines = [HEAD, f"Run on {dated}: of {len(told['findings']):,} claims {counts}.", ""]
    open_yet = [one["claim"] for one in told["findings"] if one["verdict"] == "not measured"]
    if open_yet:
        lines += [f"Left out of this run: {', '.join(open_yet)}.", ""]
    for seed, findings in groupby(told["findings"], key=lambda one: one["claim"].split("-")[0]):
        lines += [f"## Document {seed}", "", *_TITLES, *map(_row, findings), ""]
    remarks = [one for one in told["findings"] if one["remark"]]
    if remarks:
        lines += ["## Remarks", ""]
        lines += [f"- **{one['claim']}**: {one['remark']}" for one in remarks]
    return "\n".join(lines).rstrip() + "\n"


_TITLES = (
    "| claim | place | what is said | expected | measured | verdict | by |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)


def _row(finding: Mapping[str, Any]) -> str:
    expected, measured = finding["expected"], finding["measured"]
    wanted = finding["reason"] or "–"
    if expected is not None:
        wanted = f"{_SIGNS[expected['kind']]}{told_value(expected['value'], DIGITS)}"
        wanted += f" ± {expected['within']:g}" if expected["within"] else ""
    found = "–" if measured is None else told_value(measured["value"], DIGITS)
    cells = (finding["claim"], finding["place"], finding["says"], wanted, found)
    row = (*cells, f"{finding['verdict']}", finding["experiment"] or "–")
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"


_VERBS: Mapping[str, str] = MappingProxyType(
    {"holds": "hold", "holds as corrected": "hold as corrected", "differs": "differ"}
)
_SIGNS: Mapping[str, str] = MappingProxyType(
    {"equals": "", "at least": "≥ ", "at most": "≤ ", "between": "within "}
)


DIGITS = 6


def _main(arguments: Sequence[str]) -> Iterator[str]:
    path, dated = Path(arguments[0]), arguments[1]
    yield claims_page(json.loads(path.read_text(encoding="utf-8")), dated=dated)


if __name__ == "__main__":
    sys.stdout.writelines(_main(sys.argv[1:]))
