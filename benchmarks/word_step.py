"""Time a training step of a word language model beside the same step written in plain torch.

PYTHONPATH=src python benchmarks/word_step.py [DATA_FOLDER] [--units 200] [--vocabulary 33278]
    [--repeats 15] [--threads 2] [--rate 20] [--losses UPDATES] [--memory]

The step is that of the word language model of the PyTorch examples: two LSTM layers as wide as
their embeddings, 20 lanes, windows of 35, dropout 0.2, SGD at 20 with gradients clipped to 0.25.
Both run in one process and take turns; ratios are of medians. Processor time is that of all
threads, which other work on the machine disturbs less; set OMP_WAIT_POLICY=passive for it.
DATA_FOLDER holds wikitext2.train.txt, as benchmarks/prepare.py writes it; without it ids are drawn
from Zipf's law. --losses compares the losses of both over UPDATES updates without dropout, at
--rate. --memory measures the peak of each in a process of its own.
"""

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, nll_loss

from elman.config.settings import ModelSettings, TrainingSettings
from elman.data.streams import StreamBatches
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_module import native_level
from elman.layers.readout import Readout
from elman.losses import token_loss
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.benchmark.memory import SIDES, peak_bytes_of
from elman.recipes.benchmark.rows import ModelSizes
from elman.seeding import generator
from elman.training.loop import Trainer

LANES, WINDOW, CLIP, DROPOUT, LAYERS = 20, 35, 0.25, 0.2, 2


