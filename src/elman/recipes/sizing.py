"""Sizes that fit a text and a machine, for every setting that a person left open.

These are suggestions beneath a person's own settings, worked out from the text once it is
prepared; the run records what came of them, so that it can be repeated anywhere. Figures behind
them are in `benchmarks/RESULTS.md`.
"""

from collections.abc import Mapping
from types import MappingProxyType

import torch

from elman.config.checks import acts_in
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.kernels.dispatch import Precision

MOST_EPOCHS = 40
"""Passes over a text that a budget is filled with at most: more only learn it by heart."""

MOST_UNITS = ((10.0, 64), (30.0, 128), (60.0, 256))
"""Seconds, and the units of a model that has fewer to learn in: larger ones make few updates."""

LEAST_TOKENS = 2_000
"""A training text of fewer tokens is worth a word: little can be learnt from it."""

CAREFUL_RATES: Mapping[str, float] = MappingProxyType({"elman": 0.01, "gru": 0.02, "mgu": 0.02})
"""Rates of Muon for cells whose loss rises without end at its usual one."""

WORD_RATES: Mapping[str, float] = MappingProxyType({"elman": 0.003, "gru": 0.004, "mgu": 0.004})
"""Rates of AdamW for word models of them."""

WORD_RATE = 0.012
"""Rate of AdamW for word models: on two texts better than 0.006 and 0.003, and than Muon."""

LONG_TIME = 3600.0
"""Seconds from which a Transformer of 256 units sees enough text; with less it has 128, and AdamW:
Muon's products cost as much as those of so small a model."""

TRANSFORMER_RATE = 0.002
"""Rate of AdamW for a Transformer of 128 units."""

LEAST_BFLOAT16_UNITS = 128
"""Layers narrower than this gain nothing from products in bfloat16."""


def suggested_settings(
    early: Settings, num_tokens: int, *, budget_seconds: float | None
) -> tuple[str, ...]:
    """Return overrides, such as "model.hidden_size=256", for a training text of `num_tokens`.

    `early` holds what is known before: level, unit, and how a person wants to stop. What has to be
    learnt within `budget_seconds` (None: no such bound) is no larger than can be.
    """
    words = early.text.level in ("word", "bpe")
    suggestions = []
    if early.model.kind == "transformer":
        suggestions += _for_transformer(early, num_tokens, budget_seconds)
    elif early.text.unit == "line":
        suggestions += _for_lines(early, num_tokens)
    elif words:
        suggestions += _for_words(early, num_tokens)
    else:
        suggestions += [*_for_characters(num_tokens), *_at_a_careful_rate(early)]
    if budget_seconds is not None:
        suggestions += _for_little_time(early, suggestions, budget_seconds)
    if not (budget_seconds or early.training.epochs or early.training.updates):
        suggestions.append(f"training.epochs={_epochs(num_tokens)}")
    return tuple(suggestions)


def notices_of_size(num_tokens: int) -> tuple[str, ...]:
    """Return a line to show where a training text of `num_tokens` is too small to learn much."""
    if num_tokens >= LEAST_TOKENS:
        return ()
    return (
        f"only {num_tokens:,} token{'s' * (num_tokens != 1)} to learn from: a model will know "
        f"them by heart and little else; {LEAST_TOKENS:,} are a beginning",
    )


def precision_of(settings: Settings) -> Precision:
    """Return training.precision, with "auto" replaced by what this machine is good at.

    bfloat16 where the processor multiplies it by itself and the layers are wide enough.
    """
    if settings.training.precision != "auto":
        return settings.training.precision
    wide = settings.model.hidden_size >= LEAST_BFLOAT16_UNITS
    return "bfloat16" if has_bfloat16_products() and wide else "float32"


def notices_of_precision(precision: Precision) -> tuple[str, ...]:
    """Return a line to show where products in `precision` are slower here than in float32."""
    if precision == "float32" or has_bfloat16_products():
        return ()
    return (
        "this processor has no products in bfloat16, and makes them out of others many times "
        "slower: training.precision = auto is float32 here",
    )


def has_bfloat16_products() -> bool:
    """Return whether the processor multiplies bfloat16 by itself."""
    able = torch.cpu.get_capabilities()
    return bool(able.get("avx512_bf16")) or bool(able.get("amx_bf16"))


def _for_little_time(early: Settings, suggestions: list[str], budget_seconds: float) -> list[str]:
    """Return what makes a model smaller that would hardly move in so little time."""
    most = next((units for seconds, units in MOST_UNITS if budget_seconds < seconds), None)
    if most is None:
        return []
    named = {key: value for key, _, value in (one.partition("=") for one in suggestions)}
    small = []
    for key, usual in (
        ("model.hidden_size", ModelSettings().hidden_size),
        ("model.embedding_size", ModelSettings().embedding_size),
    ):
        if acts_in(key, early):
            small.append(f"{key}={min(int(named.get(key, usual)), most)}")
    if "model.num_layers" in named:
        small.append(f"model.num_layers={min(int(named['model.num_layers']), 2)}")
    return small


