"""A recurrence is a deep network whose layers share their weights.

    h_t = tanh(W h_{t−1} + U x_t + b),   t = 1 … T

    dL/dW = Σ_t dL/dW_t                        T copies of W, one a step, each with its own gradient
    ∂h_T/∂h_1 = Π_{t=2}^{T} diag(1 − h_t²) W   T − 1 factors

Parameters do not depend on T; what is kept for the backward pass, and the steps that wait for one
another, grow with it; the state stays as wide as it is.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elman.cells.cell import CellState
from elman.cells.elman import ElmanCell
from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.layers.recurrence import recur
from elman.losses import token_loss
from elman.models.language import LanguageModel
from elman.models.language_models import new_language_model
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_STEPS = 12
_UNITS = 5
_IDS = 11
_SQUASHED = "TanhBackward0"
"""What autograd calls the node of a tanh."""


def _run() -> Iterator[Measured]:
    """Yield what unrolling says of gradients, memory, waiting and the width of the state."""
    model = _model("elman")
    kept = [_numbers_kept(model, steps) for steps in (100, 200, 900, 1000)]
    yield Measured(
        "004-05",
        [
            _parameters_used(model, 1000) / _parameters_used(model, 100),
            kept[1] > kept[0],
            (kept[3] - kept[2]) / (kept[1] - kept[0]),
        ],
        "parameters met in 1,000 tokens over those in 100; whether more is kept for the backward "
        "pass; what tokens 901 to 1,000 add to it over what tokens 101 to 200 do",
    )
    yield Measured("004-06", _contributions(), f"{_STEPS} copies of the recurrent matrix")
    yield Measured("004-07", _factors(), f"factors over {_STEPS} steps; differences, in float64")
    yield Measured(
        "004-21",
        [_longest_wait(_model("elman"), 1000), _waits_alike("transformer")],
        "tanh in a row behind the last state of 1,000 tokens; whether attention's chain is as long "
        "at 40 tokens as at 10",
    )
    widths = [_state_width(_model(kind), steps) for kind in ("elman", "lstm") for steps in (9, 900)]
    yield Measured(
        "004-22",
        [*widths, _goes_on_alike(_model("elman"))],
        f"numbers in the state of {_UNITS} units after 9 and 900 tokens, of an Elman network and "
        "an LSTM; whether the state alone continues as the whole text does",
    )


def _model(kind: str) -> LanguageModel:
    settings = ModelSettings(
        kind=kind,  # type: ignore[arg-type]  # literals of this file
        embedding_size=_UNITS,
        hidden_size=_UNITS if kind != "transformer" else 8,
        num_heads=2,
        context_length=64,
    )
    return new_language_model(settings, _IDS, generator(1, "initialisation")).double()


def _ids(num_steps: int) -> Tensor:
    return torch.randint(0, _IDS, (1, num_steps), generator=generator(1, "order"))


def _numbers_kept(model: LanguageModel, num_steps: int) -> int:
    """Return how many numbers, parameters apart, autograd keeps of the loss of so many tokens."""
    parameters = {parameter.data_ptr() for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in parameters:
            kept[tensor.data_ptr()] = tensor  # held, so that no address is used twice
        return tensor

    ids_BT = _ids(num_steps + 1)
    plan = KernelPlan("reference")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = model(ids_BT[:, :-1], plan=plan)
        token_loss(output.states_BTH, output.readout, ids_BT[:, 1:], plan=plan)
    return sum(tensor.numel() for tensor in kept.values())


def _parameters_used(model: LanguageModel, num_steps: int) -> int:
    """Return how many parameters have a gradient after a loss of so many tokens."""
    ids_BT = _ids(num_steps + 1)
    output = model(ids_BT[:, :-1], plan=KernelPlan("reference"))
    loss = token_loss(output.states_BTH, output.readout, ids_BT[:, 1:]).nats
    slopes = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return sum(slope.numel() for slope in slopes if slope is not None)


def _cell() -> tuple[ElmanCell, Tensor, CellState]:
    """Return a cell of random weights, its inputs and a random state, all float64."""
    draws = generator(1, "initialisation")
    cell = ElmanCell(3, _UNITS)
    cell.initialise(draws)
    x_BTE = torch.randn(2, _STEPS, 3, generator=draws, dtype=torch.float64)
    h_BH = torch.rand(2, _UNITS, generator=draws, dtype=torch.float64)
    return cell.double(), x_BTE, cell.pack_state([h_BH])


def _contributions() -> list[float]:
    """Return how many steps add to the gradient of W, and how far their sum is from it."""
    cell, x_BTE, state = _cell()
    _, after = recur(cell, x_BTE, state, None, plan=KernelPlan("reference"))
    (whole,) = torch.autograd.grad(after[0].square().sum(), cell.weight_hh)
    parts_THH = _parts(cell, x_BTE, state)
    adding = int(parts_THH.flatten(1).any(1).sum())
    return [adding, (parts_THH.sum(0) - whole).abs().max().item()]


def _parts(cell: ElmanCell, x_BTE: Tensor, state: CellState) -> Tensor:
    """Return the gradient of the same loss by W at each step, each having a copy of its own."""
    with torch.no_grad():
        copies = [cell.weight_hh.clone().requires_grad_() for _ in range(_STEPS)]
    for x_BE, copy in zip(x_BTE.unbind(1), copies, strict=True):
        state = cell.with_weights({"weight_hh": copy}).step(x_BE, state)
    return torch.stack(torch.autograd.grad(state[0].square().sum(), copies))


def _factors() -> list[float]:
    """Return the factors from step 1 to the last, and how far product and factor are off.

    Their product is held against the Jacobian of the whole, as a share of its largest number; each
    of them against diag(1 − h²) W.
    """
    cell, x_BTE, state = _cell()
    x_BTE, state = x_BTE[:1], cell.step(x_BTE[:1, 0], cell.pack_state([state[0][:1]]))
    with torch.no_grad():
        first_H = state[0][0].clone()

    def run(h_H: Tensor) -> Tensor:
        begun = cell.pack_state([h_H.unsqueeze(0)])
        _, after = recur(cell, x_BTE[:, 1:], begun, None, plan=KernelPlan("reference"))
        return after[0][0]

    h_H, product_HH, off, num_factors = first_H, torch.eye(_UNITS, dtype=torch.float64), 0.0, 0
    for x_E in x_BTE[0, 1:]:
        factor_HH = _step_jacobian(cell, x_E, h_H)
        with torch.no_grad():
            h_H = cell.step(x_E.unsqueeze(0), cell.pack_state([h_H.unsqueeze(0)]))[0][0]
            told_HH = torch.diag(1.0 - h_H.square()) @ cell.weight_hh
        off = max(off, (factor_HH - told_HH).abs().max().item())
        product_HH, num_factors = factor_HH @ product_HH, num_factors + 1
    whole_HH = _jacobian(run, first_H)
    size = whole_HH.abs().max()
    return [num_factors, ((product_HH - whole_HH).abs().max() / size).item(), off]


def _step_jacobian(cell: ElmanCell, x_E: Tensor, h_H: Tensor) -> Tensor:
    """Return ∂h_t/∂h_{t−1} of one step, by autograd."""

    def step(h_H: Tensor) -> Tensor:
        return cell.step(x_E.unsqueeze(0), cell.pack_state([h_H.unsqueeze(0)]))[0][0]

    return _jacobian(step, h_H)


def _jacobian(step: Callable[[Tensor], Tensor], h_H: Tensor) -> Tensor:
    """Return the derivative of `step` by the state h_H [H], a row for each unit, by autograd."""
    with torch.no_grad():
        begun_H = h_H.clone()
    after_H = step(begun_H.requires_grad_())
    rows = [torch.autograd.grad(one, begun_H, retain_graph=True)[0] for one in after_H]
    return torch.stack(rows)


def _longest_wait(model: LanguageModel, num_steps: int, node: str = _SQUASHED) -> int:
    """Return the most nodes of a kind that stand one behind another under the last state."""
    output = model(_ids(num_steps), plan=KernelPlan("reference"))
    return _longest_chain(output.states_BTH[0, -1].sum().grad_fn, node)


def _waits_alike(kind: str) -> bool:
    model = _model(kind)
    return _longest_wait(model, 10, "") == _longest_wait(model, 40, "")


def _longest_chain(root: Any, name: str) -> int:
    """Return the most nodes called `name`, "" for all, on a way from `root` to a leaf."""
    longest: dict[Any, int] = {}
    waiting = [(root, False)]
    while waiting:
        node, is_left = waiting.pop()
        behind = [following for following, _ in node.next_functions if following is not None]
        if is_left:
            most = max((longest[following] for following in behind), default=0)
            longest[node] = most + (name in ("", node.name()))
        elif node not in longest:
            waiting.append((node, True))
            waiting += [(following, False) for following in behind if following not in longest]
    return longest[root]


def _state_width(model: LanguageModel, num_steps: int) -> int:
    with torch.no_grad():
        state = model(_ids(num_steps), plan=KernelPlan("reference")).state
    return sum(part.numel() for cell_state in state for part in cell_state)


def _goes_on_alike(model: LanguageModel) -> bool:
    """Return whether two texts of one state have one future: the second is read by its state."""
    ids_BT, plan = _ids(60), KernelPlan("reference")
    with torch.no_grad():
        whole_BTH = model(ids_BT, plan=plan).states_BTH[:, 40:]
        state = model(ids_BT[:, :40], plan=plan).state
        rest_BTH = model(ids_BT[:, 40:], state, plan=plan).states_BTH
    return torch.equal(whole_BTH, rest_BTH)


def _draw(path: Path) -> None:
    """Draw parameters and memory against length, and the shares of the steps in one gradient."""
    draw_panels(path, [_memory_panel, _share_panel])


def _memory_panel(axes: Any) -> None:
    lengths = (10, 20, 50, 100, 200, 500, 1000)
    model = _model("elman")
    kept = [_numbers_kept(model, length) for length in lengths]
    axes.plot(lengths, kept, marker="o", label="kept for the backward pass")
    axes.plot(lengths, [model.parameter_count()] * len(lengths), marker="o", label="parameters")
    axes.set(xscale="log", yscale="log", xlabel="tokens, T", ylabel="numbers")
    axes.set_title("parameters stay, memory grows with T")


def _share_panel(axes: Any) -> None:
    parts_THH = _parts(*_cell())
    axes.bar(range(1, _STEPS + 1), parts_THH.flatten(1).norm(dim=1).tolist())
    axes.set(yscale="log", xlabel="step t", ylabel="‖dL/dW_t‖, loss at the last step")
    axes.set_title("one gradient is a sum over the steps")


UNROLLING = Experiment(
    "unrolling",
    "a recurrence unrolled is a deep network with one set of weights",
    "document 004, 2.1, 2.3, 3.1 and 5",
    _run,
    _draw,
)
