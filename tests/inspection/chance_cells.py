"""Cells and models with weights by chance, in float64, for numbers that can be checked."""

import torch

from elman.cells.cell import Cell
from elman.cells.registry import CELLS
from elman.config.model_settings import ModelSettings
from elman.models.recurrent import RecurrentLanguageModel

torch.set_num_threads(1)
INPUTS, UNITS = 3, 5


def random_cell(name: str, seed: int = 1) -> Cell:
    """Return the cell of this name with every weight and bias by chance, none 0."""
    cell = CELLS[name](INPUTS, UNITS).double()
    drawn = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=drawn).double() * 0.7)
    return cell


def random_state(cell: Cell, batch_size: int, seed: int = 2):
    drawn = torch.Generator().manual_seed(seed)
    sizes = cell.state_sizes
    return cell.pack_state(
        [torch.randn(batch_size, size, generator=drawn).double() * 0.5 for size in sizes]
    )


def random_model(kind: str = "lstm", seed: int = 3, **more: object) -> RecurrentLanguageModel:
    """Return a small language model in float64, two layers unless said otherwise."""
    settings = {"hidden_size": 6, "embedding_size": 4, "num_layers": 2, "kind": kind} | more
    model = RecurrentLanguageModel(
        ModelSettings(**settings), 11, torch.Generator().manual_seed(seed)
    ).double()
    drawn = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=drawn).double() * 0.3)
    return model
