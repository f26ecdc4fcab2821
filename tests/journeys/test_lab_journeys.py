"""The laboratory as a command: verdicts, pictures, and an exit status that a check can use."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

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
    shown = elman("lab", "factors")
    assert "117.3909" in shown.stdout
    assert "as expected" in shown.stdout


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
    assert {"name", "title", "source", "takes"} == set(json.loads(elman("lab", "--json").stdout)[0])
    pytest.importorskip("matplotlib")
    path = tmp_path / "factors.png"
    assert elman("lab", "factors", "--plot", path).returncode == 0
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["factor"], "there is no such experiment; got factor; did you mean factors?"),
        (["factors", "--check"], "one experiment or many; got a name and --check"),
        (["--plot", "x.png"], "--plot draws one experiment; got no name of one"),
        (["factors", "--plot", "x.gif"], "a picture must be a .png or .svg file"),
    ],
)
def test_what_cannot_be_run_is_one_line(elman: Elman, options: list[str], told: str) -> None:
    done = elman("lab", *options)
    assert done.returncode == 2
    assert told in done.stderr
