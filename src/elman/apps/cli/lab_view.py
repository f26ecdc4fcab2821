"""What `elman lab` shows a person: the experiments, and each claim with expected and measured."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from elman.apps.cli.output import output_console

if TYPE_CHECKING:
    from elman.recipes.lab.checking import Finding, LabReport
    from elman.recipes.lab.claims import Expected
    from elman.recipes.lab.experiment import Experiment

_STYLES = (("holds", "green"), ("holds as corrected", "yellow"), ("differs", "bold red"))


def show_experiments(experiments: "Sequence[Experiment]") -> None:
    """Show every experiment with what it is about and how long it takes."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("experiment", "takes", "picture", "about"):
        table.add_column(title)
    for one in experiments:
        table.add_row(one.name, one.takes, "" if one.draw is None else "--plot", one.title)
    output_console().print(table)
    output_console().print("run one with: elman lab NAME, those of seconds with: elman lab --check")


def show_findings(report: "LabReport") -> None:
    """Show each claim, what was expected of it, what was measured, and the verdict."""
    from elman.recipes.lab.claims import told_value

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("claim", "says", "expected", "measured", "verdict"):
        table.add_column(title, overflow="fold")
    styles = dict(_STYLES)
    for finding in report.findings:
        table.add_row(
            finding.claim.name,
            Text(finding.claim.says),
            Text(_expected(finding)),
            Text("" if finding.measured is None else told_value(finding.measured.value)),
            Text(finding.verdict, style=styles.get(finding.verdict, "dim")),
        )
    console = output_console()
    console.print(table)
    for finding in report.findings:
        if finding.measured is not None and _is_table(finding.measured.value):
            # The numbers of a row say nothing by themselves.
            console.print(Text(f"{finding.claim.name} measured: {finding.measured.how}"))
        if finding.claim.remark:
            console.print(Text(f"{finding.claim.name}: {finding.claim.remark}"))


def _is_table(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _expected(finding: "Finding") -> str:
    expected = finding.claim.expected
    if expected is None:
        return f"– ({finding.claim.reason})"
    return told_expectation(expected)


def told_expectation(expected: "Expected") -> str:
    """Return an expectation in a few characters, such as `0.605 ± 1e-07` or `≥ 0.99`."""
    from elman.recipes.lab.claims import told_value

    value = expected.value
    if expected.kind == "between":
        assert isinstance(value, Sequence)
        return f"{told_value(value[0])} … {told_value(value[1])}"
    sign = {"equals": "", "at least": "≥ ", "at most": "≤ "}[expected.kind]
    within = f" ± {expected.within:g}" if expected.within else ""
    return f"{sign}{told_value(value)}{within}"
