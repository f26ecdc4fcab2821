"""What a classifier, tagger or translating run learns from and is held against, row by row."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.checkpoints.run_folder import RunFolder
from elman.data.token_array import LineArray
from elman.errors import RunError
from elman.layers.stack import RecurrentStack
from elman.recipes.classify import ClassifyTask
from elman.recipes.classifying import open_classifier
from elman.recipes.diagnosing.gates import RECORDED, GatesOfLayer, gates_over
from elman.recipes.label_preparing import LabelPart
from elman.recipes.prepared_rows import PreparedRows, RowPart
from elman.recipes.prepared_text import PART_NAMES, PartName
from elman.recipes.tag import TagTask
from elman.recipes.tagging import open_tagger
from elman.recipes.translate import TranslateTask
from elman.recipes.translating import open_translator
from elman.text.label_set import LabelSet

RowsByPart = Mapping[PartName, tuple[bytes, ...]]
"""What is read of each row, the answer left out."""

_Part = TypeVar("_Part", bound=RowPart)


class RowEvidence(NamedTuple):
    """The rows of every part, and the gates of what reads them; of a translating run its encoder's.

    learnt: the rows of training with their answers. frequency_nats: what the answers of the valid
    part cost by how often each is in training, in nats as the run's own losses are; None where that
    cannot be compared. gates: over rows of the first held-out part, or
    else of training; none where no model was run.
    """

    parts: RowsByPart
    learnt: tuple[bytes, ...]
    frequency_nats: float | None
    gates: tuple[GatesOfLayer, ...]


NO_ROWS = RowEvidence({}, (), None, ())


class _Read(NamedTuple):
    """Rows read again, the answers of those of training, and what frequencies of answers cost.

    `layers` opens the run: its stack, and what that reads of some rows.
    """

    facts: Mapping[str, object]
    parts: RowsByPart
    answers: Iterable[bytes]
    frequency_nats: float | None
    layers: Callable[[], tuple[RecurrentStack, Iterator[Tensor]]]


def row_evidence(
    folder: RunFolder, recorded: Mapping[str, object], *, may_run: bool
) -> RowEvidence:
    """Return the rows that the run began with, read again from its files.

    `recorded` is the section `data` of the manifest; the model is run where it may. Raises
    `DataError` where files cannot be read, and `RunError` where they are no longer those.
    """
    readers = {"classify": _labels, "tag": _tags, "translate": _pairs}
    with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
        read = readers[folder.settings.model.task](folder, Path(scratch))
        if read.facts != recorded:
            raise RunError("other rows are in the files than the run began with")
        rows = zip(read.parts["train"], read.answers, strict=True)
        learnt = tuple(b"\0\0".join(row) for row in rows)
        gates = gates_over(*read.layers()) if may_run else ()
        return RowEvidence(read.parts, learnt, read.frequency_nats, gates)


def _labels(folder: RunFolder, scratch: Path) -> _Read:
    prepared = ClassifyTask().prepare(folder.settings, scratch)

    def layers() -> tuple[RecurrentStack, Iterator[Tensor]]:
        encoder, rows = open_classifier(folder.path).models[0].encoder, _looked_at(prepared).rows
        numbers = _some(rows.lengths_N.tolist())
        return encoder.stack, (
            encoder.inputs(rows.padded(np.array([number]))[0]) for number in numbers
        )

    parts = prepared.parts.items()
    rows = {name: part.given for name, part in parts}
    answers = ("\0".join(labels).encode() for labels in prepared.parts["train"].gold)
    nats = None
    if folder.settings.training.class_weights == "none" and "valid" in prepared.parts:
        nats = _nats_of_labels(prepared.parts["train"], prepared.parts["valid"], prepared.labels)
    return _Read(prepared.facts(), rows, answers, nats, layers)


def _tags(folder: RunFolder, scratch: Path) -> _Read:
    prepared = TagTask().prepare(folder.settings, scratch)

    def layers() -> tuple[RecurrentStack, Iterator[Tensor]]:
        tagger, rows = open_tagger(folder.path), _looked_at(prepared).rows
        sentences = [rows[number].tokens for number in _some(len(row.tokens) for row in rows)]
        return tagger.model.encoder.stack, (
            tagger.model.inputs(tagger.vocabulary.batch([tokens]), plan=tagger.plan)
            for tokens in sentences
        )

    parts = prepared.parts.items()
    rows = {
        name: tuple("\0".join(row.tokens).encode() for row in part.rows) for name, part in parts
    }
    answers = ("\0".join(row.tags).encode() for row in prepared.parts["train"].rows)
    train, valid = prepared.parts["train"].tags, getattr(prepared.parts.get("valid"), "tags", None)
    nats = (
        None if valid is None else _nats_by_frequency(train, valid, len(prepared.vocabulary.tags))
    )
    return _Read(prepared.facts(), rows, answers, nats, layers)


def _pairs(folder: RunFolder, scratch: Path) -> _Read:
    prepared = TranslateTask().prepare(folder.settings, scratch)

    def layers() -> tuple[RecurrentStack, Iterator[Tensor]]:
        encoder = open_translator(folder.path).models[0].encoder
        sources = _looked_at(prepared).sources
        lines = [sources.line(number) for number in _some(sources.lengths_N.tolist())]
        return encoder.stack, (
            encoder.inputs(torch.from_numpy(line.astype(np.int64)).unsqueeze(0)) for line in lines
        )

    parts = prepared.parts.items()
    rows = {name: tuple(line.tobytes() for line in part.sources) for name, part in parts}
    answers = (line.tobytes() for line in prepared.parts["train"].targets)
    return _Read(prepared.facts(), rows, answers, None, layers)


def _nats_of_labels(train: LabelPart, valid: LabelPart, labels: LabelSet) -> float:
    """Return the nats a row of the labels of `valid` by how often each is in `train`."""
    if labels.answers == "one":
        return _nats_by_frequency(train.labels, valid.labels, len(labels))
    shares_C = (_counts(train.labels, len(labels)) + 1.0) / (train.num_rows + 2.0)
    counts_C, rows = _counts(valid.labels, len(labels)), valid.num_rows
    nats_C = counts_C * np.log(shares_C) + (rows - counts_C) * np.log1p(-shares_C)
    return -float(nats_C.sum()) / max(rows, 1)


def _nats_by_frequency(train: LineArray, valid: LineArray, size: int) -> float:
    """Return the nats an answer of `valid` by how often each is in `train`, one added to each."""
    counts_C = _counts(train, size) + 1.0
    wanted_C = _counts(valid, size)
    return -float((wanted_C * np.log(counts_C / counts_C.sum())).sum() / max(wanted_C.sum(), 1))


def _counts(lines: LineArray, size: int) -> npt.NDArray[np.float64]:
    found_C = np.zeros(size)
    for line in lines:
        np.add.at(found_C, line, 1.0)
    return found_C


def _looked_at(prepared: PreparedRows[_Part, Any]) -> _Part:
    """Return the first held-out part, or else the one that is learnt from."""
    parts = prepared.parts
    return next(parts[name] for name in (*PART_NAMES[1:], "train") if name in parts)


def _some(lengths: Iterable[int]) -> list[int]:
    """Return the numbers of `RECORDED` rows at most, spread over all that are not empty."""
    filled = [number for number, length in enumerate(lengths) if length]
    return filled[:: max(1, -(-len(filled) // RECORDED))]
