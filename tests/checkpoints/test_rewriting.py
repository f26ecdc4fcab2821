"""Cells rewritten in another convention give the same values and leave the first one alone."""

import pytest
import torch

from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell, LSTMOptions
from elman.cells.mgu import MGUCell
from elman.checkpoints.foreign.rewriting import as_keep, mgu_as_gru, uncoupled, with_two_biases
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur

REWRITTEN = {
    "elman, one bias": (ElmanCell(3, 4, bias="one"), with_two_biases),
    "gru before, no bias": (GRUCell(3, 4, reset="before", bias="none"), with_two_biases),
    "lstm projected, one bias": (
        LSTMCell(3, 4, bias="one", options=LSTMOptions(projection_size=2)),
        with_two_biases,
    ),
    "mgu, one bias": (MGUCell(3, 4, bias="one"), with_two_biases),
    "gru after replace": (GRUCell(3, 4, update="replace"), as_keep),
    "gru before replace, one bias": (
        GRUCell(3, 4, reset="before", update="replace", bias="one"),
        as_keep,
    ),
    "lstm coupled": (LSTMCell(3, 4, options=LSTMOptions(coupled=True)), uncoupled),
    "lstm coupled with peepholes": (
        LSTMCell(3, 4, options=LSTMOptions(coupled=True, peepholes=True, projection_size=3)),
        uncoupled,
    ),
    "mgu": (MGUCell(3, 4), mgu_as_gru),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_rewritten_cell_gives_the_same_values(name: str) -> None:
    cell, rewrite = REWRITTEN[name]
    seed = 3
    generator = torch.Generator().manual_seed(seed)
    cell = cell.double()
    with torch.no_grad():
        for weight in cell.weights:
            weight.normal_(generator=generator)
    before = [weight.clone() for weight in cell.weights]
    twin = rewrite(cell)
    assert twin is not cell
    x_BTE = torch.randn(5, 6, 3, dtype=torch.float64, generator=generator)
    lengths_B = torch.tensor([6, 0, 3, 6, 1])
    plan = KernelPlan("reference")
    want_BTH, want = recur(cell, x_BTE, None, lengths_B, plan=plan)
    got_BTH, got = recur(twin, x_BTE, None, lengths_B, plan=plan)
    torch.testing.assert_close(got_BTH, want_BTH, rtol=0, atol=1e-12, msg=f"seed {seed}")
    for left, right in zip(got, want, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-12, msg=f"seed {seed}")
    for left, right in zip(cell.weights, before, strict=True):
        assert torch.equal(left, right)


def test_normalised_coupled_gates_are_not_parted() -> None:
    cell = LSTMCell(3, 4, options=LSTMOptions(coupled=True, layer_norm=True))
    with pytest.raises(ValueError, match="cannot be parted"):
        uncoupled(cell)
