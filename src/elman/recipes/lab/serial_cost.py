"""What a recurrence costs: steps that wait for one another, and what training keeps of them.

    the longest chain of dependent products from the first state to the last has T members: O(T)
    back-propagation keeps O(T) of what was computed; run again in blocks of K it keeps
    O(T / K + K), for one forward pass more

Nothing is timed: chains are counted in the graph that autograd records, bytes are those of tensors
that are alive, and work is the multiplications of the matrix products that were made.
"""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from elman.cells.cell import Cell
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import RecurrentStack, StackState
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.panels import draw_panels
from elman.seeding import generator

_PLAN = KernelPlan("reference")
_UNITS, _BATCH, _BLOCK = 16, 32, 8
_LENGTHS = (7, 14, 28)
_CELLS: tuple[tuple[str, Callable[[int, int], Cell]], ...] = (
    ("Elman", ElmanCell),
    ("GRU", GRUCell),
    ("LSTM", LSTMCell),
)


def _run() -> Iterator[Measured]:
    """Yield the lengths of chains, and how storage and work grow."""
    chains = [[_chain([make(3, 5)], steps)[0] for steps in _LENGTHS] for _, make in _CELLS]
    both = [_chain([LSTMCell(3, 5), LSTMCell(3, 5)], steps) for steps in _LENGTHS]
    wide = _chain([LSTMCell(30, 50)], _LENGTHS[0], batch_size=6)[0]
    yield Measured(
        "001-33",
        [*chains, *(list(way) for way in zip(*both, strict=True)), wide],
        "the longest chain of dependent products at 7, 14 and 28 steps: Elman, GRU, LSTM, each "
        "direction of an LSTM that reads both ways; at 7 steps with ten times the units, six rows",
    )
    half, whole = (_cost(steps, 0) for steps in (32, 64))
    blocks = _cost(64, _BLOCK)
    inference = [_cost(steps, 0, with_gradients=False).state_bytes for steps in (32, 64)]
    value = [
        whole.most_bytes / half.most_bytes,
        inference[1] / inference[0],
        blocks.work / whole.work,
        whole.most_bytes / blocks.most_bytes > 2.0,
    ]
    how = (
        "an LSTM of 16 units: most bytes alive at 64 steps over those at 32; bytes of the state "
        f"carried in inference, the same; work of blocks of {_BLOCK} run again over that of one "
        f"pass; whether they more than halve the bytes ({whole.most_bytes:,} to "
        f"{blocks.most_bytes:,})"
    )
    yield Measured("001-34", value, how)


def _chain(cells: Sequence[Cell], steps: int, *, batch_size: int = 2) -> tuple[int, ...]:
    """Return for each direction of a layer how many products lie between its first and last state.

    Only paths that lead from the last state to the first are counted, and the longest of them.
    """
    stack = RecurrentStack(list(cells), num_directions=len(cells))
    stack.initialise(generator(1, "initialisation"))
    state = tuple(
        cell.pack_state([part.requires_grad_() for part in cell.zero_state(batch_size)])
        for cell in cells
    )
    x_BTE = torch.zeros(batch_size, steps, cells[0].input_size)
    _, after = stack(x_BTE, state, None, plan=_PLAN)
    return tuple(_longest(final[0], first[0]) for first, final in zip(state, after, strict=True))


def _longest(last: Tensor, first: Tensor) -> int:
    """Return the most matrix products on one path of the graph from `last` back to `first`."""
    found: dict[Any, int | None] = {}

    def down(node: Any) -> int | None:
        if getattr(node, "variable", None) is first:
            return 0
        if node not in found:
            below = [down(before) for before, _ in node.next_functions if before is not None]
            lengths = [length for length in below if length is not None]
            own = int(node.name() in ("AddmmBackward0", "MmBackward0"))
            found[node] = max(lengths) + own if lengths else None
        return found[node]

    length = down(last.grad_fn)
    assert length is not None
    return length


class _Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Knows the most bytes held at one time by tensors made under it, and the work of products."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most_bytes, self.work = 0, 0
        self._held_bytes = 0
        self._held: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
            self.work += made.numel() * args[-1].shape[0]
        for tensor in made if isinstance(made, tuple | list) else (made,):
            if isinstance(tensor, Tensor):
                self._list(tensor.untyped_storage())
        return made

    def _list(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._held:
            self._held.add(key)
            self._held_bytes += size
            self.most_bytes = max(self.most_bytes, self._held_bytes)
            weakref.finalize(storage, self._strike, key, size)

    def _strike(self, key: int, size: int) -> None:
        self._held.discard(key)
        self._held_bytes -= size


class _Cost:
    """What one pass over a text, and the pass back, hold at most, carry on, and multiply."""

    def __init__(self, most_bytes: int, state: StackState, work: int) -> None:
        self.most_bytes, self.work = most_bytes, work
        self.state_bytes = sum(part.nbytes for cell_state in state for part in cell_state)


def _cost(steps: int, recompute: int, *, with_gradients: bool = True) -> _Cost:
    """Return the cost of one layer over `steps` inputs, run again in blocks of `recompute`."""
    stack = RecurrentStack([LSTMCell(_UNITS, _UNITS)])
    stack.initialise(generator(1, "initialisation"))
    x_BTE = torch.randn(_BATCH, steps, _UNITS, generator=generator(1, "sampling"))
    with torch.set_grad_enabled(with_gradients), _Ledger() as ledger:
        states_BTH, after = stack(x_BTE, None, None, plan=_PLAN, recompute=recompute)
        if with_gradients:
            states_BTH.square().sum().backward()
    return _Cost(ledger.most_bytes, after, ledger.work)


def _draw(path: Path) -> None:
    """Draw chains, bytes and work over the length of the text."""
    draw_panels(path, [_chains, _bytes, _works])


def _chains(axes: Any) -> None:
    lengths = (1, 4, 8, 16, 32)
    for (name, make), style in zip(_CELLS, ("o-", "s--", "^:"), strict=True):
        counts = [_chain([make(3, 5)], steps)[0] for steps in lengths]
        axes.plot(lengths, counts, style, label=name)
    axes.set(xlabel="steps T", ylabel="dependent products, first state to last")


def _bytes(axes: Any) -> None:
    lengths = (16, 32, 64)
    for label, recompute in (("all is kept", 0), ("blocks of 8 run again", 8)):
        most = [_cost(steps, recompute).most_bytes / 1024 for steps in lengths]
        axes.plot(lengths, most, "o-", label=label)
    carried = [_cost(steps, 0, with_gradients=False).state_bytes / 1024 for steps in lengths]
    axes.plot(lengths, carried, "o-", label="the state alone")
    axes.set(xlabel="steps T", ylabel="most KiB alive at one time", ylim=(0.0, None))


def _works(axes: Any) -> None:
    lengths = (16, 32, 64)
    for label, recompute in (("all is kept", 0), ("blocks of 8 run again", 8)):
        work = [_cost(steps, recompute).work / 1e6 for steps in lengths]
        axes.plot(lengths, work, "o-", label=label)
    axes.set(xlabel="steps T", ylabel="million multiplications")


SERIAL_COST = Experiment(
    "serial-cost",
    "steps that wait for one another, and what training keeps of them",
    "document 001, 15.5",
    _run,
    _draw,
)
