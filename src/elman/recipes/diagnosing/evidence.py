"""What a diagnosis looks at: the metrics, weights, saved state and text of one run."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.checkpoints.manifest import IMPORTED, Manifest
from elman.checkpoints.run_folder import MANIFEST, STATE, WEIGHTS, RunFolder
from elman.config.data_settings import DataSettings
from elman.config.settings import Settings
from elman.data.token_array import LineArray
from elman.errors import DataError, ElmanError, RunError
from elman.recipes.diagnosing.gates import GatesOfLayer
from elman.recipes.diagnosing.passages import Passages, passages_of
from elman.recipes.diagnosing.row_evidence import NO_ROWS, RowEvidence, row_evidence
from elman.recipes.prepared_text import PART_NAMES, Part, PreparedText
from elman.recipes.reopening import reopen_prepared
from elman.recipes.trained import TrainedModel, open_trained
from elman.text.raw_files import is_standard_input
from elman.text.tokenizer_file import tokenizer_from_json

MOST_TRAINING_TOKENS = 5_000_000
MOST_HELD_OUT_TOKENS = 500_000
"""Tokens of a part that are looked at, from its beginning."""


MOST_NUMBER = 1e300
"""A number of the metrics beyond this is none."""

MOST_WEIGHT = 1e18
"""Weights beyond this have products that are no float32."""


class Update(NamedTuple):
    """A row of the metrics: nats a token before the update (None: no number), recent nats, rate."""

    update: int
    nats: float | None
    smoothed: float | None
    skipped: bool
    rate: float


class Validation(NamedTuple):
    """A row of the metrics: held-out nats a token after an update, and recent training nats."""

    update: int
    nats: float | None
    training_nats: float | None


class PartText(NamedTuple):
    """Tokens of one part as targets, with stop marks after lines, and where lines begin in them.

    starts_N is empty for a stream. `num_tokens` and `num_unknown` are of the whole part.
    """

    ids_N: npt.NDArray[np.int64]
    starts_N: npt.NDArray[np.int64]
    num_tokens: int
    num_unknown: int

    def lines(self) -> list[npt.NDArray[np.int64]]:
        """Return the lines with their stop marks; none for a stream."""
        return np.split(self.ids_N, self.starts_N[1:]) if len(self.starts_N) else []


class TextEvidence(NamedTuple):
    """What was learnt from, and what was held out: valid before test, as far as they are there."""

    train: PartText
    held_out: Mapping[str, PartText]

    @property
    def looked_at(self) -> PartText:
        """The part that the model is run on: the first held-out one, or else what was learnt."""
        return next(iter(self.held_out.values()), self.train)


@dataclass(frozen=True)
class Evidence:
    """All there is of a run. What could not be read is None or empty, with a line in `left_out`.

    weights, carried: tensors by name, as the files have them. `state_error` is why the saved state
    is not one of this run, "" where it is. text, passages: of language models,
    passages being held-out tokens that the model reads; rows: of all others. is_lacking: whether
    something is missing that such a run has.
    """

    folder: RunFolder
    is_finished: bool
    updates: tuple[Update, ...]
    validations: tuple[Validation, ...]
    weights: Mapping[str, Tensor]
    carried: Mapping[str, Tensor]
    state_error: str
    text: TextEvidence | None
    rows: RowEvidence
    trained: TrainedModel | None
    passages: Passages | None
    left_out: tuple[str, ...]
    is_lacking: bool

    @property
    def unit(self) -> str:
        """What losses are told for each of."""
        return "row" if self.settings.model.task == "classify" else "token"

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        return self.folder.settings

    @property
    def largest_weight(self) -> float:
        """The largest number among the weights, whatever its sign."""
        sizes = [float(each.abs().max()) for each in self.weights.values() if each.numel()]
        return max(sizes, default=0.0)

    @property
    def is_sound(self) -> bool:
        """Whether what the model predicts is made of numbers."""
        if self.passages is None:
            return all(gates.is_finite for gates in self.rows.gates)
        learnt = self.settings.model.kind == "ngram" or self.largest_weight < MOST_WEIGHT
        return learnt and not bool(self.passages.log_probs.isnan().any())

    @property
    def gates(self) -> tuple[GatesOfLayer, ...]:
        """The gates of the layers that read; none where no recurrent model was run."""
        return self.rows.gates if self.passages is None else self.passages.gates


def evidence_of(path: Path) -> Evidence:
    """Return what is known of the run at `path`.

    Raises `RunError` where there is no run to open.
    """
    unkept = not (path / WEIGHTS).exists() and (path / STATE).exists()
    folder = RunFolder.open(path, purpose="resume" if unkept else "use")
    manifest = folder.read_manifest() if (path / MANIFEST).exists() else None
    weights = {} if unkept else folder.map_weights()[0]
    may_run = not unkept and all(bool(torch.isfinite(each).all()) for each in weights.values())
    notes, lacks = list[str](), list[str]()
    if unkept:
        notes.append("no weights were kept yet: the model was not looked at")
    if manifest is None:
        lacks.append("there is no manifest: neither its data nor its end were looked at")
    metrics = _metrics(folder, manifest, notes, lacks)
    text, rows = None, NO_ROWS
    if manifest is not None and IMPORTED not in manifest.data:
        try:
            _require_files(folder.settings.data)
            if folder.settings.model.task == "lm":
                text = _text(folder, manifest.data)
            else:
                rows = row_evidence(folder, manifest.data, may_run=may_run)
        except (ElmanError, OSError) as error:
            lacks.append(f"its data could not be read again, and were not looked at: {error}")
    trained = open_trained(path) if folder.settings.model.task == "lm" and may_run else None
    passages = _passages(trained, text, notes)
    carried, state_error = _carried(folder)
    if metrics and not (path / STATE).exists():
        lacks.append("there is no saved state: it was not looked at, and training cannot go on")
    return Evidence(
        folder,
        manifest is None or manifest.is_finished,
        tuple(_updates(metrics)),
        tuple(_validations(metrics)),
        weights,
        carried,
        state_error,
        text,
        rows,
        trained,
        passages,
        (*lacks, *notes),
        bool(lacks),
    )


def _metrics(
    folder: RunFolder, manifest: Manifest | None, notes: list[str], lacks: list[str]
) -> list[dict[str, object]]:
    """Return the rows of the metrics; of a run that has none, or none to be read, say so."""
    try:
        metrics = folder.read_metrics()
    except RunError as error:
        lacks.append(f"its metrics could not be read, and were not looked at: {error}")
        return []
    if metrics:
        return metrics
    if manifest is not None and IMPORTED in manifest.data:
        notes.append("it was trained elsewhere: neither its data nor its learning were looked at")
    elif folder.settings.model.kind == "ngram":
        notes.append("counts are not learnt step by step: there are no metrics to look at")
    else:
        lacks.append("there are no metrics: how it learnt was not looked at")
    return []


def _passages(
    trained: TrainedModel | None, text: TextEvidence | None, notes: list[str]
) -> Passages | None:
    if text is None:
        return None
    if not text.held_out:
        notes.append("there is no held-out text: nothing that is asked of it was asked")
    if trained is None:
        return None
    part = text.looked_at
    found = passages_of(part.ids_N, part.lines(), trained)
    if found is None:
        notes.append("the held-out text is too short: the model was not run on it")
    return found


def _text(folder: RunFolder, recorded: Mapping[str, object]) -> TextEvidence:
    """Return the text that the run began with, read again from its files."""
    tokenizer = tokenizer_from_json(folder.tokenizer_json)
    with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
        prepared = reopen_prepared(folder.settings, tokenizer, Path(scratch), recorded)
        return _both_parts(prepared)


def _both_parts(prepared: PreparedText) -> TextEvidence:
    boundary = prepared.tokenizer.vocabulary.boundary_id
    parts = prepared.parts
    held_out: dict[str, PartText] = {
        name: _part(parts[name], boundary, MOST_HELD_OUT_TOKENS)
        for name in PART_NAMES
        if name != "train" and name in parts
    }
    return TextEvidence(_part(parts["train"], boundary, MOST_TRAINING_TOKENS), held_out)


def _part(part: Part, boundary: int | None, most: int) -> PartText:
    if not isinstance(part.ids, LineArray):
        ids_N = np.array(part.ids[:most], dtype=np.int64)
        return PartText(ids_N, np.zeros(0, np.int64), part.num_predicted, part.unknown)
    assert boundary is not None
    lines, size = [], 0
    for line in part.ids.framed(boundary):
        lines.append(line[1:])
        size += len(line) - 1
        if size >= most:
            break
    lengths_N = np.array([len(line) for line in lines], dtype=np.int64)
    ids_N = np.concatenate(lines) if lines else np.zeros(0, np.int64)
    return PartText(ids_N, lengths_N.cumsum() - lengths_N, part.num_predicted, part.unknown)


def _require_files(data: DataSettings) -> None:
    """Raise `DataError` for data that can be read only once."""
    for name in (*data.train, *data.valid, *data.test):
        if is_standard_input(name) or Path(name).is_fifo():
            raise DataError("standard input and pipes are not read again", got=name)


def _carried(folder: RunFolder) -> tuple[Mapping[str, Tensor], str]:
    """Return the state that each lane was left in, by name, and why it cannot be used."""
    if not (folder.path / STATE).exists():
        return {}, ""
    try:
        tensors = folder.load_state().tensors
    except (RunError, OSError) as error:
        return {}, str(error)
    return {name: each for name, each in tensors.items() if name.startswith("carried.")}, ""


def _updates(rows: list[dict[str, object]]) -> list[Update]:
    return [
        Update(
            row["update"],
            _number(row.get("nats_per_token")),
            _number(row.get("smoothed_nats")),
            bool(row.get("skipped")),
            _number(row.get("rate")) or 0.0,
        )
        for row in rows
        if row.get("event") == "update" and isinstance(row["update"], int)
    ]


def _validations(rows: list[dict[str, object]]) -> list[Validation]:
    return [
        Validation(
            row["update"],
            _number(row.get("nats_per_token")),
            _number(row.get("training_nats")),
        )
        for row in rows
        if row.get("event") == "validation" and isinstance(row["update"], int)
    ]


def _number(value: object) -> float | None:
    """Return a number of JSON as one that can be reckoned with; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MOST_NUMBER:
        return None
    return float(value)
