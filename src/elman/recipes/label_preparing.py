"""From labelled files to arrays: read, split, learn vocabulary and labels from training, encode.

Files are read several times, and rows are not kept: of each there are 32 bytes to tell it from
others, and its labels.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elman.checkpoints.run_folder import LABELS
from elman.config.settings import Settings
from elman.data.examples import InputRows, LabelBatch, LabelBatches
from elman.data.order import EpochOrder
from elman.data.row_log import MEND_OR_SKIP, LineTally
from elman.data.splits import split_labelled, split_lines
from elman.data.token_array import LineArray, write_line_array
from elman.errors import DataError, first_few
from elman.recipes.labelled import (
    LabelledFiles,
    LabelledRow,
    labelled_files,
    require_tables,
    told_rows,
)
from elman.recipes.named_files import require_names
from elman.recipes.prepared_rows import PreparedRows
from elman.recipes.prepared_text import PART_NAMES, PartName
from elman.recipes.row_encoding import EncodedRow, RowEncoder, learnt_encoder
from elman.text.label_set import Answers, LabelSet


@dataclass(frozen=True)
class LabelPart:
    """One part of the data, encoded. `rows` and `labels` belong together, row by row.

    `gold` are the labels as the files have them, those that training did not have among them.
    `given` are digests of what the files have to read in each row, unknown symbols and all.
    """

    rows: InputRows
    labels: LineArray
    gold: tuple[tuple[str, ...], ...]
    given: tuple[bytes, ...]
    unknown: int
    cut: int

    @property
    def num_rows(self) -> int:
        """Rows."""
        return len(self.gold)

    @property
    def row_lengths(self) -> npt.NDArray[np.int64]:
        """Tokens or numbers of each row."""
        return self.rows.lengths_N

    @property
    def num_steps(self) -> int:
        """Tokens, or numbers."""
        return int(self.row_lengths.sum())

    def each_row(self) -> Iterator[EncodedRow]:
        """Yield the encoded rows in order."""
        return (self.rows.row(number) for number in range(self.num_rows))

    def facts(self) -> dict[str, object]:
        """Return what the manifest records of this part."""
        return {
            "rows": self.num_rows,
            "steps": self.num_steps,
            "unknown": self.unknown,
            "cut": self.cut,
            "inputs_sha256": self.rows.digest(),
            "labels_sha256": self.labels.digest(),
        }


@dataclass(frozen=True)
class PreparedLabels(PreparedRows[LabelPart, LabelBatch]):
    """Encoder, labels and the parts that they encoded."""

    encoder: RowEncoder
    labels: LabelSet
    parts: Mapping[PartName, LabelPart]
    notices: tuple[str, ...]

    @property
    def num_targets(self) -> int:
        """Rows to learn from."""
        return self.parts["train"].num_rows

    def vocabularies(self) -> dict[str, str]:
        """Return what is read, and the labels, as a run folder keeps them."""
        name, content = self.encoder.vocabulary
        return {name: content, LABELS: self.labels.to_json()}

    def sizes(self) -> dict[str, int]:
        """Return the counts that the manifest records."""
        rows = {f"{name}_rows": part.num_rows for name, part in self.parts.items()}
        return {"inputs": self.encoder.input_size, "labels": len(self.labels), **rows}

    def batches_in(self, part: LabelPart, order: EpochOrder) -> LabelBatches:
        """Return the batches of a part, its rows in this order."""
        return LabelBatches(part.rows, part.labels, len(self.labels), order)


@dataclass
class _Survey:
    """What one pass over a set of files has seen of each row: its labels, and what tells it."""

    labels: list[tuple[str, ...]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    rows: list[bytes] = field(default_factory=list)
    inputs: list[bytes] = field(default_factory=list)
    without_label: list[LabelledRow] = field(default_factory=list)
    only_lists: bool = True

    @classmethod
    def of(cls, files: LabelledFiles) -> "_Survey":
        seen, same = cls(), dict[tuple[str, ...], tuple[str, ...]]()
        # A line says nothing where several files, or those of a folder, are read.
        one_file = files.is_one_file
        for row in files.rows():
            seen.labels.append(same.setdefault(row.labels, row.labels))
            seen.lines.append(row.line if one_file else 0)
            seen.rows.append(row.row_digest)
            seen.inputs.append(row.input_digest)
            seen.only_lists = seen.only_lists and row.is_list
            if not row.labels:
                seen.without_label.append(row._replace(given=""))
        return seen


@dataclass(frozen=True)
class _Share:
    """The rows of a set of files that make one part: their numbers, ascending."""

    files: LabelledFiles
    survey: _Survey
    kept_N: npt.NDArray[np.int64]

    def rows(self) -> Iterator[LabelledRow]:
        following = iter([*self.kept_N.tolist(), -1])
        wanted = next(following)
        for number, row in enumerate(self.files.rows()):
            if number == wanted:
                yield row
                wanted = next(following)

    def labels(self) -> list[tuple[str, ...]]:
        return [self.survey.labels[number] for number in self.kept_N.tolist()]

    def given(self) -> tuple[bytes, ...]:
        return tuple(self.survey.inputs[number] for number in self.kept_N.tolist())


def prepare_labels(settings: Settings, scratch: Path) -> PreparedLabels:
    """Read, split and encode; arrays are written into the folder `scratch`.

    Raises `DataError` for files that cannot be read, and where there is nothing to tell apart.
    """
    require_names(settings.data)
    files = {
        name: labelled_files(names, settings, scratch, advice=MEND_OR_SKIP)
        for name in PART_NAMES
        if (names := getattr(settings.data, name))
    }
    require_tables(files.values(), settings.data.text_column, settings.data.label_column)
    shares, notices = _shares(settings, files)
    answers = _answers_of([share.survey for share in shares.values()])
    labels = LabelSet.of(shares["train"].labels(), answers)
    if answers == "one" and len(labels) < 2:
        raise DataError(
            "there is nothing to tell apart",
            got=f"the label {labels.labels[0]!r} alone in training",
            allowed="two labels or more",
        )
    encoder = learnt_encoder(shares["train"].rows(), settings)
    parts = {
        name: _encoded(share, encoder, labels, scratch, name) for name, share in shares.items()
    }
    for file in files.values():
        notices += file.notices()
    notices += encoder.notices
    notices += _repeat_notices(shares)
    for name, part in parts.items():
        notices += _part_notices(name, part, labels, encoder)
    return PreparedLabels(encoder, labels, parts, tuple(dict.fromkeys(notices)))


def _shares(
    settings: Settings, files: Mapping[PartName, LabelledFiles]
) -> tuple[dict[PartName, _Share], list[str]]:
    """Read the labels of all rows, and part those of training where a part has no files."""
    data = settings.data
    surveys = {name: _Survey.of(each) for name, each in files.items()}
    train = surveys["train"]
    fractions = {
        "valid_fraction": 0.0 if "valid" in files else data.valid_fraction,
        "test_fraction": 0.0 if "test" in files else data.test_fraction,
    }
    seed = settings.training.seed
    if data.split == "auto":
        numbers = {label: n for n, label in enumerate(dict.fromkeys(train.labels))}
        labels_N = np.array([numbers[label] for label in train.labels], dtype=np.int64)
        split = split_labelled(labels_N, **fractions, seed=seed)
    else:
        split = split_lines(len(train.labels), **fractions, seed=seed, mode=data.split)
    chosen = dict(zip(PART_NAMES, (split.train_N, split.valid_N, split.test_N), strict=True))
    shares: dict[PartName, _Share] = {}
    for name in PART_NAMES:
        if name != "train" and name in files:
            whole_N = np.arange(len(surveys[name].labels), dtype=np.int64)
            shares[name] = _Share(files[name], surveys[name], whole_N)
        elif len(chosen[name]):
            shares[name] = _Share(files["train"], train, chosen[name])
    return shares, list(split.notices)


def _answers_of(surveys: Sequence[_Survey]) -> Answers:
    """Return whether rows have one label each; a row of none fits only where they have several."""
    if any(len(row) > 1 for survey in surveys for row in survey.labels):
        return "several"
    without = {(row.file, row.line): row for survey in surveys for row in survey.without_label}
    if not without:
        return "one"
    if all(survey.only_lists for survey in surveys):
        return "several"
    raise DataError(
        "these rows have no label, and the others have one each",
        got=told_rows([*without.values()]),
        hint="give each a label, or take it out",
    )


def _encoded(
    share: _Share, encoder: RowEncoder, labels: LabelSet, scratch: Path, name: PartName
) -> LabelPart:
    unknown = cut = 0

    def encoded() -> Iterator[EncodedRow]:
        nonlocal unknown, cut
        for row in share.rows():
            array = encoder.encode(row.given)
            unknown += encoder.count_unknown(array)
            cut += encoder.is_cut(row.given, array)
            yield array

    rows = encoder.stored(scratch, name, encoded())
    gold = share.labels()
    ids = (np.array(labels.ids(row), dtype=np.int64) for row in gold)
    stored = write_line_array(scratch, f"{name}.labels", ids, len(labels))
    return LabelPart(rows, stored, tuple(gold), share.given(), unknown, cut)


def _repeat_notices(shares: Mapping[PartName, _Share]) -> list[str]:
    """Return what is said twice: within training, and in training and a part held out."""
    told = []
    train = shares["train"]
    seen_rows, seen_inputs = set[bytes](), set[bytes]()
    repeated, contradicted = LineTally(), LineTally()
    for number in train.kept_N.tolist():
        row, given = train.survey.rows[number], train.survey.inputs[number]
        line = train.survey.lines[number]
        if row in seen_rows:
            repeated.add(line)
        elif given in seen_inputs:
            contradicted.add(line)
        seen_rows.add(row)
        seen_inputs.add(given)
    for tally, what in (
        (repeated, "twice with the same label"),
        (contradicted, "before with another label"),
    ):
        if tally.count:
            occur = "occurs" if tally.count == 1 else "occur"
            told.append(f"train: {_rows(tally.count)} {occur} {what}{_where(tally)}")
    for name, share in shares.items():
        if name == "train":
            continue
        both = LineTally()
        for number in share.kept_N.tolist():
            if share.survey.inputs[number] in seen_inputs:
                both.add(share.survey.lines[number])
        if both.count:
            verb = "is" if both.count == 1 else "are"
            hint = "; data.repeats=drop leaves them out" if share.files is train.files else ""
            told.append(
                f"{name}: {_rows(both.count)} of {len(share.kept_N):,} {verb} in training too"
                f"{_where(both)}{hint}"
            )
    return told


def _part_notices(
    name: PartName, part: LabelPart, labels: LabelSet, encoder: RowEncoder
) -> Iterator[str]:
    yield from (f"{name}: {line}" for line in encoder.cut_notices(part.cut))
    if name == "train":
        empty = int((part.rows.lengths_N == 0).sum())
        if empty:
            yield f"train: {_rows(empty)} without any token that is kept"
        return
    strange = [row for row in part.gold if any(labels.id_of(label) is None for label in row)]
    if strange:
        names = sorted({label for row in strange for label in row if labels.id_of(label) is None})
        shown = first_few(names)
        yield (
            f"{name}: {_rows(len(strange))} with a label that training does not have ({shown}), "
            "counted as wrong"
        )


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _where(tally: LineTally) -> str:
    lines = tally.told_lines()
    return f" ({lines})" if lines else ""
