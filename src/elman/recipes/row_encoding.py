"""What a classifier reads of a row: ids of a text, or scaled numbers of a series."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elman.checkpoints.run_folder import SCALING, TOKENIZER, RunFolder
from elman.config.settings import Settings
from elman.data.examples import IdRows, InputRows, SeriesRows
from elman.data.scaling import SeriesScaling
from elman.data.series_array import SeriesArray, write_series_array
from elman.data.token_array import join_lines, write_line_array
from elman.recipes.labelled import LabelledRow, RowInput
from elman.recipes.trained import require_same_text
from elman.recipes.unknown_tokens import known_and_unknown
from elman.text.building import build_tokenizer
from elman.text.tokenizer import Tokenizer
from elman.text.tokenizer_file import tokenizer_from_json

EncodedRow = npt.NDArray[Any]
"""Ids [T] int32 of a text, or numbers [T] float32 of a series."""


class RowEncoder(ABC):
    """Rows as arrays, at most `max_length` steps of each (0: all), and arrays side by side."""

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length

    @property
    @abstractmethod
    def vocabulary(self) -> tuple[str, str]:
        """The name and the content of the file of a run that this is kept in."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Lines that a person should see."""
        return ()

    @property
    @abstractmethod
    def input_size(self) -> int:
        """How many symbols there are, or how many numbers a step has."""

    @abstractmethod
    def whole(self, given: RowInput) -> EncodedRow:
        """Return a row with all its steps."""

    def token_counts(self, given: RowInput, row: EncodedRow) -> tuple[int, int]:
        """Return tokens of `given`, which `encode` made `row` of, and how many are unknown."""
        return len(row), self.count_unknown(row)

    @abstractmethod
    def count_unknown(self, row: EncodedRow) -> int:
        """Return how many steps of a row are symbols that training did not have."""

    @abstractmethod
    def stored(self, folder: Path, name: str, rows: Iterable[EncodedRow]) -> InputRows:
        """Write rows to the folder, under a name, and return them mapped into memory."""

    @abstractmethod
    def in_memory(self, rows: Sequence[EncodedRow]) -> InputRows:
        """Return rows held in memory."""

    @abstractmethod
    def tokens(self, rows: InputRows) -> list[list[str]]:
        """Return each row as what a bag of words counts: its tokens, or bins of its numbers."""

    def encode(self, given: RowInput) -> EncodedRow:
        """Return a row, cut where it is longer than `max_length`."""
        row = self.whole(given)
        return row[: self.max_length] if self.max_length else row

    def is_cut(self, given: RowInput, row: EncodedRow) -> bool:
        """Return whether `row`, which `encode` made of `given`, lacks steps."""
        full = bool(self.max_length) and len(row) == self.max_length
        return full and len(self.whole(given)) > self.max_length

    def cut_notices(self, count: int) -> tuple[str, ...]:
        """Return what a person is told of `count` rows that were cut: nothing of none."""
        if not count:
            return ()
        rows = "row" if count == 1 else "rows"
        most = f"the first {self.max_length:,} tokens only (data.max_length)"
        return (f"{count:,} {rows} read up to {most}",)


