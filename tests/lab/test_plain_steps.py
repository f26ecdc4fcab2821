"""The worked plain steps: faults in cell and generator turn their claims; pictures are drawn."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from elman.cells.elman import ElmanCell, ElmanState
from elman.decoding.generation import Generation
from elman.recipes.lab import plain_steps
from elman.recipes.lab.checking import run_experiments
from elman.recipes.lab.registry import EXPERIMENTS


def verdicts() -> dict[str, str]:
    report = run_experiments([plain_steps.PLAIN_STEPS])
    return {finding.claim.name: finding.verdict for finding in report.findings}


def test_a_cell_that_always_squashes_turns_what_an_identity_cell_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def always(self: ElmanCell, gates: Mapping[str, Tensor], state: ElmanState) -> ElmanState:
        return ElmanState(torch.tanh(gates["preactivation"]))

    monkeypatch.setattr(ElmanCell, "combine", always)
    found = verdicts()
    assert [found[name] for name in ("001-13", "001-15")] == ["differs"] * 2
    assert found["001-37"] == "holds"


def test_a_generator_that_is_fed_the_recorded_token_turns_what_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = Generation.step

    def corrected(self: Generation) -> int:
        token = step(self)
        self._last_id = 8
        return token

    monkeypatch.setattr(Generation, "step", corrected)
    assert verdicts()["001-16"] == "differs"


@pytest.mark.parametrize(
    "name",
    [
        "sequence-layouts",
        "plain-steps",
        "gated-steps",
        "derivative-paths",
        "window-borders",
        "contexts-of-a-token",
        "count-context",
    ],
)
def test_a_picture_is_drawn_of_what_is_measured(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    experiment = EXPERIMENTS[name]
    assert experiment.draw is not None
    experiment.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
