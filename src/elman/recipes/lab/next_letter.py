"""Reading a word and predicting its next letter, from the mark [S] to the mark [S].

    inputs [S] x_1 … x_T;  targets x_1 … x_T [S];  L = −Σ_{t=0}^{T} log p(x_{t+1} | x_0 … x_t)

One position lies between an input and its target; T letters make T + 1 terms. All steps use one
set of weights, whose gradient is the sum of those of separate copies.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elman.config.training_settings import TrainingSettings
from elman.data.batches import TokenBatch
from elman.data.lines import LineBatches
from elman.data.token_array import join_lines
from elman.kernels.dispatch import KernelPlan
from elman.losses import token_nats
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.instruments import count_steps, letter_tokenizer, small_language_model
from elman.recipes.panels import draw_panels
from elman.seeding import generator
from elman.text.tokenizer import Tokenizer
from elman.training.language_objective import LanguageObjective

_WORD = "ada"
_SIZES = ("model.kind=elman", "model.hidden_size=6", "model.embedding_size=3")


def _run() -> Iterator[Measured]:
    """Yield the two rows of the word, the steps, shapes and terms of its loss."""
    tokenizer, batch = _word_batch()
    inputs, targets = (_spelled(tokenizer, ids_BT) for ids_BT in (batch.ids_BT, batch.targets_BT))
    shift = next(n for n in range(1, len(inputs)) if targets[:-n] == inputs[n:])
    how = f"the product's batch of the one line {_WORD!r}"
    yield Measured("000-01", [inputs, targets, len(inputs), shift], how)
    steps, sets, losses, apart = _steps_of_one_set(tokenizer, batch)
    yield Measured(
        "000-02",
        [steps, sets, losses, apart],
        "calls of the cell, weights that they used, losses; greatest difference between the "
        "gradient of the one set and the sum over a copy for each step",
    )
    model = _model(tokenizer)
    cell = model.stack.cell(0)
    assert cell.bias_ih is not None
    tensors = (cell.weight_hh, cell.weight_ih, cell.bias_ih, model.readout.weight)
    yield Measured(
        "000-03",
        [list(tensor.shape) for tensor in (*tensors, model.readout.bias)],
        f"a model with d_h = 6, d_e = 3 and V = {len(tokenizer)}: W_h, W_x, b, W_o, b_o",
    )
    terms, loss = _terms(model, batch), _loss(model, batch)
    yield Measured(
        "000-05",
        [len(terms), loss[1], sum(terms) - loss[0]],
        "terms, targets counted by the loss, and the sum of terms, each of a prefix read by "
        "itself, less the loss of the whole line",
    )


def _word_batch() -> tuple[Tokenizer, TokenBatch]:
    tokenizer = letter_tokenizer(_WORD)
    assert tokenizer.vocabulary.boundary_id is not None
    assert tokenizer.vocabulary.pad_id is not None
    lines = LineBatches(
        join_lines([tokenizer.encode(_WORD)], len(tokenizer)),
        batch_size=1,
        boundary_id=tokenizer.vocabulary.boundary_id,
        pad_id=tokenizer.vocabulary.pad_id,
        seed=1,
        order="stored",
    )
    return tokenizer, lines.batch(0, 0)


def _model(tokenizer: Tokenizer) -> RecurrentLanguageModel:
    return small_language_model(len(tokenizer), 1, (*_SIZES, "model.bias=one"))


def _spelled(tokenizer: Tokenizer, ids_BT: Tensor) -> list[str]:
    return [tokenizer.vocabulary.symbols[number] for number in ids_BT[0].tolist()]


def _loss(model: RecurrentLanguageModel, batch: TokenBatch) -> tuple[float, int]:
    """Return the loss that training minimises, in nats, and its number of targets."""
    objective = LanguageObjective(model, TrainingSettings())
    draw = generator(1, "dropout")
    loss = objective.loss(batch, None, plan=KernelPlan("reference"), generator=draw).loss.plain
    return loss.nats.item(), loss.count


def _terms(model: RecurrentLanguageModel, batch: TokenBatch) -> list[float]:
    """Return −log p of each target, after a forward pass over the inputs up to it alone."""
    terms = []
    for stop in range(1, batch.ids_BT.shape[1] + 1):
        output = model(batch.ids_BT[:, :stop], plan=KernelPlan("reference"))
        last_B1H, target_B1 = output.states_BTH[:, -1:], batch.targets_BT[:, stop - 1 : stop]
        terms.append(token_nats(last_B1H, output.readout, target_B1).item())
    return terms


def _steps_of_one_set(tokenizer: Tokenizer, batch: TokenBatch) -> tuple[int, int, int, float]:
    """Return steps, sets of weights, losses, and how far the sum over copies is from the whole."""
    model = _model(tokenizer)
    counted = count_steps(model)[0]
    output = model(batch.ids_BT, plan=KernelPlan("reference"))
    nats_BT = token_nats(output.states_BTH, output.readout, batch.targets_BT)
    weights = dict(counted.named_parameters())
    whole = torch.autograd.grad(nats_BT.sum(), list(weights.values()))
    copies = [
        {name: weight.clone() for name, weight in weights.items()} for _ in range(nats_BT.shape[1])
    ]
    assert model.embedding is not None
    state, states = counted.zero_state(1), []
    for x_BE, copy in zip(model.embedding(batch.ids_BT).unbind(1), copies, strict=True):
        state = counted.with_weights(copy).step(x_BE, state)
        states.append(state[0])
    nats_again_BT = token_nats(torch.stack(states, dim=1), output.readout, batch.targets_BT)
    apart = torch.autograd.grad(
        nats_again_BT.sum(), [tensor for copy in copies for tensor in copy.values()]
    )
    width, most = len(weights), 0.0
    for place, total in enumerate(whole):
        most = max(most, (sum(apart[place::width]) - total).abs().max().item())
    used = counted.used[: nats_BT.shape[1]]
    return len(used), len(set(used)), nats_BT.numel(), most


def _draw(path: Path) -> None:
    """Draw the unrolled steps on the word: inputs, states and what each target costs."""
    draw_panels(path, [_unrolled])


def _unrolled(axes: Any) -> None:
    tokenizer, batch = _word_batch()
    model = _model(tokenizer)
    with torch.no_grad():
        output = model(batch.ids_BT, plan=KernelPlan("reference"))
        nats_T = token_nats(output.states_BTH, output.readout, batch.targets_BT)[0].tolist()
    states_HT = output.states_BTH[0].T.numpy()
    inputs, targets = _spelled(tokenizer, batch.ids_BT), _spelled(tokenizer, batch.targets_BT)
    units, steps = states_HT.shape
    for step in range(steps):
        axes.pcolormesh(
            [step - 0.25, step + 0.25],
            [unit / units for unit in range(units + 1)],
            states_HT[:, step : step + 1],
            cmap="RdBu",
            vmin=-1,
            vmax=1,
            edgecolor="white",
        )
        axes.text(step, -0.45, inputs[step], ha="center", va="center")
        axes.text(step, 1.45, targets[step], ha="center", va="center", weight="bold")
        axes.text(step, 1.68, f"{nats_T[step]:.2f} nats", ha="center", va="center", color="0.4")
        for low, high in ((-0.33, -0.04), (1.04, 1.33)):
            _arrow(axes, (step, low), (step, high))
        if step + 1 < steps:
            _arrow(axes, (step + 0.28, 0.5), (step + 0.72, 0.5))
    axes.set(xlim=(-0.6, steps - 0.4), ylim=(-0.7, 1.9), yticks=[], xticks=[])
    axes.set_title("one cell, four uses: input below, state, target above", fontsize=10)
    axes.spines[["left", "bottom"]].set_visible(False)


def _arrow(axes: Any, start: tuple[float, float], stop: tuple[float, float]) -> None:
    axes.annotate("", stop, start, arrowprops={"arrowstyle": "->", "color": "0.3"})


NEXT_LETTER = Experiment(
    "next-letter",
    "the shift by one position, the mark [S], and one set of weights for all steps",
    "document 000, Read a token and Shared weights, figure 1",
    _run,
    _draw,
)
