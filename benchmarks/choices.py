"""Choices that the seeds discuss, measured: gates, tying, temperature.

    python benchmarks/choices.py DATA CUT OUT [PATTERN …] [--threads N] [--list]

A GRU and an LSTM of as many parameters and updates, on characters and on words; tied and untied
weights on a small text (the first 2,000 lines of WikiText-2) and on a large one; and, of text that
the LSTM on characters writes, the entropy of what each character is drawn from and the share of
sequences of eight that stood there before, by temperature. A queue that stops and goes on.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from elman.checkpoints.run_folder import RunFolder
from elman.decoding.filters import SamplingSettings
from elman.decoding.sampling import draw
from elman.kernels.dispatch import KernelPlan
from elman.recipes.trained import TrainedModel, open_trained
from run_queue import Step, chosen, queue_arguments, told_by, work_through

TEMPERATURES = (0.0, 0.3, 0.5, 0.7, 0.9, 1.0, 1.2, 1.5)
WRITTEN, SEQUENCE = 20_000, 8
SMALL_LINES = 2_000
WRITER = "gates-characters-lstm"


def gates(cut: Path) -> Iterator[Step]:
    """Cells of as many parameters: a GRU has three gates where an LSTM has four."""
    texts = {
        "characters": (
            "shakespeare.train.txt",
            "shakespeare.held-out.txt",
            "char",
            256,
            299,
            2_000,
        ),
        "words": ("wikitext2.train.txt", "wikitext2.valid.txt", "word", 256, 281, 800),
    }
    for text, (train, valid, level, lstm, gru, updates) in texts.items():
        for kind, size in (("lstm", lstm), ("gru", gru)):
            how = (f"--set=model.kind={kind}", f"--set=model.hidden_size={size}")
            how += (f"--set=training.updates={updates}",)
            yield _train(cut, f"gates-{text}-{kind}", (train, valid), level, *how)


def tying(cut: Path) -> Iterator[Step]:
    """One matrix for what is read and written, or two."""
    small = cut / "wikitext2.small.txt"
    if not small.exists():
        lines = (cut / "wikitext2.train.txt").read_text(encoding="utf-8").splitlines(keepends=True)
        small.write_text("".join(lines[:SMALL_LINES]), encoding="utf-8")
    for text, updates in (("small", 600), ("train", 800)):
        for tied in ("true", "false"):
            files = (f"wikitext2.{text}.txt", "wikitext2.valid.txt")
            how = (f"--set=model.tie_weights={tied}", f"--set=training.updates={updates}")
            how += ("--set=model.hidden_size=256", "--set=model.embedding_size=256")
            which = "large" if text == "train" else text
            name = f"tying-{which}-{'tied' if tied == 'true' else 'two'}"
            yield _train(cut, name, files, "word", *how)


def _train(cut: Path, name: str, files: tuple[str, str], level: str, *how: str) -> Step:
    train, valid = (str(cut / file) for file in files)
    given = ("--data", train, "--valid", valid, "--level", level, "--set=data.test_fraction=0")
    if level == "word":
        given += ("--set=text.literal_unknown=<unk>",)
    return Step(name, ("lm", *given, *how), trains=True)


def written_at(trained: TrainedModel, temperature: float) -> tuple[float, float]:
    """Return the mean entropy in bits and the share of repeated sequences of a written text."""
    sampling, plan = SamplingSettings(temperature=temperature), KernelPlan()
    ids_BT, state, written, bits = torch.zeros(1, 1, dtype=torch.int64), None, [], []
    with torch.inference_mode():
        for position in range(WRITTEN):
            output = trained.model(ids_BT, state, plan=plan)
            state = output.state
            logits_V = output.readout.logits(output.states_BTH)[0, -1]
            if temperature > 0.0:
                log_probs_V = (logits_V.double() / temperature).log_softmax(dim=0)
                bits.append(-float((log_probs_V.exp() * log_probs_V).sum()) / math.log(2))
            written.append(draw(logits_V, sampling, position))
            ids_BT[0, 0] = written[-1]
    sequences = [tuple(written[place : place + SEQUENCE]) for place in range(WRITTEN - SEQUENCE)]
    return float(np.mean(bits)) if bits else 0.0, 1.0 - len(set(sequences)) / len(sequences)


def show(steps: list[Step], out: Path) -> None:
    table = Table(box=None)
    for title in ("run", "parameters", "seconds", "nats per token", "perplexity"):
        table.add_column(title, justify="left" if title == "run" else "right")
    for step in steps:
        told = told_by(step, out)
        if told is not None:
            score = told["scores"]["valid"]  # type: ignore[index]
            sizes = RunFolder.open(out / step.name).read_manifest().sizes
            cells = (f"{sizes['parameters']:,}", f"{told['seconds']:.0f}")
            figures = (f"{score['nats_per_token']:.4f}", f"{score['perplexity']:.1f}")
            table.add_row(step.name, *cells, *figures)
    Console(width=100).print(table)


def show_temperatures(run: Path) -> None:
    trained = open_trained(run)
    table = Table(box=None)
    for title in ("temperature", "entropy in bits", "repeated sequences of 8"):
        table.add_column(title, justify="right")
    rows = [(temperature, *written_at(trained, temperature)) for temperature in TEMPERATURES]
    for temperature, bits, repeated in rows:
        table.add_row(f"{temperature:g}", f"{bits:.2f}", f"{100 * repeated:.1f} %")
    Console().print(table)
    rising = all(left[1] <= right[1] for left, right in pairwise(rows))
    print("entropy rises with the temperature" if rising else "entropy does not rise throughout")


def main() -> None:
    args = queue_arguments(__doc__)
    steps = [*gates(args.cut), *tying(args.cut)]
    work_through(steps, args)
    if args.list:
        return
    show(chosen(steps, args.patterns), args.out)
    if told_by(next(step for step in steps if step.name == WRITER), args.out) is not None:
        show_temperatures(args.out / WRITER)


if __name__ == "__main__":
    main()
