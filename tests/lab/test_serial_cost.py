"""Counted costs: chains of known graphs, bytes of known tensors, faults that turn the claims."""

import pytest
import torch

from elman.cells.min_gru import MinGRUCell
from elman.layers import stack
from elman.recipes.lab import serial_cost
from elman.recipes.lab.checking import run_experiments


def test_the_longest_path_counts_products_and_nothing_beside_it() -> None:
    first = torch.ones(2, 2, requires_grad=True)
    other = torch.ones(2, 2, requires_grad=True)
    long = torch.tanh(torch.tanh(first @ other) @ other) @ other
    assert serial_cost._longest(long + first @ other, first) == 3
    assert serial_cost._longest(first * 2.0 + (other @ other) @ other, first) == 0


def test_a_cell_whose_gates_see_no_state_has_no_products_in_its_chain() -> None:
    assert serial_cost._chain([MinGRUCell(3, 5)], 9) == (0,)


def test_bytes_are_those_of_tensors_that_are_alive_at_once() -> None:
    with serial_cost._Ledger() as ledger:
        kept = torch.zeros(100)
        for _ in range(5):
            passing = kept + 1.0
            del passing
        view = kept.view(10, 10)
        torch.mm(view, view)
    assert ledger.most_bytes == 800
    assert ledger.work == 1000


def test_blocks_that_are_kept_turn_the_trade_of_work_for_storage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        stack,
        "run_in_blocks",
        lambda run, x, state, lengths, noise, _: run(x, state, lengths, noise),
    )
    report = run_experiments([serial_cost.SERIAL_COST])
    found = {finding.claim.name: finding.verdict for finding in report.findings}
    assert found == {"001-33": "holds", "001-34": "differs"}
