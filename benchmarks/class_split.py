"""The training step with an output split into classes beside one softmax, in one run.

    python benchmarks/class_split.py FILE [--hidden 200] [--repeats 15]

FILE is a text of words; its vocabulary and the order of its words are used as they are. A step is
that of the PyTorch word language model example: embedding, two LSTM layers, output, gradients,
clipping, plain gradient descent; batch 20, window 35. The three variants take turns, each on the
same batch; the time of each is the median. The third is torch's own class with the same cutoffs.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from elman.config.model_settings import ModelSettings
from elman.config.text_settings import TextSettings
from elman.kernels.dispatch import KernelPlan
from elman.losses import token_loss
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.class_splitting import cheapest_cutoffs
from elman.text.building import learn_and_encode

BATCH, WINDOW, RATE, CLIP = 20, 35, 20.0, 0.25


def main() -> None:
    """Measure and print the table."""
    arguments = _arguments()
    torch.set_num_threads(arguments.threads)
    tokenizer, ids_N = _ids_of(arguments.file)
    size = len(tokenizer.vocabulary)
    sizes = ModelSettings(
        embedding_size=arguments.hidden, hidden_size=arguments.hidden, num_layers=2
    )
    cutoffs = cheapest_cutoffs(np.bincount(ids_N, minlength=size), sizes)
    print(f"{size:,} words, 2 x {arguments.hidden} units, cutoffs {cutoffs}, ", end="")
    print(f"batch {BATCH}, window {WINDOW}, {arguments.threads} threads")
    split = ModelSettings(
        embedding_size=arguments.hidden,
        hidden_size=arguments.hidden,
        num_layers=2,
        softmax="adaptive",
        cutoffs=cutoffs,
    )
    models = {
        "one softmax": _ours(sizes, size),
        "classes": _ours(split, size),
        "classes, torch's": _torchs(arguments.hidden, size, cutoffs),
    }
    times: dict[str, list[float]] = {name: [] for name in models}
    for repeat in range(arguments.repeats + 2):
        batch_BT = _batch(ids_N, repeat)
        for name, (model, loss) in models.items():
            started = time.perf_counter()
            _step(model, loss, batch_BT)
            if repeat >= 2:
                times[name].append(time.perf_counter() - started)
    whole = statistics.median(times["one softmax"])
    print("| output | weights | step, ms | words a second | beside one softmax |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, (model, _) in models.items():
        weights = sum(parameter.numel() for parameter in model.parameters())
        seconds = statistics.median(times[name])
        print(
            f"| {name} | {weights:,} | {1000 * seconds:.1f} "
            f"| {BATCH * WINDOW / seconds:,.0f} | {whole / seconds:.2f}x |"
        )


Loss = Callable[[Tensor, Tensor], Tensor]


def _ours(settings: ModelSettings, size: int) -> tuple[nn.Module, Loss]:
    model, plan = RecurrentLanguageModel(settings, size, torch.Generator().manual_seed(1)), _plan()

    def loss(ids_BT: Tensor, targets_BT: Tensor) -> Tensor:
        output = model(ids_BT, plan=plan)
        return token_loss(output.states_BTH, output.readout, targets_BT).mean()

    return model, loss


def _plan() -> KernelPlan:
    return KernelPlan("auto", "float32")


def _torchs(hidden: int, size: int, cutoffs: tuple[int, int]) -> tuple[nn.Module, Loss]:
    embedding, lstm = nn.Embedding(size, hidden), nn.LSTM(hidden, hidden, 2, batch_first=True)
    output = nn.AdaptiveLogSoftmaxWithLoss(hidden, size, list(cutoffs), 4.0, head_bias=True)

    def loss(ids_BT: Tensor, targets_BT: Tensor) -> Tensor:
        states_BTH, _ = lstm(embedding(ids_BT))
        mean: Tensor = output(states_BTH.flatten(0, 1), targets_BT.flatten()).loss
        return mean

    return nn.ModuleList([embedding, lstm, output]), loss


def _step(model: nn.Module, loss: Loss, batch_BT: Tensor) -> None:
    torch.autograd.backward(loss(batch_BT[:, :-1], batch_BT[:, 1:]))
    parameters = [p for p in model.parameters() if p.grad is not None]
    nn.utils.clip_grad_norm_(parameters, CLIP)
    with torch.no_grad():
        for parameter in parameters:
            parameter.sub_(parameter.grad, alpha=RATE)
    model.zero_grad(set_to_none=True)


def _batch(ids_N: np.ndarray, number: int) -> Tensor:
    lane = len(ids_N) // BATCH
    starts = np.arange(BATCH) * lane + number * WINDOW
    return torch.from_numpy(np.stack([ids_N[s : s + WINDOW + 1] for s in starts]).astype(np.int64))


def _ids_of(path: Path):  # type: ignore[no-untyped-def]
    text = path.read_text(encoding="utf-8")
    tokenizer, pieces = learn_and_encode([text], TextSettings(level="word", unknown="refuse"))
    return tokenizer, np.concatenate(list(pieces))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--hidden", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
