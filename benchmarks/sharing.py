"""Does what was learnt at one distance hold at another? A recurrence shares its weights over time.

    python benchmarks/sharing.py [--updates N] [--seeds N]

Each sequence has one cue among fillers, a mark some tokens later, and then the cue again, which is
to be predicted. Models learn from marks that stand 2 tokens behind the cue, and are asked with the
mark 1 to 6 behind it. A window has weights of its own for each distance, and those of distances
that it never met have learnt nothing; a recurrent state carries the cue over one more filler by the
same weights as over the one before; attention finds it by what it is. Chance is 1 in 8.
"""

import argparse
from collections.abc import Mapping
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.losses import token_loss
from elman.models.language import LanguageModel
from elman.models.language_models import new_language_model

FILLERS, CUES = 12, 8
MARK = FILLERS + CUES
LEARNT, ASKED = 2, (1, 2, 3, 4, 5, 6)
LENGTH, BATCH = 14, 64
KINDS: Mapping[str, Mapping[str, Any]] = {
    "window of 8": {"kind": "window", "context_length": 8},
    "elman": {"kind": "elman"},
    "gru": {"kind": "gru"},
    "lstm": {"kind": "lstm"},
    "transformer": {"kind": "transformer", "context_length": 32, "num_layers": 2, "num_heads": 4},
}


def sequences(distance: int, count: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return ids_BT that end with the mark, and the cue of each row, so many tokens before it."""
    ids_BT = torch.randint(0, FILLERS, (count, LENGTH), generator=draw)
    cues_B = FILLERS + torch.randint(0, CUES, (count,), generator=draw)
    ids_BT[:, -1] = MARK
    ids_BT[:, LENGTH - 1 - distance] = cues_B
    return ids_BT, cues_B


def answer_loss(model: LanguageModel, ids_BT: Tensor, cues_B: Tensor) -> Tensor:
    output = model(ids_BT, plan=KernelPlan())
    last_B1H = output.states_BTH[:, -1:]
    return token_loss(last_B1H, output.readout, cues_B.unsqueeze(1)).mean()


def trained(kind: Mapping[str, Any], seed: int, updates: int) -> LanguageModel:
    settings = ModelSettings(hidden_size=64, embedding_size=32, **kind)
    draw = torch.Generator().manual_seed(seed)
    model = new_language_model(settings, MARK + 1, draw)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    for _ in range(updates):
        optimiser.zero_grad()
        answer_loss(model, *sequences(LEARNT, BATCH, draw)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return model


def accuracy(model: LanguageModel, distance: int) -> float:
    ids_BT, cues_B = sequences(distance, 1000, torch.Generator().manual_seed(99))
    with torch.inference_mode():
        output = model(ids_BT, plan=KernelPlan())
        found_B = output.readout.logits(output.states_BTH[:, -1]).argmax(dim=1)
    return float((found_B == cues_B).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    table = Table(box=None)
    for title in ("model", *(f"distance {distance}" for distance in ASKED)):
        table.add_column(title, justify="left" if title == "model" else "right")
    for name, kind in KINDS.items():
        rows = []
        for seed in range(1, args.seeds + 1):
            model = trained(kind, seed, args.updates)
            rows.append([accuracy(model, distance) for distance in ASKED])
        means = [sum(column) / len(column) for column in zip(*rows, strict=True)]
        table.add_row(name, *(f"{100 * mean:.1f} %" for mean in means))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
