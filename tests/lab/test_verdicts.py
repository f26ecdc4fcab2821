"""Claims and verdicts: what is as expected holds, what is not differs, and nothing else passes."""

import ast
from pathlib import Path

import pytest

from elman.recipes.lab import checking, claims
from elman.recipes.lab.claims import Claim, Expected, load_claims, verdict
from elman.recipes.lab.experiment import Experiment, Measured, Value
from elman.recipes.lab.registry import EXPERIMENTS

LAB = Path(claims.__file__).parent


def claim(kind: str, value: Value, within: float = 0.0) -> Claim:
    return Claim("x", "here", "something", "exact", Expected(kind, value, within))


@pytest.mark.parametrize(
    ("expected", "measured", "holds"),
    [
        (claim("equals", 0.5), 0.5, True),
        (claim("equals", 0.5), 0.5000001, False),
        (claim("equals", 0.5, 1e-6), 0.5000001, True),
        (claim("equals", "1/256"), "1/256", True),
        (claim("equals", "1/256"), 0.00390625, True),
        (claim("equals", "1/256"), "1/128", False),
        (claim("equals", "red"), "red", True),
        (claim("equals", "red"), "blue", False),
        (claim("equals", True), True, True),
        (claim("equals", True), False, False),
        (claim("equals", True), 1, False),
        (claim("equals", 1), True, False),
        (claim("equals", [1, [2, 3]]), [1, (2, 3)], True),
        (claim("equals", [1, [2, 3]]), [1, [2, 4]], False),
        (claim("equals", [1, 2]), [1, 2, 3], False),
        (claim("equals", [1, 2]), 1, False),
        (claim("equals", 1.0, 0.1), float("nan"), False),
        (claim("at least", 0.99), 0.99, True),
        (claim("at least", 0.99), 0.9899, False),
        (claim("at least", 0.99), float("nan"), False),
        (claim("at most", 2), 3, False),
        (claim("between", [0.4, 0.6]), 0.5, True),
        (claim("between", [0.4, 0.6]), 0.7, False),
    ],
)
def test_a_value_holds_where_it_is_what_is_expected(
    expected: Claim, measured: Value, holds: bool
) -> None:
    assert verdict(expected, measured) == ("holds" if holds else "differs")


def test_what_was_not_measured_or_cannot_be_never_holds() -> None:
    assert verdict(claim("equals", 1), None) == "not measured"
    assert verdict(Claim("x", "", "", "none", None, "no inputs"), 1) == "cannot be measured"


def test_what_is_worded_wrongly_holds_as_corrected_at_most() -> None:
    wrong = Claim("x", "", "", "worded wrongly", Expected("equals", 1, 0.0), remark="two")
    assert verdict(wrong, 1) == "holds as corrected"
    assert verdict(wrong, 2) == "differs"
    assert all(one.remark for one in load_claims().values() if one.of == "worded wrongly")


def test_every_claim_is_measured_by_one_experiment_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    def once(name: str) -> Experiment:
        return Experiment(name, "", "", lambda: [Measured("000-10", 1.0, "")])

    with pytest.raises(ValueError, match="measured by first too"):
        checking.run_experiments([once("first"), once("second")])
    with pytest.raises(ValueError, match="is no claim"):
        checking.run_experiments([Experiment("a", "", "", lambda: [Measured("9", 1, "")])])


def test_experiments_do_not_read_what_is_expected_of_them() -> None:
    may = {"claims.py", "checking.py", "claims_page.py", "notebook.py"}
    for path in (one for one in LAB.rglob("*.py") if one.name not in may):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert not name.endswith((".claims", ".checking")), path
        text = path.read_text(encoding="utf-8").replace("fixtures/clue.json", "")
        text = text.replace('FIXTURE_NAME = "clue.json"', "")  # inputs, and nothing expected
        assert ".json" not in text or path.name == "experiment.py", path


@pytest.mark.parametrize(
    "experiment",
    [one for one in EXPERIMENTS.values() if one.takes == "seconds"],
    ids=lambda e: e.name,
)
def test_an_experiment_of_seconds_finds_what_is_expected(experiment: Experiment) -> None:
    report = checking.run_experiments([experiment])
    differing = [
        (finding.claim.name, finding.claim.expected, finding.measured)
        for finding in report.findings
        if not finding.verdict.startswith("holds")
    ]
    assert not differing
    assert report.findings
    assert set(report.seconds) == {experiment.name}


def test_claims_stand_in_the_order_of_their_names_and_each_says_something() -> None:
    found = load_claims()
    assert list(found) == sorted(found)
    assert all(one.says and one.place for one in found.values())
