"""One step of a plain recurrent cell, from the vector of a token to the next token fed back.

    a_t = W_x x_t + W_h h_{t−1} + b;  h_t = f(a_t);  logits z_t = W_o h_t + b_o

The worked steps are those of the cell, the readout, the loss and the generator that are trained and
used, with the matrices of the page put in. Training feeds the recorded token back, generation the
one it has chosen.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elman.cells.elman import Activation, ElmanCell
from elman.cells.supplied import supply
from elman.config.model_settings import ModelSettings
from elman.data.streams import StreamBatches
from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import Generation
from elman.decoding.sampling import choose_greedy, widen
from elman.kernels.dispatch import KernelPlan
from elman.layers.embedding import Embedding, one_hot_inputs
from elman.layers.readout import Readout
from elman.layers.recurrence import recur
from elman.losses import token_nats
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.lab.experiment import Experiment, Measured, Value
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_PLAN = KernelPlan("reference")


def _run() -> Iterator[Measured]:
    """Yield lookups, the scalar steps, and the traced step with its two ways on."""
    yield _lookup()
    yield _shapes()
    yield _tanh()
    yield Measured(
        "001-13", _scalar(2.0, 0.5, 3.0, 4.0, "identity")[1], "an identity cell of one unit"
    )
    readout = Readout(2, 2).double()
    with torch.no_grad():
        readout.weight.copy_(torch.eye(2))
    logits_V = readout.logits(torch.tensor([1.0, 2.0], dtype=torch.float64))
    yield Measured("001-14", logits_V.tolist(), "a readout whose matrix is the identity")
    a, squashed = _scalar(1.0, 1.0, 2.0, 1.0, "tanh")
    kept = _scalar(1.0, 1.0, 2.0, 1.0, "identity")[1]
    yield Measured("001-15", [a, squashed, kept], "preactivation, tanh cell, identity cell")
    yield _alignment()
    yield from _traced()


def _lookup() -> Measured:
    """Return the size of a lookup, and how far it is from the product with one-hot codes."""
    table = Embedding(7, 3).double()
    table.initialise(generator(1, "initialisation"))
    ids_BT = torch.tensor([[0, 3, 6, 3, 1], [5, 5, 2, 0, 4]])
    looked_up_BTE = table(ids_BT)
    product_BTE = one_hot_inputs(ids_BT, 7, torch.float64) @ table.weight
    difference = (looked_up_BTE - product_BTE).abs().max().item()
    how = "a table of 7 vectors of width 3: size of the lookup, distance from the product"
    return Measured("001-04", [list(looked_up_BTE.shape), difference], how)


def _shapes() -> Measured:
    cell = ElmanCell(3, 4, bias="one")
    sizes = [list(weight.shape) for weight in cell.weights]
    return Measured("001-11", sizes, "the weights of a cell of D = 3 and H = 4 with one bias")


def _tanh() -> Measured:
    """Return the cell's function at −2 … 2, and whether it stays within (−1, 1) up to ±15."""
    values = _activated(torch.arange(-2.0, 3.0, dtype=torch.float64))
    far = _activated(torch.linspace(-15.0, 15.0, 3001, dtype=torch.float64))
    is_within = bool((far.abs() < 1.0).all())
    how = "a tanh cell's state from the preactivations −2 … 2, and all of −15 … 15 within (−1, 1)"
    return Measured("001-12", [*values.tolist(), is_within], how)


def _activated(a_N: Tensor) -> Tensor:
    cell = ElmanCell(1, 1, activation="tanh")
    return cell.combine({"preactivation": a_N.unsqueeze(1)}, cell.zero_state(len(a_N)))[0][:, 0]


def _scalar(
    weight_x: float, weight_h: float, x: float, h: float, activation: Activation
) -> tuple[float, float]:
    """Return preactivation and state of one unit after one step."""
    cell = ElmanCell(1, 1, activation=activation, bias="none").double()
    supply(cell, {"weight_ih": _row(weight_x), "weight_hh": _row(weight_h)}, acts_on="columns")
    state = cell.pack_state([_row(h)])
    preactivation = cell.gates(_row(x), state)["preactivation"]
    _, after = recur(cell, _row(x).unsqueeze(1), state, None, plan=_PLAN)
    return preactivation.item(), after[0].item()


def _row(*numbers: float) -> Tensor:
    return torch.tensor([numbers], dtype=torch.float64)


def _alignment() -> Measured:
    """Return what stands opposite what in a stream of 4, 8, 9, and whether generation must see 8.

    The model's readout is bent towards token 2, so that its own choice after 4 is not the recorded
    one; what it does next is what it would do after 4, 2.
    """
    batch = StreamBatches(torch.tensor([4, 8, 9]).numpy(), batch_size=1, window=2).batch(0, 0)
    settings = ModelSettings(kind="elman", embedding_size=4, hidden_size=4)
    model = RecurrentLanguageModel(settings, 10, generator(1, "initialisation"))
    with torch.no_grad():
        model.readout.bias[2] = 5.0
    request = Generation(model, SamplingSettings(temperature=0.0), plan=_PLAN)
    request.feed([4])
    chosen = request.step()
    request.step()
    after = request.state().model_state
    assert after is not None
    own, recorded = (model(torch.tensor([[4, fed]]), plan=_PLAN).state for fed in (chosen, 8))
    reads_own = torch.equal(after[0][0], own[0][0])
    reads_recorded = torch.equal(after[0][0], recorded[0][0])
    inputs, targets = batch.ids_BT[0].tolist(), batch.targets_BT[0].tolist()
    value: list[Value] = [inputs, targets, reads_own, reads_recorded]
    how = "inputs and targets of a window; generation has read its own choice; the recorded token"
    return Measured("001-16", value, how)


