"""The conventions beside torch's own GRU; a reset moved to the other side is noticed."""

import pytest
import torch
from planted_faults import verdicts

from elman.cells.gru import GRUCell
from elman.recipes.lab import gru_conventions
from elman.recipes.lab.gru_conventions import GRU_CONVENTIONS


def test_after_and_keep_are_torchs_own() -> None:
    theirs = torch.nn.GRU(1, 1, batch_first=True).double()
    cell = gru_conventions._small("after", "keep")
    theirs.load_state_dict({f"{name}_l0": value for name, value in cell.state_dict().items()})
    x_BTE = torch.tensor([[[1.0], [-2.0]]], dtype=torch.float64)
    want = theirs(x_BTE)[0].flatten().tolist()
    assert gru_conventions._outputs("after", "keep") == pytest.approx(want, abs=1e-14)


def test_the_figures_are_those_that_other_programs_give() -> None:
    before, after = (gru_conventions._outputs(reset, "keep") for reset in ("before", "after"))
    assert before == pytest.approx([0.2528377, 0.1446079], abs=5e-8)
    assert after == pytest.approx([0.2303021, 0.0698170], abs=5e-8)


def test_a_reset_on_the_other_side_turns_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GRUCell, "_gates_before", GRUCell._gates_after)
    found = verdicts(GRU_CONVENTIONS)
    assert found["000-16"] == "differs"
    assert found["000-15"] == found["000-17"] == "holds"


def test_a_gate_that_forgets_its_function_turns_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    from elman.cells.lstm import LSTMCell

    right = LSTMCell.gates

    def squashed(self: LSTMCell, *read: object) -> dict[str, torch.Tensor]:
        gates = right(self, *read)  # type: ignore[arg-type]
        return gates | {"output": 2.0 * gates["output"] - 1.0}

    monkeypatch.setattr(LSTMCell, "gates", squashed)
    assert verdicts(GRU_CONVENTIONS)["000-17"] == "differs"
