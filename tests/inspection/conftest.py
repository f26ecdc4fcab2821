"""Every cell there is, its weights by chance."""

import pytest
from chance_cells import random_cell

from elman.cells.cell import Cell
from elman.cells.registry import CELLS


@pytest.fixture(params=sorted(CELLS))
def cell(request: pytest.FixtureRequest) -> Cell:
    return random_cell(request.param)