class TextEncoder(RowEncoder):
    """Texts as the ids of a tokenizer; a line end within a text is read as a blank."""

    def __init__(self, tokenizer: Tokenizer, max_length: int) -> None:
        super().__init__(max_length)
        self.tokenizer = tokenizer
        pad_id = tokenizer.vocabulary.pad_id
        assert pad_id is not None  # every vocabulary of lines has one
        self._pad_id = pad_id

    @property
    def vocabulary(self) -> tuple[str, str]:
        """The tokenizer."""
        return TOKENIZER, self.tokenizer.to_json()

    @property
    def notices(self) -> tuple[str, ...]:
        """Those of the tokenizer."""
        return self.tokenizer.notices

    @property
    def input_size(self) -> int:
        """The size of the vocabulary (V)."""
        return len(self.tokenizer.vocabulary)

    def whole(self, given: RowInput) -> EncodedRow:
        """Return the ids [T] of a text."""
        assert isinstance(given, str)
        return self.tokenizer.encode(one_line_of(given))

    def count_unknown(self, row: EncodedRow) -> int:
        """Return how many ids are [ UNK ]."""
        return self.tokenizer.count_unknown(row)

    def token_counts(self, given: RowInput, row: EncodedRow) -> tuple[int, int]:
        """Return tokens and unknown ones, those that the run leaves out among them."""
        assert isinstance(given, str)
        return known_and_unknown(self.tokenizer, one_line_of(given), row)

    def stored(self, folder: Path, name: str, rows: Iterable[EncodedRow]) -> InputRows:
        """Write ids as a `LineArray`."""
        return IdRows(write_line_array(folder, name, rows, self.input_size), self._pad_id)

    def in_memory(self, rows: Sequence[EncodedRow]) -> InputRows:
        """Return ids as a `LineArray`."""
        return IdRows(join_lines(rows, self.input_size), self._pad_id)

    def tokens(self, rows: InputRows) -> list[list[str]]:
        """Return the tokens that the model itself reads, spelled by their ids."""
        assert isinstance(rows, IdRows)
        return [list(map(str, line.tolist())) for line in rows.lines]


class SeriesEncoder(RowEncoder):
    """Series as numbers scaled as those of training."""

    NUM_BINS = 16
    """Bins of a histogram, over ±2 deviations: what an order-blind model is told of a series."""

    def __init__(self, scaling: SeriesScaling, max_length: int) -> None:
        super().__init__(max_length)
        self.scaling = scaling

    @property
    def vocabulary(self) -> tuple[str, str]:
        """The scaling."""
        return SCALING, self.scaling.to_json()

    @property
    def input_size(self) -> int:
        """One number a step."""
        return 1

    def whole(self, given: RowInput) -> EncodedRow:
        """Return the scaled numbers [T]."""
        assert isinstance(given, tuple)
        return self.scaling.scale(given)

    def count_unknown(self, row: EncodedRow) -> int:
        """Return 0: every number is one."""
        return 0

    def stored(self, folder: Path, name: str, rows: Iterable[EncodedRow]) -> InputRows:
        """Write numbers as a `SeriesArray`."""
        return SeriesRows(write_series_array(folder / f"{name}.values", rows))

    def in_memory(self, rows: Sequence[EncodedRow]) -> InputRows:
        """Return numbers as a `SeriesArray`."""
        lengths_N = np.array([len(row) for row in rows], dtype=np.int64)
        values_N = np.concatenate([np.zeros(0, dtype=np.float32), *rows]).astype(np.float32)
        return SeriesRows(SeriesArray(values_N, lengths_N))

    def tokens(self, rows: InputRows) -> list[list[str]]:
        """Return the bin of each number."""
        assert isinstance(rows, SeriesRows)
        edges_N = np.linspace(-2.0, 2.0, self.NUM_BINS - 1)
        series = rows.series
        return [
            list(map(str, np.searchsorted(edges_N, series.series(number)).tolist()))
            for number in range(len(series))
        ]


def learnt_encoder(rows: Iterable[LabelledRow], settings: Settings) -> RowEncoder:
    """Return the encoder that is learnt from these rows of training."""
    most = settings.data.max_length
    if settings.model.input == "series":
        given = (row.given for row in rows if isinstance(row.given, tuple))
        return SeriesEncoder(SeriesScaling.of(given), most)
    lines = (f"{one_line_of(row.given)}\n" for row in rows if isinstance(row.given, str))
    return TextEncoder(build_tokenizer(lines, settings.text), most)


def encoder_of_run(folder: RunFolder) -> RowEncoder:
    """Return the encoder that a run keeps. Raises `RunError` where it cannot be used."""
    settings = folder.settings
    if settings.model.input == "series":
        scaling = SeriesScaling.from_json(folder.vocabularies[SCALING])
        return SeriesEncoder(scaling, settings.data.max_length)
    tokenizer = tokenizer_from_json(folder.tokenizer_json)
    require_same_text(settings.text, tokenizer, folder.path)
    return TextEncoder(tokenizer, settings.data.max_length)


def one_line_of(text: str) -> str:
    """Return a text as one line, which is what tokenizers of lines read."""
    return text.replace("\n", " ") if "\n" in text else text
