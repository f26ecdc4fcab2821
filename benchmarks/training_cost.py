"""What a training step costs by the length of its text: parameters, time and memory against T.

    python benchmarks/training_cost.py [--longest 2048] [--threads 2] [--picture FILE]

A GRU, a fixed window that sees all T tokens, and a Transformer that does, of one width, read T
characters in 8 lanes and go back through all of them. Memory is that of what the backward pass
needs: the bytes of all tensors that autograd keeps, each storage once, parameters left out; it is
counted, not sampled. Below stand the same bytes for writing T characters one by one, with the graph
recorded and without, where the state is all that is kept. Times are the least of several.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import StackState
from elman.losses import token_loss
from elman.models.language import LanguageModel
from elman.models.language_models import new_language_model

VOCABULARY, WIDTH, LANES, REPEATS = 128, 256, 8, 3
KINDS = ("gru", "window", "transformer")


def model_for(kind: str, length: int) -> LanguageModel:
    """A model of `kind` that sees `length` tokens, or all where it is recurrent."""
    settings: dict[str, Any] = {"kind": kind, "hidden_size": WIDTH, "embedding_size": 64}
    if kind != "gru":
        settings["context_length"] = length
    if kind == "transformer":
        settings["num_layers"] = 2
    return new_language_model(
        ModelSettings(**settings), VOCABULARY, torch.Generator().manual_seed(1)
    )


@contextmanager
def bytes_kept(model: LanguageModel) -> Iterator[Callable[[], int]]:
    """Count the storages that autograd keeps inside the block, but for the parameters."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield lambda: sum(kept.values())


def training_step(model: LanguageModel, length: int) -> tuple[float, int]:
    """Return the least seconds of forward and backward, and the bytes kept between them."""
    ids_BT = torch.randint(
        0, VOCABULARY, (LANES, length + 1), generator=torch.Generator().manual_seed(2)
    )
    found = []
    for _ in range(1 + REPEATS):
        started = time.perf_counter()
        with bytes_kept(model) as count:
            output = model(ids_BT[:, :-1], plan=KernelPlan())
            loss = token_loss(output.states_BTH, output.readout, ids_BT[:, 1:])
            kept = count()
        loss.mean().backward()
        found.append(time.perf_counter() - started)
    return min(found[1:]), kept


def written(model: LanguageModel, length: int, *, graph: bool) -> int:
    """Return the bytes kept after `length` characters, each chosen from the one before."""
    ids_BT = torch.zeros(1, 1, dtype=torch.int64)
    state: StackState | None = None
    with torch.set_grad_enabled(graph), bytes_kept(model) as count:
        for _ in range(length):
            output = model(ids_BT, state, plan=KernelPlan())
            state = output.state
            ids_BT = output.readout.logits(output.states_BTH).argmax(dim=2)
        kept = count()
    assert state is not None
    return kept + sum(part.numel() * part.element_size() for each in state for part in each)


def draw(rows: dict[str, dict[int, tuple[float, int]]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, place, unit, scale in (
        (panels[0], 0, "milliseconds of a training step", 1e3),
        (panels[1], 1, "MiB kept for the way back", 2**-20),
    ):
        for kind, row in rows.items():
            axes.plot(list(row), [scale * each[place] for each in row.values()], "o-", label=kind)
        axes.set(xscale="log", yscale="log", xlabel="tokens in a window (T)", ylabel=unit)
        axes.grid(color="#dddddd", lw=0.6)
    panels[0].legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--longest", type=int, default=2_048)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    lengths = [length for length in (8, 32, 128, 512, 1_024, 2_048) if length <= args.longest]
    table = Table(box=None)
    for title in ("T", *(f"{kind}{unit}" for kind in KINDS for unit in (" params", " ms", " MiB"))):
        table.add_column(title, justify="right")
    rows: dict[str, dict[int, tuple[float, int]]] = {kind: {} for kind in KINDS}
    for length in lengths:
        cells = [f"{length:,}"]
        for kind in KINDS:
            model = model_for(kind, length)
            seconds, kept = rows[kind][length] = training_step(model, length)
            cells += [f"{model.parameter_count():,}", f"{1e3 * seconds:.1f}", f"{kept / 2**20:.1f}"]
        table.add_row(*cells)
    console = Console(width=120)
    console.print(table)
    writing = Table(box=None)
    for title in ("characters written", "KiB with the graph", "KiB without"):
        writing.add_column(title, justify="right")
    for length in (10, 100, 1_000):
        model = model_for("gru", length)
        sizes = [written(model, length, graph=graph) / 2**10 for graph in (True, False)]
        writing.add_row(f"{length:,}", *(f"{size:,.1f}" for size in sizes))
    console.print(writing)
    if args.picture:
        draw(rows, args.picture)


if __name__ == "__main__":
    main()