def _for_characters(num_tokens: int) -> list[str]:
    if num_tokens >= 5_000_000:
        return []
    if num_tokens >= 100_000:
        return ["model.dropout=0.25"]
    size = 256 if num_tokens >= 30_000 else 128
    lanes = max(1, min(32, num_tokens // 2_000))
    return [f"model.hidden_size={size}", "model.dropout=0.2", f"training.batch_size={lanes}"]


def _at_a_careful_rate(early: Settings) -> list[str]:
    """Return a lower rate for a cell that needs one, where nothing is said of the optimiser.

    At Muon's usual rate their loss on characters falls for 400 updates and then rises without end.
    """
    usual, asked = Settings().training, early.training
    said = (asked.optimizer, asked.learning_rate) != (usual.optimizer, usual.learning_rate)
    rate = CAREFUL_RATES.get(early.model.kind)
    if said or rate is None:
        return []
    return [f"training.optimizer={usual.optimizer}", f"training.learning_rate={rate}"]


def _for_words(early: Settings, num_tokens: int) -> list[str]:
    size = 256 if num_tokens >= 200_000 else 128
    lanes = max(1, min(32, num_tokens // 1_000))
    vectors = [f"model.embedding_size={size}"] if early.model.input == "embedding" else []
    return [
        *vectors,
        f"model.hidden_size={size}",
        f"model.tie_weights={str(_may_tie(early.model)).lower()}",
        "model.dropout=0.3",
        "training.window=35",
        f"training.batch_size={lanes}",
        *_split_softmax(early),
        *_high_rate(early, WORD_RATES.get(early.model.kind, WORD_RATE)),
    ]


def _split_softmax(early: Settings) -> list[str]:
    """Return that a large output is split, where nothing is said of it, or asked of one softmax.

    Most of a word model's products are those of its output.
    """
    asked = early.model.softmax != ModelSettings().softmax or early.training.label_smoothing
    return [] if asked or not acts_in("model.softmax", early) else ["model.softmax=auto"]


def _high_rate(early: Settings, rate: float) -> list[str]:
    """Return AdamW at `rate` for a recurrent model, as far as nothing is said of either.

    Most of its weights are vectors of words, which Muon leaves to AdamW all the same; a window,
    whose hidden layer is wide, learns better by Muon.
    """
    usual, asked = Settings().training, early.training
    if early.model.kind == "window" or asked.optimizer not in (usual.optimizer, "adamw"):
        return []
    own = [] if asked.learning_rate != usual.learning_rate else [f"training.learning_rate={rate}"]
    return ["training.optimizer=adamw", *own]


def _for_transformer(early: Settings, num_tokens: int, budget_seconds: float | None) -> list[str]:
    few = num_tokens < 100_000
    brief = budget_seconds is not None and budget_seconds < LONG_TIME
    words = early.text.level in ("word", "bpe")
    suggestions = [
        f"model.hidden_size={128 if few or brief else 256}",
        f"model.num_layers={2 if few else 4}",
        f"model.dropout={0.2 if few else 0.1}",
        f"training.batch_size={8 if few or brief else 16}",
        f"model.tie_weights={str(words and _may_tie(early.model)).lower()}",
    ]
    if words:
        suggestions += _split_softmax(early)
    if early.text.unit == "stream":
        suggestions.append(f"training.window={64 if brief else 128}")
    usual, asked = Settings().training, early.training
    if brief and asked.optimizer in (usual.optimizer, "adamw"):
        own = asked.learning_rate != usual.learning_rate
        rate = [] if own else [f"training.learning_rate={TRANSFORMER_RATE}"]
        suggestions += ["training.optimizer=adamw", *rate]
    return suggestions


def _may_tie(model: ModelSettings) -> bool:
    """Return whether an output can be the embedding: it is there, and the output has its width.

    Classes that a person wants narrower have matrices of their own, and so has an output that sees
    a window by itself.
    """
    usual = model.tail_divisor == ModelSettings().tail_divisor
    return model.input == "embedding" and usual and not model.direct_connections


def _for_lines(early: Settings, num_tokens: int) -> list[str]:
    size = 512 if num_tokens >= 100_000 else 256 if num_tokens >= 20_000 else 128
    suggestions = [
        f"model.hidden_size={size}",
        "model.dropout=0.3",
        "model.dropout_kind=locked",
        f"training.batch_size={128 if num_tokens >= 100_000 else 32}",
    ]
    if early.text.level in ("word", "bpe"):
        suggestions += _split_softmax(early)
    usual, asked = Settings().training, early.training
    open_yet = (asked.optimizer, asked.schedule, asked.average_trigger)
    if open_yet == (usual.optimizer, usual.schedule, usual.average_trigger):
        # Few short lines are soon known by heart: a high rate to the end and the average of the
        # weights generalise better than annealing, and AdamW better than Muon.
        suggestions += [
            "training.optimizer=adamw",
            "training.final_rate=0.5",
            "training.average_decay=0.998",
        ]
    return suggestions


def _epochs(num_tokens: int) -> int:
    """Return how many passes to make where nothing says when to stop."""
    return 10 if num_tokens >= 400_000 else 20
