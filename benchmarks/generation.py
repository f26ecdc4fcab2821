"""Time generation beside three loops of torch, in one process, taking turns, as ratios of medians.

PYTHONPATH=src python benchmarks/generation.py [--threads 2] [--repeats 9] [--far 1000000]

The loops of torch are those a person writes: `nn.LSTM` one step at a time with oneDNN on, with it
off, and `LSTMCell`s; each with softmax and multinomial. Every row is one stream; the share is that
of the speed at which the same memory is read by as many threads.
"""

import argparse
import resource
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from elman.config.model_settings import ModelSettings
from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import Generation, row_choices
from elman.decoding.packing import pack_for_generation
from elman.kernels import native_module
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_generation import GeneratorRows, NativeGenerator, WeightPrecision
from elman.kernels.native_module import native_level
from elman.models.recurrent import RecurrentLanguageModel
from elman.seeding import generator

PRECISIONS: tuple[WeightPrecision, ...] = ("float32", "bfloat16", "int8")
NEAR = 10


class Shape(NamedTuple):
    """Symbols, units of the embedding and of two layers, tokens a turn of torch and of ours."""

    vocabulary: int
    units: int
    torch_tokens: int
    tokens: int


SHAPES = (Shape(65, 256, 100, 1000), Shape(33278, 200, 10, 60))


class Call(NamedTuple):
    """What is timed: `run` makes `tokens` tokens."""

    name: str
    run: Callable[[], None]
    tokens: int


def microseconds(calls: Sequence[Call], repeats: int) -> list[float]:
    """Return each call's median microseconds a token, all of them taking turns."""
    found: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call.run()
    for _ in range(repeats):
        for call, times in zip(calls, found, strict=True):
            start = time.perf_counter()
            call.run()
            times.append((time.perf_counter() - start) / call.tokens * 1e6)
    return [statistics.median(times) for times in found]


def random_model(shape: Shape) -> RecurrentLanguageModel:
    """Return an LSTM of two layers with logits that are not flat, as those of a trained one."""
    settings = ModelSettings(
        kind="lstm", embedding_size=shape.units, hidden_size=shape.units, num_layers=2
    )
    model = RecurrentLanguageModel(settings, shape.vocabulary, generator(1, "initialisation"))
    with torch.no_grad():
        model.readout.weight.mul_(20)
    return model


def torch_loops(model: RecurrentLanguageModel, shape: Shape) -> list[Call]:
    """Return the three loops, on the model's own weights."""
    assert model.embedding is not None
    embedding, units = model.embedding.weight, shape.units
    whole = nn.LSTM(units, units, 2, batch_first=True)
    cells = [nn.LSTMCell(units, units) for _ in range(2)]
    for layer, cell in enumerate(cells):
        ours = model.stack.cell(layer)
        cell.load_state_dict(ours.state_dict())
        names = {f"{name}_l{layer}": weight for name, weight in ours.state_dict().items()}
        whole.load_state_dict({**whole.state_dict(), **names})

    def pick(h_H: Tensor) -> Tensor:
        logits_V = nn.functional.linear(h_H, model.readout.weight, model.readout.bias)
        return torch.multinomial(torch.softmax(logits_V, 0), 1)

    def by_lstm(onednn: bool) -> None:
        ids, state = torch.zeros(1, 1, dtype=torch.long), None
        with torch.inference_mode(), torch.backends.mkldnn.flags(enabled=onednn):
            for _ in range(shape.torch_tokens):
                states, state = whole(nn.functional.embedding(ids, embedding), state)
                ids = pick(states[0, -1]).view(1, 1)

    def by_cells() -> None:
        ids, states = torch.zeros(1, dtype=torch.long), [None, None]
        with torch.inference_mode():
            for _ in range(shape.torch_tokens):
                x_BE = nn.functional.embedding(ids, embedding)
                for layer, cell in enumerate(cells):
                    states[layer] = cell(x_BE, states[layer])
                    x_BE = states[layer][0]
                ids = pick(x_BE[0])

    count = shape.torch_tokens
    return [
        Call("torch nn.LSTM, oneDNN on", lambda: by_lstm(True), count),
        Call("torch nn.LSTM, oneDNN off", lambda: by_lstm(False), count),
        Call("torch LSTMCell", by_cells, count),
    ]


def packed_as(model: RecurrentLanguageModel, precision: WeightPrecision) -> NativeGenerator:
    """Return the model packed; it always can be here."""
    packed, how = pack_for_generation(model, KernelPlan(), precision)
    assert packed is not None, how
    return packed


def stream(packed: NativeGenerator, sampling: SamplingSettings, name: str, tokens: int) -> Call:
    """Return a call that goes on with one stream of its own."""
    rows, choices = GeneratorRows(packed.zero_rows(1), [1]), row_choices([sampling])
    return Call(name, lambda: void(packed.generate(rows, choices, tokens)), tokens)


def void(_: object) -> None:
    """Forget what a call returns."""


