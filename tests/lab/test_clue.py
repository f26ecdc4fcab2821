"""The red and blue clue: fractions, trained classes and expectations, each from its own file."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from elman.cells.elman import ElmanCell, ElmanState
from elman.models.classifier import SequenceClassifier
from elman.models.window import WindowLanguageModel
from elman.recipes.lab import checking, clue_production, clue_reader, exact_tables
from elman.recipes.lab.claims import load_claims, verdict
from elman.recipes.lab.clue_production import production_reader
from elman.recipes.lab.clue_reader import exact_reader, parse_clue_fixture
from elman.recipes.lab.registry import EXPERIMENTS

FIXTURE = Path(clue_reader.__file__).parent / "fixtures" / "clue.json"
NAMES = ("clue-parameters", "clue-sweeps", "clue-window", "long-clue", "short-clue")

BLOCKED = """
import sys
allowed = set(sys.stdlib_module_names) | {"elman"}
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in allowed:
            raise ImportError(f"{name} is not of the standard library")
sys.meta_path.insert(0, Block())
import runpy
sys.argv = ["exact_tables", "--log", LOG]
runpy.run_module("elman.recipes.lab.exact_tables", run_name="__main__")
"""


def test_the_tables_need_the_standard_library_alone_and_find_what_is_expected(
    tmp_path: Path,
) -> None:
    log = tmp_path / "run.json"
    program = BLOCKED.replace("LOG", repr(str(log)))
    source = str(Path(clue_reader.__file__).parents[3])
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    told = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert told.returncode == 0, told.stderr
    found = json.loads(log.read_text(encoding="utf-8"))
    assert found["fixture_sha256"] == hashlib.sha256(FIXTURE.read_bytes()).hexdigest()
    assert found["fixture_sha256"] in told.stdout
    assert all(table["title"] in told.stdout for table in found["tables"])
    assert [t["title"][:4] for t in found["tables"][:5]] == [f"11.{n}" for n in range(1, 6)]
    claims = {name: one for name, one in load_claims().items() if name.startswith("003-")}
    measurable = [name for name, one in claims.items() if one.expected is not None]
    assert sorted(found["findings"]) == sorted(measurable)
    for name, one in found["findings"].items():
        assert verdict(claims[name], one["value"]) == "holds", (name, one)


def test_a_log_is_the_same_every_time_and_its_folder_must_be_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "other"):
        assert exact_tables.print_exact_tables(["--log", str(tmp_path / name)]) == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    capsys.readouterr()
    assert exact_tables.print_exact_tables(["--log", str(tmp_path / "none" / "log")]) == 2
    told = capsys.readouterr().err
    assert "cannot be written" in told
    assert told.count("\n") == 1


def test_table_11_4_is_there_in_fractions() -> None:
    tables = {title: rows for title, _, rows in exact_tables.exact_tables(exact_reader())}
    long = next(rows for title, rows in tables.items() if title.startswith("11.4"))
    right = ("red", "[1/8, 0]", "[1/256, 0]", "[33/256, 0]", "0.532182", "red: right")
    wrong = ("blue", "[1/8, 0]", "[0, 1/256]", "[1/8, 1/256]", "0.530236", "red: wrong")
    assert long == (right, wrong)


def test_both_readers_read_words_alike_from_any_state() -> None:
    exact, produced = exact_reader(), production_reader()
    old = (Fraction(3, 4), Fraction(5, 8))
    words = ("blue", "red", "filler", "red", "is")
    for start in (None, old):
        assert list(exact.read(words, start)) == list(produced.read(words, start))
    assert exact.parameters() == produced.parameters()
    assert exact.window_rows(3) == produced.window_rows(3)


def test_a_step_of_training_is_the_same_in_fractions_and_by_the_trained_classes() -> None:
    words = exact_reader().fixture.cases["long"]["blue"]
    exact, produced = (
        reader.trained(words, "blue", Fraction(1, 2)).parameters()
        for reader in (exact_reader(), production_reader())
    )
    for name, matrix in exact.items():
        wanted, found = (
            np.array([[float(one) for one in row] for row in rows])
            for rows in (matrix, produced[name])
        )
        assert np.allclose(wanted, found, rtol=1e-12, atol=1e-15), name


def test_training_leaves_the_reader_that_it_began_from_as_it_was() -> None:
    reader = production_reader()
    before = reader.parameters()
    words = reader.fixture.cases["long"]["blue"]
    assert reader.trained(words, "blue", Fraction(1)).parameters() != before
    assert reader.parameters() == before


def verdicts(name: str) -> Mapping[str, str]:
    report = checking.run_experiments([EXPERIMENTS[name]])
    return {finding.claim.name: finding.verdict for finding in report.findings}


def with_tanh(cell: ElmanCell, gates: Mapping[str, Tensor], state: object) -> ElmanState:
    return ElmanState(torch.tanh(gates["preactivation"]))


def without_state(
    cell: ElmanCell, x_BE: Tensor, state: ElmanState, seen_BP: Tensor | None = None
) -> dict[str, Tensor]:
    return {"preactivation": torch.nn.functional.linear(x_BE, cell.weight_ih, cell.bias_ih)}


def last_of_equals(log_probs_BC: np.ndarray, labels: object) -> list[tuple[str, ...]]:
    places = log_probs_BC.shape[1] - 1 - log_probs_BC[:, ::-1].argmax(axis=1)
    return [(("red", "blue")[place],) for place in places]


@pytest.mark.parametrize(
    ("owner", "attribute", "fault", "experiment", "red"),
    [
        (ElmanCell, "combine", with_tanh, "short-clue", ("003-03", "003-04", "003-06", "003-14")),
        (ElmanCell, "combine", with_tanh, "clue-sweeps", ("003-29", "003-30", "003-33")),
        (ElmanCell, "gates", without_state, "short-clue", ("003-05", "003-06", "003-25")),
        (ElmanCell, "gates", without_state, "long-clue", ("003-18", "003-20", "003-22")),
        (ElmanCell, "gates", without_state, "clue-parameters", ("003-31", "003-34")),
        (clue_production, "given_labels", last_of_equals, "long-clue", ("003-27",)),
        (clue_production, "given_labels", last_of_equals, "clue-sweeps", ("003-28", "003-33")),
    ],
)
def test_a_planted_fault_turns_the_claims_that_it_touches(
    owner: object,
    attribute: str,
    fault: Callable[..., object],
    experiment: str,
    red: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, attribute, fault)
    found = verdicts(experiment)
    assert {name: found[name] for name in red} == dict.fromkeys(red, "differs")


def test_a_window_one_too_long_and_a_classifier_without_its_bias_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look = WindowLanguageModel.forward
    monkeypatch.setattr(
        WindowLanguageModel,
        "forward",
        lambda self, ids_BT, *, plan: look(self, ids_BT.roll(1, dims=1), plan=plan),
    )
    assert verdicts("clue-window")["003-01"] == "differs"
    answer = SequenceClassifier.forward
    monkeypatch.setattr(
        SequenceClassifier,
        "forward",
        lambda self, ids_BT, lengths_B, *, plan: (
            answer(self, ids_BT, lengths_B, plan=plan) - self.bias
        ),
    )
    assert verdicts("short-clue")["003-08"] == "differs"


def test_what_differs_says_both_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ElmanCell, "gates", without_state)
    measured = {one.claim: one.value for one in EXPERIMENTS["short-clue"].run()}
    assert measured["003-05"] == (
        "in fractions [['1', '0'], ['1/2', '0']], by the trained classes [['1', '0'], ['0', '0']]"
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_experiment_draws(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw = EXPERIMENTS[name].draw
    assert draw is not None
    draw(tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_a_fixture_without_its_parts_is_refused() -> None:
    whole = json.loads(FIXTURE.read_bytes())
    assert parse_clue_fixture(json.dumps(whole).encode()).cases == exact_reader().fixture.cases
    uneven = {"weights": [["1", "0"], ["0", "1"], ["1", "0"], ["0", "2"]], "bias": ["0", "0"]}
    for change in ({"window": None}, {"cases": None}, {"window": uneven}):
        with pytest.raises(clue_reader.DataError):
            parse_clue_fixture(json.dumps({**whole, **change}).encode())
