"""The laboratory as a command: verdicts, pictures, and an exit status that a check can use."""

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace

import pytest

Elman = Callable[..., "CompletedProcess[str]"]

ALTERED = """
import sys
from elman.apps.cli.main import run
from elman.cells.elman import ElmanCell, ElmanState
ElmanCell.combine = lambda self, gates, state: ElmanState(1.001 * gates["preactivation"])
run(["lab", "factors", "--json"])
"""


def test_an_experiment_tells_expected_measured_and_a_verdict(elman: Elman) -> None:
    done = elman("lab", "factors", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["is_as_expected"]
    assert told["verdicts"]["differs"] == 0
    found = {finding["claim"]: finding for finding in told["findings"]}
    assert found["000-11"]["measured"]["value"] == pytest.approx(117.3909, abs=1e-4)
    assert found["000-11"]["verdict"] == "holds"
    assert found["004-12"]["verdict"] == "holds as corrected"
    shown = elman("lab", "factors")
    assert "117.3909" in shown.stdout
    assert "as expected, 1 of them not as worded but as corrected" in " ".join(shown.stdout.split())
    assert "004-10 measured: an identity cell" in shown.stdout


def test_an_altered_equation_turns_its_claims_red_and_the_status_is_1(tmp_path: Path) -> None:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", ALTERED],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        check=False,
    )
    assert done.returncode == 1
    found = {one["claim"]: one["verdict"] for one in json.loads(done.stdout)["findings"]}
    assert found["000-10"] == found["004-11"] == "differs"


def test_experiments_are_listed_and_drawn(elman: Elman, tmp_path: Path) -> None:
    assert "factors" in elman("lab").stdout
    assert {"name", "title", "source", "takes", "has_picture"} == set(
        json.loads(elman("lab", "--json").stdout)[0]
    )
    pytest.importorskip("matplotlib")
    path = tmp_path / "factors.png"
    assert elman("lab", "factors", "--plot", path).returncode == 0
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["factor"], "there is no such experiment; got factor; did you mean factors?"),
        (["memory"], "did you mean memory-task or memory-sequences or memory-cost?"),
        (["quux"], "there is no such experiment; got quux; elman lab lists them"),
        (["factors", "--check"], "one experiment or many; got a name and --check"),
        (["--plot", "x.png"], "--plot is of one experiment; got no name of one"),
        (["--check", "--notebook", "x.ipynb"], "--notebook is of one experiment"),
        (["factors", "--notebook", "x.py"], "a notebook must be a .ipynb file"),
        (["factors", "--plot", "x.gif"], "a picture must be a .png or .svg file"),
    ],
)
def test_what_cannot_be_run_is_one_line(elman: Elman, options: list[str], told: str) -> None:
    done = elman("lab", *options)
    assert done.returncode == 2
    assert told in done.stderr


def test_a_notebook_has_been_run_and_runs_again(
    elman: Elman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "factors.ipynb"
    assert elman("lab", "factors", "--notebook", path).returncode == 0
    told = json.loads(path.read_text(encoding="utf-8"))
    assert (told["nbformat"], told["nbformat_minor"]) == (4, 5)
    code = [cell for cell in told["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [1, 2, 3]
    printed = code[1]["outputs"][0]["text"]
    assert "000-10  holds" in printed
    assert code[2]["outputs"][0]["data"]["image/png"].startswith("iVBOR")
    assert "document 000" in told["cells"][0]["source"]
    names: dict[str, object] = {}
    printed_again = io.StringIO()
    with contextlib.redirect_stdout(printed_again):
        for cell in code[:2]:
            exec(cell["source"], names)
    assert printed_again.getvalue() == printed
    display = SimpleNamespace(Image=lambda picture: picture)
    whole = SimpleNamespace(display=display, version_info=(8, 24), get_ipython=lambda: None)
    monkeypatch.setitem(sys.modules, "IPython", whole)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    exec(code[2]["source"], names)
    assert names["shown"].startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert not list(elsewhere.iterdir())


def test_a_page_of_claims_has_every_claim_once() -> None:
    from elman.recipes.lab.checking import run_experiments, with_unmeasured
    from elman.recipes.lab.claims import load_claims
    from elman.recipes.lab.claims_page import claims_page
    from elman.recipes.lab.registry import EXPERIMENTS

    report = with_unmeasured(run_experiments([EXPERIMENTS["factors"]]))
    told = {
        "findings": [finding.to_json() for finding in report.findings],
        "verdicts": {"holds": report.count("holds")},
    }
    page = claims_page(told, dated="2026-11-30")
    rows = [
        line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if "-" in line[:7]
    ]
    assert [row for row in rows if row in load_claims()] == list(load_claims())