def listened(model: RecurrentLanguageModel, packed: NativeGenerator, tokens: int) -> Call:
    """Return a call whose every token a Python function is told."""
    generation = Generation(model, SamplingSettings(), plan=KernelPlan(), packed=packed)
    generation.feed([1])
    return Call(
        "elman float32, told token by token",
        lambda: generation.run(tokens, lambda _: False),
        tokens,
    )


def gigabytes_a_second(size: int, num_threads: int, repeats: int = 5) -> float:
    """Return how fast `size` bytes are read again and again, each thread its part of them."""
    parts = [torch.ones(max(1024, size // 4 // num_threads)) for _ in range(num_threads)]
    sweeps = max(1, int(4e8 // size))
    best = 0.0
    for _ in range(repeats):
        workers = [
            threading.Thread(target=native_module.native.sweep, args=(part, sweeps, native_level()))
            for part in parts
        ]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        best = max(best, size * sweeps / (time.perf_counter() - start) / 1e9)
    return best


def compare(shape: Shape, num_threads: int, repeats: int) -> None:
    """Print a row for each loop of torch and each of Elman's ways."""
    model = random_model(shape)
    calls = torch_loops(model, shape)
    packed = {precision: packed_as(model, precision) for precision in PRECISIONS}
    plain = SamplingSettings()
    calls += [stream(packed[p], plain, f"elman {p}", shape.tokens) for p in PRECISIONS]
    for how in (SamplingSettings(top_k=40), SamplingSettings(top_p=0.9)):
        name = "top-k 40" if how.top_k else "top-p 0.9"
        calls.append(stream(packed["float32"], how, f"elman float32, {name}", shape.tokens))
    calls.append(listened(model, packed["float32"], shape.tokens))
    times = microseconds(calls, repeats)
    best = min(times[:3])
    print(f"\n2 x {shape.units} LSTM, {shape.vocabulary:,} symbols, {num_threads} threads\n")
    print("| loop | µs a token | tokens a second | times torch's best | MB a token | of reading |")
    print("| --- | --- | --- | --- | --- | --- |")
    for call, elapsed in zip(calls, times, strict=True):
        share = "|"
        if call.name.removeprefix("elman ") in PRECISIONS:
            size = packed[call.name.removeprefix("elman ")].weight_bytes  # type: ignore[index]
            reading, reached = gigabytes_a_second(size, num_threads), size / elapsed / 1e3
            part = f"{reached:.0f} of {reading:.0f} GB/s, {reached / reading:.0%}"
            share = f"{size / 1e6:.2f} | {part}"
        rates = f"{elapsed:.1f} | {1e6 / elapsed:,.0f} | {best / elapsed:.2f}"
        print(f"| {call.name} | {rates} | {share} |", flush=True)


def compare_batches(shape: Shape, repeats: int) -> None:
    """Print what a token costs among other streams."""
    packed = packed_as(random_model(shape), "float32")
    calls = []
    for count in (1, 4, 16):
        rows = GeneratorRows(packed.zero_rows(count), [1] * count)
        choices = row_choices([SamplingSettings(seed=n) for n in range(count)])
        tokens = max(8, shape.tokens // count)

        def run(rows=rows, choices=choices, tokens=tokens) -> None:  # type: ignore[no-untyped-def]
            packed.generate(rows, choices, tokens)

        calls.append(Call(f"{count} streams", run, tokens * count))
    found = microseconds(calls, repeats)
    told = ", ".join(f"{c.name} {t:.1f}" for c, t in zip(calls, found, strict=True))
    print(f"\nµs a token, float32, together: {told}")


def compare_positions(far: int, repeats: int) -> None:
    """Print what a token costs near the beginning and far from it, and the memory in between."""
    shape = SHAPES[0]
    packed = packed_as(random_model(shape), "float32")
    choices = row_choices([SamplingSettings()])
    rows = GeneratorRows(packed.zero_rows(1), [1])
    packed.generate(rows, choices, NEAR)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(far // 1000):
        packed.generate(rows, choices, 1000)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    beginning = packed.zero_rows(1)

    def near() -> None:
        fresh = GeneratorRows(beginning.copy(), [1])
        packed.generate(fresh, choices, NEAR + shape.tokens)

    calls = [
        Call("near", near, NEAR + shape.tokens),
        Call("far", lambda: void(packed.generate(rows, choices, shape.tokens)), shape.tokens),
    ]
    first, last = microseconds(calls, 5 * repeats)
    print(
        f"\nµs a token at position {NEAR}: {first:.2f}, at {far:,}: {last:.2f}, ratio "
        f"{last / first:.3f}; peak memory grew by {after - before:,} KiB in between"
    )


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--far", type=int, default=1_000_000)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {args.threads} threads, native level {native_level()}")
    for shape in SHAPES:
        compare(shape, args.threads, args.repeats)
        compare_batches(shape, args.repeats)
    if args.far:
        compare_positions(args.far, args.repeats)


if __name__ == "__main__":
    main()
