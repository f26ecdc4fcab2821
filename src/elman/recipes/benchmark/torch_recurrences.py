"""torch's own recurrent modules with a cell's weights, in every setting that may be their best."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from elman.cells.cell import Cell
from elman.recipes.benchmark.machine import wait_for
from elman.recipes.benchmark.rows import Mode
from elman.recipes.benchmark.timing import Contender

Layout = Literal["batch first", "time first"]

BUILDERS: Mapping[str, Callable[[int, bool], nn.RNNBase]] = MappingProxyType(
    {
        "elman/tanh": lambda H, first: nn.RNN(H, H, nonlinearity="tanh", batch_first=first),
        "elman/relu": lambda H, first: nn.RNN(H, H, nonlinearity="relu", batch_first=first),
        "gru/after/keep": lambda H, first: nn.GRU(H, H, batch_first=first),
        "lstm": lambda H, first: nn.LSTM(H, H, batch_first=first),
    }
)
"""Key of a cell → the module of the same equations."""

_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class TorchRecurrence:
    """One problem as torch solves it: x_BTE through a module with the weights of `cell`.

    Input and gradient are laid out beforehand as the module takes them, so that no time goes into
    turning them around. With `lengths_B` the rows are packed; the module then sees valid steps
    alone. `dtype` other than float32 casts weights and inputs beforehand.
    """

    def __init__(
        self,
        cell: Cell,
        x_BTE: Tensor,
        gradient_BTH: Tensor,
        *,
        layout: Layout = "batch first",
        lengths_B: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        first = layout == "batch first"
        self._first, self._lengths_B = first, lengths_B
        self.module = BUILDERS[cell.key](cell.hidden_size, first).to(x_BTE.device)
        with torch.no_grad():
            for name in _NAMES:
                getattr(self.module, f"{name}_l0").copy_(getattr(cell, name))
        self.module.to(dtype)
        with torch.no_grad():
            x = x_BTE if first else x_BTE.transpose(0, 1).contiguous()
            gradient = gradient_BTH if first else gradient_BTH.transpose(0, 1).contiguous()
            self._x = x.to(dtype, copy=True).requires_grad_()
            self._gradient = gradient.to(dtype)

    def values(self, mode: Mode) -> list[Tensor]:
        """Return states [B, T, H], final state [B, H] …, and in training all gradients.

        Gradients are those of the input, then of the four weights. Once, whole, as Elman's own.
        """
        self.module.train(mode == "training")
        states, state = self._run()
        made = [states if self._first else states.transpose(0, 1)]
        made += [part.squeeze(0) for part in (state if isinstance(state, tuple) else (state,))]
        if mode == "training":
            x, *weights = self._backward(states)
            made += [x if self._first else x.transpose(0, 1), *weights]
        return made

    def call(self, mode: Mode) -> Callable[[], object]:
        """Return the work of one timed call, which leaves everything as it was."""
        self.module.train(mode == "training")
        device = self._x.device

        def forward() -> object:
            made = self._run()
            wait_for(device)
            return made

        def training() -> object:
            made = self._backward(self._run()[0])
            wait_for(device)
            return made

        return training if mode == "training" else forward

    def _run(self) -> tuple[Tensor, Tensor | tuple[Tensor, Tensor]]:
        if self._lengths_B is None:
            states, state = self.module(self._x)
            return states, state
        packed = pack_padded_sequence(
            self._x, self._lengths_B, batch_first=self._first, enforce_sorted=False
        )
        packed_states, state = self.module(packed)
        assert isinstance(packed_states, PackedSequence)
        time_axis = 1 if self._first else 0
        states, _ = pad_packed_sequence(
            packed_states, batch_first=self._first, total_length=self._x.shape[time_axis]
        )
        return states, state

    def _backward(self, states: Tensor) -> tuple[Tensor, ...]:
        weights = [getattr(self.module, f"{name}_l0") for name in _NAMES]
        return torch.autograd.grad(states, [self._x, *weights], self._gradient)


@contextmanager
def without_onednn() -> Iterator[None]:
    """Let torch leave oneDNN aside while the block runs."""
    set_flags: Callable[..., tuple[bool, ...]] = torch.backends.mkldnn.set_flags
    before, *_ = set_flags(_enabled=False)
    try:
        yield
    finally:
        set_flags(_enabled=before)


@contextmanager
def _both(
    first: Callable[[], AbstractContextManager[object]],
    second: Callable[[], AbstractContextManager[object]],
) -> Iterator[None]:
    with first(), second():
        yield


def contender(recurrence: TorchRecurrence, mode: Mode, *, onednn: bool) -> Contender:
    """Return the timed work of `recurrence`, with oneDNN or without it."""
    grad = nullcontext if mode == "training" else torch.no_grad
    if onednn:
        return Contender(recurrence.call(mode), grad)
    return Contender(recurrence.call(mode), lambda: _both(grad, without_onednn))


def settings_of_torch(
    cell: Cell, x_BTE: Tensor, gradient_BTH: Tensor, mode: Mode
) -> dict[str, Contender]:
    """Return every setting of torch's module for full rows: both layouts, with oneDNN and without.

    On a GPU there is no oneDNN, and cuDNN runs in all of them.
    """
    layouts: tuple[Layout, Layout] = ("batch first", "time first")
    made = {}
    for layout in layouts:
        recurrence = TorchRecurrence(cell, x_BTE, gradient_BTH, layout=layout)
        if x_BTE.device.type != "cpu":
            made[f"{layout}, cuDNN"] = contender(recurrence, mode, onednn=True)
            continue
        made[f"{layout}, oneDNN"] = contender(recurrence, mode, onednn=True)
        made[f"{layout}, no oneDNN"] = contender(recurrence, mode, onednn=False)
    return made