def _traced() -> Iterator[Measured]:
    """Yield the step of §15.6: preactivation, state, probabilities, and the two next steps."""
    model, before = _two_tokens()
    cell = model.stack.cell(0)
    a_BH = cell.gates(_row(1.0, 0.0), before)["preactivation"]
    yield Measured("001-36", a_BH[0].tolist(), "the preactivation of token 0")
    output = model(torch.tensor([[0]]), (before,), plan=_PLAN)
    state_H = output.state[0][0][0]
    yield Measured("001-37", state_H.tolist(), "the state after token 0")
    logits_V = output.readout.logits(output.states_BTH)[0, 0]
    nats = token_nats(output.states_BTH, output.readout, torch.tensor([[1]])).item()
    chosen = choose_greedy(widen(logits_V))
    value = [*logits_V.softmax(dim=0).tolist(), nats, chosen]
    yield Measured("001-38", value, "the softmax, the loss of the recorded token 1, greedy choice")
    fed, states = [], []
    for token in (1, chosen):
        ids_BT = torch.tensor([[token]])
        fed.append(one_hot_inputs(ids_BT, 2, torch.float64)[0, 0].tolist())
        states.append(model(ids_BT, output.state, plan=_PLAN).state[0][0][0])
    yield Measured(
        "001-39",
        [*fed, states[0].tolist(), states[1].tolist()],
        "what is fed after the recorded token 1 and after the greedy one, and the states after",
    )


def _two_tokens() -> tuple[RecurrentLanguageModel, tuple[Tensor, ...]]:
    """Return the model of two tokens, one-hot inputs, W_x = I, W_h = 0.2 I, and h = (0.5, −0.5)."""
    settings = ModelSettings(kind="elman", input="one-hot", hidden_size=2, bias="none")
    model = RecurrentLanguageModel(settings, 2, generator(1, "initialisation")).double()
    identity = torch.eye(2, dtype=torch.float64)
    cell = model.stack.cell(0)
    supply(cell, {"weight_ih": identity, "weight_hh": 0.2 * identity}, acts_on="columns")
    with torch.no_grad():
        model.readout.weight.copy_(identity)
    return model, cell.pack_state([_row(0.5, -0.5)])


def _draw(path: Path) -> None:
    """Draw both activations over the preactivation, and the two ways on from one state."""
    draw_panels(path, [_functions, _ways_on])


def _functions(axes: Any) -> None:
    a_N = torch.linspace(-4.0, 4.0, 201, dtype=torch.float64)
    axes.plot(a_N, _activated(a_N), label="tanh cell")
    axes.plot(a_N, a_N, linestyle="--", label="identity cell")
    axes.plot([3.0], _activated(torch.tensor([3.0])), "o", color="black")
    axes.annotate("0.995", (3.0, 1.0), (2.4, 1.25))
    axes.set(xlabel="preactivation", ylabel="state", ylim=(-1.6, 1.6))


def _ways_on(axes: Any) -> None:
    model, before = _two_tokens()
    for label, tokens, style in (
        ("recorded tokens 0, 1, 0, 1, 0", [0, 1, 0, 1, 0], "o-"),
        ("its own greedy choices", None, "s-"),
    ):
        path = _walk(model, before, tokens)
        axes.plot([h[0] for h in path], [h[1] for h in path], style, label=label)
    axes.text(0.47, -0.5, "both begin here", ha="right", va="center")
    axes.text(0.77, -0.1, "one state after token 0", ha="right", va="center")
    limits = {"xlim": (-0.1, 1.1), "ylim": (-0.65, 1.15)}
    axes.set(xlabel="first coordinate of the state", ylabel="second coordinate", **limits)


def _walk(
    model: RecurrentLanguageModel, before: tuple[Tensor, ...], tokens: Sequence[int] | None
) -> list[list[float]]:
    """Return the states after token 0 and four more: those given, or the model's own choices."""
    path, state, token = [before[0][0].tolist()], (before,), 0
    with torch.no_grad():
        for place in range(5):
            token = token if tokens is None else tokens[place]
            output = model(torch.tensor([[token]]), state, plan=_PLAN)
            state = output.state
            path.append(state[0][0][0].tolist())
            token = choose_greedy(widen(output.readout.logits(output.states_BTH)[0, 0]))
    return path


PLAIN_STEPS = Experiment(
    "plain-steps",
    "one step of a plain cell, its readout, its loss and what is fed back",
    "document 001, 15.1, 15.2, 15.6",
    _run,
    _draw,
)
