"""The promises of models that answer a whole row: what neighbours, padding, order must not do."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import torch
from subjects import EXACT_64, assert_close, normal
from torch import Tensor

from elman.cells.registry import CELLS
from elman.checkpoints.belonging import Belonging
from elman.checkpoints.weights import load_weights, save_weights
from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.models.classifier import SequenceClassifier
from elman.training.label_objective import answer_nats

SYMBOLS, ANSWERS = 6, 4
LENGTHS = (3, 1, 7, 0, 7, 2)
"""A row without a step among them, and two of the longest."""

POOLINGS = ("final", "mean", "max", "attention")
KINDS = tuple(dict.fromkeys(re.split("[/+,]", key)[0] for key in CELLS))


@dataclass(frozen=True)
class ModelSubject:
    """A classifier: its cell, how many directions, how its states become one vector, its input."""

    kind: str
    directions: int
    pooling: str
    reads: str

    def __str__(self) -> str:
        ways = "one way" if self.directions == 1 else "both ways"
        return f"{self.kind}, {ways}, {self.pooling}, {self.reads}"

    def model(self, *, seed: int, dtype: torch.dtype = torch.float64) -> SequenceClassifier:
        """A new one, its biases random too."""
        settings = ModelSettings(
            task="classify",
            kind=self.kind,  # type: ignore[arg-type]
            input=self.reads,  # type: ignore[arg-type]
            embedding_size=5,
            hidden_size=4,
            num_layers=2,
            bidirectional=self.directions == 2,
            pooling=self.pooling,  # type: ignore[arg-type]
            dropout=0.5,  # without a generator nothing of it acts
        )
        generator = torch.Generator().manual_seed(seed)
        size = 1 if self.reads == "series" else SYMBOLS
        model = SequenceClassifier(settings, size, ANSWERS, generator)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0.0, 0.5, generator=generator)
        return model.to(dtype)

    def rows(self, *, seed: int) -> list[Tensor]:
        """One row for each of LENGTHS: ids [T], or numbers [T, 1]."""
        if self.reads == "series":
            return [normal(length, 1, seed=seed + place) for place, length in enumerate(LENGTHS)]
        draw = torch.Generator().manual_seed(seed)
        return [torch.randint(0, SYMBOLS, (length,), generator=draw) for length in LENGTHS]


def answers(
    model: SequenceClassifier, rows: list[Tensor], *, padding: float = 0.0, extra: int = 0
) -> Tensor:
    """Logits of rows side by side, `padding` behind each, and `extra` columns of it."""
    width = max((len(row) for row in rows), default=0) + extra
    shape = (len(rows), width, *rows[0].shape[1:])
    inputs = torch.full(shape, padding, dtype=rows[0].dtype)
    for place, row in enumerate(rows):
        inputs[place, : len(row)] = row
    lengths_B = torch.tensor([len(row) for row in rows])
    logits_BC: Tensor = model(inputs, lengths_B, plan=KernelPlan())
    return logits_BC


def a_row_is_answered_the_same_alone_and_in_any_batch(subject: ModelSubject) -> None:
    for dtype, tolerance in ((torch.float64, EXACT_64), (torch.float32, 1e-5)):
        model = subject.model(seed=1, dtype=dtype)
        rows = [row.to(dtype) if row.is_floating_point() else row for row in subject.rows(seed=2)]
        alone = torch.cat([answers(model, [row]) for row in rows])
        for size in (2, 3, len(rows)):
            cut = torch.cat(
                [answers(model, rows[first : first + size]) for first in range(0, len(rows), size)]
            )
            assert_close(cut, alone, tolerance, f"batches of {size}")


def the_order_of_a_batch_changes_nothing(subject: ModelSubject) -> None:
    model, rows = subject.model(seed=3), subject.rows(seed=4)
    want = answers(model, rows)
    for seed in range(3):
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
        got = answers(model, [rows[place] for place in order.tolist()])
        assert_close(got, want[order], EXACT_64, "another order")


def padding_has_no_influence_on_values_or_gradients(subject: ModelSubject) -> None:
    model, rows = subject.model(seed=5), subject.rows(seed=6)
    labels_BC = torch.nn.functional.one_hot(torch.arange(len(rows)) % ANSWERS, ANSWERS)
    results = []
    for padding, extra in ((0.0, 0), (SYMBOLS - 1, 0), (1.0, 5)):
        logits_BC = answers(model, rows, padding=padding, extra=extra)
        nats = answer_nats(logits_BC, labels_BC, "one").sum()
        gradients = torch.autograd.grad(nats, list(model.parameters()), materialize_grads=True)
        results.append([logits_BC, *gradients])
    for other in results[1:]:
        for got, want in zip(other, results[0], strict=True):
            assert_close(got, want, EXACT_64, "other padding")


def order_of_steps_is_seen(subject: ModelSubject) -> None:
    model, rows = subject.model(seed=7), subject.rows(seed=8)
    turned = [row.flip(0) for row in rows]
    moved_B = (answers(model, rows) - answers(model, turned)).abs().amax(dim=1)
    assert moved_B[2] > 1e-6
    assert_close(moved_B[[1, 3]], torch.zeros(2, dtype=torch.float64), EXACT_64, "a short row")


def saved_and_loaded_answers_are_the_same_bits(subject: ModelSubject) -> None:
    import tempfile

    model, other = subject.model(seed=9, dtype=torch.float32), subject.model(seed=10)
    other = other.to(torch.float32)
    rows = [row.float() if row.is_floating_point() else row for row in subject.rows(seed=11)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_weights(path, model, update=1, belonging=Belonging("digest", None, {}))
        load_weights(path, other)
    assert torch.equal(answers(model, rows), answers(other, rows))


def rows_are_summed_not_averaged(subject: ModelSubject) -> None:
    model, rows = subject.model(seed=12), subject.rows(seed=13)
    labels_BC = torch.nn.functional.one_hot(torch.arange(len(rows)) % ANSWERS, ANSWERS)
    whole = answer_nats(answers(model, rows), labels_BC, "one").sum()
    parts = sum(
        answer_nats(answers(model, [row]), labels_BC[place : place + 1], "one").sum()
        for place, row in enumerate(rows)
    )
    assert_close(whole.reshape(1), parts.reshape(1), EXACT_64, "nats")


MODEL_PROMISES: Mapping[str, Callable[[ModelSubject], None]] = MappingProxyType(
    {
        promise.__name__: promise
        for promise in (
            a_row_is_answered_the_same_alone_and_in_any_batch,
            the_order_of_a_batch_changes_nothing,
            padding_has_no_influence_on_values_or_gradients,
            order_of_steps_is_seen,
            saved_and_loaded_answers_are_the_same_bits,
            rows_are_summed_not_averaged,
        )
    }
)


def all_models() -> list[ModelSubject]:
    """Every kind of cell both ways with each pooling; each pooling one way, and of each input."""
    subjects = [ModelSubject(kind, 2, "max", "embedding") for kind in KINDS]
    for pooling in POOLINGS:
        subjects += [
            ModelSubject("lstm", 1, pooling, "embedding"),
            ModelSubject("gru", 2, pooling, "series"),
        ]
    subjects.append(ModelSubject("elman", 2, "final", "one-hot"))
    return subjects