class PlainModel(nn.Module):
    """Embedding, nn.LSTM, nn.Linear: the model of the examples."""

    def __init__(self, vocabulary_size: int, units: int, dropout: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(vocabulary_size, units)
        self.rnn = nn.LSTM(units, units, LAYERS, dropout=dropout)
        self.decoder = nn.Linear(units, vocabulary_size)

    def forward(self, ids_TB: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, object]:
        output_TBH, state = self.rnn(self.drop(self.encoder(ids_TB)), state)
        logits_TBV = self.decoder(self.drop(output_TBH))
        return log_softmax(logits_TBV.view(-1, logits_TBV.shape[2]), dim=1), state


class PlainStep:
    """One update after another of the plain implementation."""

    def __init__(
        self, source: StreamBatches, vocabulary_size: int, units: int, dropout: float, rate: float
    ):
        torch.manual_seed(1)
        self.model, self.source, self.index = PlainModel(vocabulary_size, units, dropout), source, 0
        nn.init.uniform_(self.model.encoder.weight, -0.1, 0.1)
        nn.init.uniform_(self.model.decoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.model.decoder.bias)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=rate, fused=True)
        self.state = (torch.zeros(LAYERS, LANES, units), torch.zeros(LAYERS, LANES, units))

    def __call__(self) -> float:
        batch = self.source.batch(0, self.index)
        self.index += 1
        self.optimiser.zero_grad()
        state = tuple(part.detach() for part in self.state)
        log_probs_NV, self.state = self.model(batch.ids_BT.t(), state)
        loss = nll_loss(log_probs_NV, batch.targets_BT.t().reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimiser.step()
        return loss.item()


class ElmanStep:
    """The same with Elman's trainer, from the plain implementation's weights."""

    def __init__(self, source: StreamBatches, plain: PlainStep, dropout: float, precision: str):
        vocabulary_size, units = plain.model.encoder.weight.shape
        model_settings = ModelSettings(
            kind="lstm",
            embedding_size=units,
            hidden_size=units,
            num_layers=LAYERS,
            dropout=dropout,
            embedding_dropout=dropout,
        )
        settings = TrainingSettings(
            batch_size=LANES,
            window=WINDOW,
            optimizer="sgd",
            learning_rate=plain.optimiser.param_groups[0]["lr"],
            schedule="constant",
            warmup_updates=0,
            clip_norm=CLIP,
            weight_decay=0.0,
        )
        model = RecurrentLanguageModel(model_settings, vocabulary_size, generator(1, "none"))
        copy_weights(plain.model, model)
        self.plan = KernelPlan("auto", precision)  # type: ignore[arg-type]
        self.trainer = Trainer(model, source, settings, self.plan, total_updates=1 << 30)

    def __call__(self) -> float:
        event = self.trainer.step()
        return event.loss_nats / event.num_tokens


def copy_weights(plain: PlainModel, model: RecurrentLanguageModel) -> None:
    with torch.no_grad():
        assert model.embedding is not None
        model.embedding.weight.copy_(plain.encoder.weight)
        model.readout.weight.copy_(plain.decoder.weight)
        model.readout.bias.copy_(plain.decoder.bias)
        for layer in range(LAYERS):
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                theirs = getattr(plain.rnn, f"{name}_l{layer}")
                getattr(model.stack.cell(layer), name).copy_(theirs)


def stream_of(folder: str | None, vocabulary_size: int) -> StreamBatches:
    """The words of the file by frequency, rare ones as the last id; or ids by Zipf's law."""
    if folder is None:
        draw = np.random.default_rng(1)
        ids_N = (draw.zipf(1.1, 400_000) - 1) % vocabulary_size
    else:
        text = Path(folder, "wikitext2.train.txt").read_text(encoding="utf-8")
        words = text.replace("\n", " <eos> ").split()
        order = {word: place for place, (word, _) in enumerate(Counter(words).most_common())}
        ids_N = np.minimum([order[word] for word in words], vocabulary_size - 1)
    return StreamBatches(ids_N, batch_size=LANES, window=WINDOW)


def loss_calls(units: int, vocabulary_size: int) -> dict[str, Callable[[], object]]:
    """The output layer and its loss alone, forward and backward, each way."""
    torch.manual_seed(2)
    states_BTH = (torch.randn(LANES, WINDOW, units) * 0.3).requires_grad_()
    targets_BT = torch.randint(vocabulary_size, (LANES, WINDOW))
    readout = Readout(units, vocabulary_size)
    readout.initialise(generator(2, "none"))
    leaves = [states_BTH, readout.weight, readout.bias]

    def of_torch() -> None:
        log_probs_NV = log_softmax(readout.logits(states_BTH).flatten(0, 1), dim=1)
        torch.autograd.grad(nll_loss(log_probs_NV, targets_BT.flatten()), leaves)

    def of_elman(plan: KernelPlan) -> Callable[[], None]:
        def run() -> None:
            mean = token_loss(states_BTH, readout, targets_BT, plan=plan).mean()
            torch.autograd.grad(mean, leaves)

        return run

    def forward() -> None:
        with torch.no_grad():
            token_loss(states_BTH, readout, targets_BT)

    return {
        "loss: torch": of_torch,
        "loss: elman, torch operators": of_elman(KernelPlan("torch")),
        "loss: elman float32": of_elman(KernelPlan()),
        "loss: elman bfloat16": of_elman(KernelPlan("auto", "bfloat16")),
        "loss: elman, forward only": forward,
    }


def product_peak() -> float:
    """GFLOP/s of oneDNN's float32 product of 2048³, or of torch's where there is none."""
    a = torch.randn(2048, 2048)
    best = float("inf")
    for _ in range(8):
        start = time.perf_counter()
        torch.ops.mkldnn._linear_pointwise(a, a, None, "none", [], "")
        best = min(best, time.perf_counter() - start)
    return float(2 * 2048**3 / best / 1e9)


def compare_speed(args: argparse.Namespace) -> None:
    source, units, vocabulary_size = args.source, args.units, args.vocabulary
    calls = loss_calls(units, vocabulary_size)
    plain = PlainStep(source, vocabulary_size, units, DROPOUT, args.rate)
    calls["step: torch"] = plain
    for precision in ("float32", "bfloat16"):
        calls[f"step: elman {precision}"] = ElmanStep(source, plain, DROPOUT, precision)
    times: dict[str, list[float]] = {name: [] for name in calls}
    processor: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(args.repeats + 2):
        for name, call in calls.items():
            start, start_processor = time.perf_counter(), time.process_time()
            call()
            if repeat >= 2:
                times[name].append(time.perf_counter() - start)
                processor[name].append(time.process_time() - start_processor)
    peak, flops = product_peak(), 6 * LANES * WINDOW * units * vocabulary_size
    print(f"three products at {peak:.0f} GFLOP/s take {flops / peak / 1e6:.0f} ms")
    print("| what | median ms | least ms | words/s | torch / this | processor ms | torch / this |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, found in times.items():
        theirs = f"{name.split(':')[0]}: torch"
        median, spent = statistics.median(found), statistics.median(processor[name])
        print(
            f"| {name} | {median * 1e3:.1f} | {min(found) * 1e3:.1f} |"
            f" {LANES * WINDOW / median:.0f} | {statistics.median(times[theirs]) / median:.2f} |"
            f" {spent * 1e3:.1f} | {statistics.median(processor[theirs]) / spent:.2f} |"
        )
    print("kernels:", calls["step: elman float32"].plan.record())  # type: ignore[attr-defined]


def compare_losses(args: argparse.Namespace) -> None:
    plain = PlainStep(args.source, args.vocabulary, args.units, 0.0, args.rate)
    steps = {p: ElmanStep(args.source, plain, 0.0, p) for p in ("float32", "bfloat16")}
    worst = dict.fromkeys(steps, 0.0)
    for _ in range(args.losses):
        want = plain()
        got = {name: step() for name, step in steps.items()}
        worst = {name: max(worst[name], abs(loss - want)) for name, loss in got.items()}
    print(f"after {args.losses} updates: torch {want:.6f}", got, "greatest differences:", worst)


def measure_memory(args: argparse.Namespace) -> None:
    """Print the peak of each side in a process of its own, which draws ids by Zipf's law."""
    sizes = ModelSizes(LAYERS, args.units, args.vocabulary)
    found = {side: peak_bytes_of(side, sizes, 4, "float32") for side in SIDES}
    for side, peak in found.items():
        assert peak.peak_bytes is not None, peak.measured_by
        assert peak.before_bytes is not None
        print(
            f"{side}: {peak.peak_bytes / 2**20:.0f} MiB, of which "
            f"{(peak.peak_bytes - peak.before_bytes) / 2**20:.0f} MiB are not Python and torch"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--units", type=int, default=200)
    parser.add_argument("--vocabulary", type=int, default=33_278)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--losses", type=int, default=0)
    parser.add_argument("--memory", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.source = stream_of(args.folder, args.vocabulary)
    print(
        f"torch {torch.__version__}, {args.threads} threads, native level {native_level()!r}, "
        f"2 x {args.units} units, {args.vocabulary:,} words"
    )
    if args.losses:
        compare_losses(args)
    elif args.memory:
        measure_memory(args)
    else:
        compare_speed(args)


if __name__ == "__main__":
    main()
