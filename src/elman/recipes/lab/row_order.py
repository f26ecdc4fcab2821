"""Rows of logits and their targets: any order will do, as long as it is one order.

    loss = Σ_n −log softmax(z_n)[y_n] = Σ_n NLL(log_softmax(z_n), y_n)

Time first or batch first, a transposed table of ids is a table of ids as well: nothing fails, and
what was a row of one text is then read as steps of several.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax, nll_loss

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.losses import token_loss, token_nats
from elman.models.language_models import new_language_model
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.lab.experiment import Experiment, Measured
from elman.seeding import generator

_SEEDS = range(1, 11)
_STEPS, _LANES, _IDS = 6, 4, 10


def _run() -> Iterator[Measured]:
    """Yield what the order of rows changes, and that two names are one loss."""
    model, ids_BT, targets_BT = _example(1)
    output = model(ids_BT, plan=KernelPlan("reference"))
    states_BTH, readout = output.states_BTH, output.readout
    batch_first = token_loss(states_BTH, readout, targets_BT)
    states_TBH, targets_TB = states_BTH.transpose(0, 1), targets_BT.t()
    time_first = token_loss(states_TBH, readout, targets_TB)
    crossed_TB = targets_BT.flatten().view(_STEPS, _LANES)
    crossed = token_loss(states_TBH, readout, crossed_TB)
    turned = model(ids_BT.t(), plan=KernelPlan("reference"))
    turned_loss = token_loss(turned.states_BTH, turned.readout, targets_TB)
    whole = batch_first.nats.item()
    yield Measured(
        "004-23",
        [time_first.count, abs(time_first.nats.item() - whole)]
        + [abs(other.nats.item() - whole) > 1e-3 for other in (crossed, turned_loss)],
        f"rows of {_STEPS} steps in {_LANES} lanes; time first against batch first; whether "
        "targets in the other order, and ids read transposed, give another loss without an error",
    )
    worst = [_worst_difference(seed) for seed in _SEEDS]
    yield Measured(
        "004-24",
        max(worst),
        "largest difference of the loss from torch's cross-entropy and from its NLL of log-softmax",
        by_seed=tuple(worst),
    )


def _example(seed: int) -> tuple[RecurrentLanguageModel, Tensor, Tensor]:
    """Return a new model of float64, ids [B, T] and targets [B, T]."""
    settings = ModelSettings(kind="lstm", embedding_size=5, hidden_size=7)
    draws = generator(seed, "initialisation")
    model = new_language_model(settings, _IDS, draws).double()
    assert isinstance(model, RecurrentLanguageModel)
    with torch.no_grad():
        model.readout.bias.normal_(generator=draws)
    ids_BT, targets_BT = torch.randint(0, _IDS, (2, _LANES, _STEPS), generator=draws)
    return model, ids_BT, targets_BT


def _worst_difference(seed: int) -> float:
    """Return how far the loss of the tokens, and their mean in training, are from torch's two."""
    model, ids_BT, targets_BT = _example(seed)
    output = model(ids_BT, plan=KernelPlan("reference"))
    states_BTH, readout = output.states_BTH, output.readout
    trained_with = token_loss(states_BTH, readout, targets_BT).mean().item()
    with torch.no_grad():
        ours_N = token_nats(states_BTH, readout, targets_BT).flatten()
        logits_NV, targets_N = readout(states_BTH).flatten(0, 1), targets_BT.flatten()
        worst = 0.0
        for torchs_N in (
            nll_loss(log_softmax(logits_NV, dim=1), targets_N, reduction="none"),
            cross_entropy(logits_NV, targets_N, reduction="none"),
        ):
            worst = max(worst, (ours_N - torchs_N).abs().max().item())
            worst = max(worst, abs(trained_with - torchs_N.mean().item()))
    return worst


ROW_ORDER = Experiment(
    "row-order",
    "rows of a batch in one order or the other, and one loss under two names",
    "document 004, 7.1",
    _run,
)
