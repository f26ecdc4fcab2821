"""One matrix as embedding and output: what it saves, what it needs, what its gradient is.

    tied:  x_t = row of W,  z_t = W P h_t + b,   dL/dW = (as embedding) + (as output)

W is V × E. With H = E there is no P; otherwise a projection P [E, H] must stand between.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.layers.readout import Readout
from elman.losses import token_loss
from elman.models.language_models import new_language_model
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.lab.experiment import Experiment, Measured
from elman.seeding import generator

_IDS = 1000
_WIDTH = 32
_SLOPE_IDS = 9
_CELL: Mapping[str, str] = MappingProxyType(
    {name: f"stack.cells.0.{name}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
)


def _run() -> Iterator[Measured]:
    """Yield what tying saves and needs, and how two uses share one gradient."""
    one, two = (_model(_IDS, _WIDTH, _WIDTH, is_tied) for is_tied in (True, False))
    yield Measured(
        "004-25",
        two.parameter_count() - one.parameter_count(),
        f"parameters of an LSTM of {_WIDTH} units over {_IDS:,} tokens, untied less tied",
    )
    yield Measured(
        "004-26",
        [_projection(_WIDTH), _projection(2 * _WIDTH), _fits_without(2 * _WIDTH)],
        f"vectors of {_WIDTH}: shape of the projection of as many units, and of twice as many; "
        "whether states of twice the width meet the matrix without it",
    )
    is_one, off = _gradients()
    yield Measured(
        "004-27",
        [is_one, off],
        "whether embedding and output are one tensor; its gradient less the sum of the gradients "
        "of two tensors of the same values, over the largest number of it",
    )


def _model(
    vocabulary_size: int, embedding_size: int, hidden_size: int, is_tied: bool
) -> RecurrentLanguageModel:
    settings = ModelSettings(
        kind="lstm",
        embedding_size=embedding_size,
        hidden_size=hidden_size,
        tie_weights=is_tied,
    )
    model = new_language_model(settings, vocabulary_size, generator(1, "initialisation"))
    assert isinstance(model, RecurrentLanguageModel)
    return model.double()


def _projection(hidden_size: int) -> list[int]:
    """Return the shape of what stands between states and a tied matrix, [] for nothing."""
    readout = _model(_IDS, _WIDTH, hidden_size, True).readout
    assert isinstance(readout, Readout)
    return [] if readout.projection is None else list(readout.projection.shape)


def _fits_without(hidden_size: int) -> bool:
    model = _model(_IDS, _WIDTH, hidden_size, True)
    try:
        linear(torch.zeros(1, hidden_size).double(), model.readout.weight)
    except RuntimeError:
        return False
    return True


def _gradients() -> tuple[bool, float]:
    """Return whether tying makes one tensor, and how far its gradient is from the sum of two."""
    tied, untied = (_model(_SLOPE_IDS, 6, 6, is_tied) for is_tied in (True, False))
    assert tied.embedding is not None
    assert untied.embedding is not None
    with torch.no_grad():
        for name in _CELL.values():
            untied.get_parameter(name).copy_(tied.get_parameter(name))
        for weight in (untied.embedding.weight, untied.readout.weight):
            weight.copy_(tied.embedding.weight)
    ids_BT = torch.randint(0, _SLOPE_IDS, (3, 8), generator=generator(1, "order"))
    (whole_VE,) = _slopes(tied, ids_BT, [tied.readout.weight])
    parts = _slopes(untied, ids_BT, [untied.embedding.weight, untied.readout.weight])
    off = (parts[0] + parts[1] - whole_VE).abs().max() / whole_VE.abs().max()
    return tied.embedding.weight is tied.readout.weight, off.item()


def _slopes(
    model: RecurrentLanguageModel, ids_BT: Tensor, weights: list[torch.nn.Parameter]
) -> tuple[Tensor, ...]:
    plan = KernelPlan("reference")
    output = model(ids_BT[:, :-1], plan=plan)
    loss = token_loss(output.states_BTH, output.readout, ids_BT[:, 1:], plan=plan)
    return torch.autograd.grad(loss.mean(), weights)


TYING = Experiment(
    "tying",
    "one matrix read at the bottom and at the top",
    "document 004, 7.2",
    _run,
)
