"""What one more token costs, by its position: time and state of a recurrent model and of attention.

    python benchmarks/cost.py [--most 1000000] [--picture FILE]

A GRU and a Transformer of about as many parameters step once at each position. The recurrent state
is that after a short text, as it has the same size after any; the caches of the Transformer are
filled with random keys and values, which take the time that read ones would. Without a cache the
whole text is read again for every token, as far as that takes less than MOST_SECONDS. Times are the
least of several, of one thread; torch's operators on both sides. At the end stand the evaluations
of tokens and the pairs of attention that writing T tokens takes in all.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import StackState
from elman.models.language import LanguageModel
from elman.models.language_models import new_language_model
from elman.models.transformer import LayerCache, ReadCount
from pictures import panel

VOCABULARY, POSITIONS = 256, (10, 100, 1_000, 10_000, 100_000, 1_000_000)
MOST_SECONDS = 20.0
REPEATS = 7


def models(most: int) -> dict[str, LanguageModel]:
    kinds: dict[str, dict[str, Any]] = {
        "gru": {"kind": "gru", "hidden_size": 512, "embedding_size": 256, "num_layers": 2},
        "transformer": {
            "kind": "transformer",
            "hidden_size": 256,
            "num_layers": 4,
            "context_length": most + 2,
        },
    }
    return {
        name: new_language_model(
            ModelSettings(**settings), VOCABULARY, torch.Generator().manual_seed(1)
        )
        for name, settings in kinds.items()
    }


def state_at(model: LanguageModel, position: int) -> StackState:
    """Return the state after `position` tokens: of a Transformer filled, of a GRU as always."""
    if model.settings.kind != "transformer":  # type: ignore[union-attr]
        ids_BT = torch.zeros(1, 8, dtype=torch.int64)
        return model(ids_BT, plan=KernelPlan()).state
    width = int(model.settings.hidden_size)  # type: ignore[union-attr]
    layers = int(model.settings.num_layers)  # type: ignore[union-attr]
    caches = (
        LayerCache(torch.randn(1, position, width), torch.randn(1, position, width))
        for _ in range(layers)
    )
    return (ReadCount(torch.full((1, 1), position)), *caches)


def least_seconds(run: Callable[[], object]) -> float:
    run()
    found = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        run()
        found.append(time.perf_counter() - started)
    return min(found)


def state_bytes(state: StackState) -> int:
    return sum(part.numel() * part.element_size() for each in state for part in each)


def measured(model: LanguageModel, most: int) -> dict[int, tuple[float, int]]:
    token_BT, found = torch.zeros(1, 1, dtype=torch.int64), {}
    for position in (one for one in POSITIONS if one <= most):
        try:
            state = state_at(model, position)
            seconds = least_seconds(lambda s=state: model(token_BT, s, plan=KernelPlan()))  # type: ignore[misc]
        except RuntimeError as error:
            print(f"position {position:,}: {error}")
            break
        found[position] = (seconds, state_bytes(state))
    return found


def without_cache(model: LanguageModel, most: int) -> dict[int, float]:
    found: dict[int, float] = {}
    for position in (one for one in POSITIONS if one <= most):
        ids_BT = torch.zeros(1, position, dtype=torch.int64)
        started = time.perf_counter()
        model(ids_BT, plan=KernelPlan())
        found[position] = time.perf_counter() - started
        if found[position] * 30 > MOST_SECONDS:
            break
    return found


def draw(rows: dict[str, dict[int, float]], path: Path) -> None:
    with panel(path) as axes:
        for name, row in rows.items():
            axes.plot(list(row), [1e3 * seconds for seconds in row.values()], "o-", label=name)
        axes.set(xscale="log", yscale="log", xlabel="position", ylabel="milliseconds for one token")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, dict[int, float]] = {}
    with torch.inference_mode():
        for name, model in models(args.most).items():
            print(f"{name}: {model.parameter_count():,} parameters")
            found = measured(model, args.most)
            for position, (seconds, size) in found.items():
                print(
                    f"  position {position:>9,}: {1e3 * seconds:9.3f} ms, state {size:>13,} bytes"
                )
            rows[name] = {position: seconds for position, (seconds, _) in found.items()}
            if name == "transformer":
                again = without_cache(model, args.most)
                for position, seconds in again.items():
                    print(f"  position {position:>9,}: {1e3 * seconds:9.3f} ms without a cache")
                rows["transformer, no cache"] = again
    for total in (100, 1_000, 10_000):
        print(
            f"{total:,} tokens: with a cache {total:,} evaluations and "
            f"{total * (total + 1) // 2:,} pairs, without {total * (total + 1) // 2:,} and "
            f"{total * (total + 1) * (total + 2) // 6:,}; a recurrence {total:,} and none"
        )
    if args.picture:
        draw(rows, args.picture)


if __name__ == "__main__":
    main()
