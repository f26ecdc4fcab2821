"""Batches of rows with answers: a label, a tag for each token, another sequence, or numbers."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.data.order import EpochOrder
from elman.data.series_array import SeriesArray
from elman.data.token_array import LineArray


class Padded(NamedTuple):
    """Rows of ids side by side: ids_BT [B, T] int64, the padding id behind each row's own length.

    lengths_B [B] int64.
    """

    ids_BT: Tensor
    lengths_B: Tensor


def padded_rows(lines: LineArray, rows_B: npt.NDArray[np.int64], pad_id: int) -> Padded:
    """Return the lines of these numbers, as wide as the longest of them."""
    lengths_B = lines.lengths_N[rows_B]
    steps_T = np.arange(int(lengths_B.max(initial=0)))
    inside_BT = steps_T < lengths_B[:, None]
    ids_BT = np.full(inside_BT.shape, pad_id, dtype=np.int64)
    places_BT = lines.starts_N[rows_B][:, None] + steps_T
    ids_BT[inside_BT] = np.asarray(lines.ids)[places_BT[inside_BT]]
    return Padded(torch.from_numpy(ids_BT), torch.from_numpy(np.array(lengths_B, dtype=np.int64)))


class LabelBatch(NamedTuple):
    """Sequences and what is to be said of each as a whole.

    inputs: ids [B, T] int64, or numbers [B, T, F] float32; lengths_B [B]; labels_BC [B, C] float32,
    1 for each label of the row.
    """

    inputs: Tensor
    lengths_B: Tensor
    labels_BC: Tensor

    @property
    def num_targets(self) -> int:
        """Rows."""
        return len(self.lengths_B)

    @property
    def continues(self) -> bool:
        """No row goes on from another."""
        return False

    @property
    def num_rows(self) -> int:
        """B."""
        return len(self.lengths_B)

    def rows(self, which: slice) -> "LabelBatch":
        """Return these rows alone, as wide as they are here."""
        return LabelBatch(*(tensor[which] for tensor in self))


class TagBatch(NamedTuple):
    """Sentences and a tag for each token.

    ids_BT [B, T] and lengths_B [B]; spellings_WK [W, K] the characters of each distinct word of the
    batch and spelling_lengths_W [W]; words_BT [B, T] the row of spellings_WK of each token;
    tags_BT [B, T], 0 at padding. All int64.
    """

    ids_BT: Tensor
    lengths_B: Tensor
    words_BT: Tensor
    spellings_WK: Tensor
    spelling_lengths_W: Tensor
    tags_BT: Tensor

    @property
    def num_targets(self) -> int:
        """Tokens that carry a tag."""
        return int(self.lengths_B.sum())

    @property
    def continues(self) -> bool:
        """No row goes on from another."""
        return False

    @property
    def num_rows(self) -> int:
        """B."""
        return len(self.lengths_B)

    def rows(self, which: slice) -> "TagBatch":
        """Return these rows alone, as wide as they are here, with the spellings of all."""
        ids_BT, lengths_B, words_BT, spellings_WK, spelling_lengths_W, tags_BT = self
        mine = ids_BT[which], lengths_B[which], words_BT[which]
        return TagBatch(*mine, spellings_WK, spelling_lengths_W, tags_BT[which])


class PairBatch(NamedTuple):
    """Sources and targets: source_BS, source_lengths_B; target_BT, target_lengths_B (no marks)."""

    source_BS: Tensor
    source_lengths_B: Tensor
    target_BT: Tensor
    target_lengths_B: Tensor

    @property
    def num_targets(self) -> int:
        """Target tokens and one stop mark a row."""
        return int(self.target_lengths_B.sum()) + len(self.target_lengths_B)

    @property
    def continues(self) -> bool:
        """No row goes on from another."""
        return False

    @property
    def num_rows(self) -> int:
        """B."""
        return len(self.source_lengths_B)

    def rows(self, which: slice) -> "PairBatch":
        """Return these rows alone, as wide as they are here."""
        return PairBatch(*(tensor[which] for tensor in self))


class InputRows(Protocol):
    """Rows of ids or of numbers that can be put side by side; lengths_N are their lengths."""

    lengths_N: npt.NDArray[np.int64]

    def row(self, number: int) -> npt.NDArray[Any]:
        """Return one row, without padding."""
        ...

    def padded(self, rows_B: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return inputs [B, T] or [B, T, F] of the rows of these numbers, and lengths_B."""
        ...

    def digest(self) -> str:
        """Return the SHA-256 of the rows, however they are stored."""
        ...


class IdRows:
    """Rows of ids, with `pad_id` behind each."""

    def __init__(self, lines: LineArray, pad_id: int) -> None:
        self.lines, self.pad_id, self.lengths_N = lines, pad_id, lines.lengths_N

    def row(self, number: int) -> npt.NDArray[Any]:
        """Return the ids of one row."""
        return self.lines.line(number)

    def padded(self, rows_B: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return ids_BT and lengths_B."""
        return padded_rows(self.lines, rows_B, self.pad_id)

    def digest(self) -> str:
        """Return the SHA-256 of the ids."""
        return self.lines.digest()


class SeriesRows:
    """Rows of numbers, one at a step, with 0 behind each."""

    def __init__(self, series: SeriesArray) -> None:
        self.series, self.lengths_N = series, series.lengths_N

    def row(self, number: int) -> npt.NDArray[Any]:
        """Return the numbers of one row."""
        return self.series.series(number)

    def padded(self, rows_B: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return values_BTF [B, T, 1] float32 and lengths_B."""
        lengths_B = self.series.lengths_N[rows_B]
        steps_T = np.arange(int(lengths_B.max(initial=0)))
        inside_BT = steps_T < lengths_B[:, None]
        values_BT = np.zeros(inside_BT.shape, dtype=np.float32)
        places_BT = self.series.starts_N[rows_B][:, None] + steps_T
        values_BT[inside_BT] = self.series.values_N[places_BT[inside_BT]]
        lengths = torch.from_numpy(np.array(lengths_B, dtype=np.int64))
        return torch.from_numpy(values_BT).unsqueeze(2), lengths

    def digest(self) -> str:
        """Return the SHA-256 of the numbers."""
        return self.series.digest()


class LabelBatches:
    """Batches of labelled rows; `labels` holds the ids of the labels of each. See `EpochOrder`."""

    def __init__(
        self, rows: InputRows, labels: LineArray, num_labels: int, order: EpochOrder
    ) -> None:
        self.rows, self.labels, self.num_labels, self.order = rows, labels, num_labels, order

    @property
    def num_targets(self) -> int:
        """Rows."""
        return len(self.rows.lengths_N)

    @property
    def num_sequences(self) -> int:
        """Rows."""
        return len(self.rows.lengths_N)

    def batches_per_epoch(self, epoch: int) -> int:
        """Return ceil(rows / batch_size), the same in every epoch."""
        return self.order.batches_per_epoch

    def batch(self, epoch: int, index: int) -> LabelBatch:
        """Return batch `index` of `epoch`; IndexError outside the epoch."""
        rows_B = self.order.rows(epoch, index)
        labels_BC = torch.zeros(len(rows_B), self.num_labels)
        for place, row in enumerate(rows_B.tolist()):
            labels_BC[place, self.labels.line(row).astype(np.int64)] = 1.0
        return LabelBatch(*self.rows.padded(rows_B), labels_BC)


class PairBatches:
    """Batches of pairs of lines: row i of `sources` belongs to row i of `targets`."""

    def __init__(
        self,
        sources: LineArray,
        targets: LineArray,
        order: EpochOrder,
        *,
        source_pad_id: int,
        target_pad_id: int,
    ) -> None:
        self.sources, self.targets, self.order = sources, targets, order
        self.source_pad_id, self.target_pad_id = source_pad_id, target_pad_id

    @property
    def num_targets(self) -> int:
        """Target tokens and one stop mark a row."""
        return int(self.targets.lengths_N.sum()) + len(self.targets)

    @property
    def num_sequences(self) -> int:
        """Pairs."""
        return len(self.targets)

    def batches_per_epoch(self, epoch: int) -> int:
        """Return ceil(rows / batch_size), the same in every epoch."""
        return self.order.batches_per_epoch

    def batch(self, epoch: int, index: int) -> PairBatch:
        """Return batch `index` of `epoch`; IndexError outside the epoch."""
        rows_B = self.order.rows(epoch, index)
        return PairBatch(
            *padded_rows(self.sources, rows_B, self.source_pad_id),
            *padded_rows(self.targets, rows_B, self.target_pad_id),
        )


class TagBatches:
    """Batches of tagged sentences, the spelling of each distinct word once a batch.

    `words` holds the number of each token's spelling in `spellings`, `tags` its tag; both have the
    lengths of `lines`.
    """

    def __init__(
        self,
        lines: LineArray,
        words: LineArray,
        tags: LineArray,
        spellings: LineArray,
        order: EpochOrder,
        *,
        pad_id: int,
        spelling_pad_id: int,
    ) -> None:
        self.lines, self.words, self.tags, self.spellings = lines, words, tags, spellings
        self.order, self.pad_id, self.spelling_pad_id = order, pad_id, spelling_pad_id

    @property
    def num_targets(self) -> int:
        """Tokens."""
        return int(self.lines.lengths_N.sum())

    @property
    def num_sequences(self) -> int:
        """Sentences."""
        return len(self.lines)

    def batches_per_epoch(self, epoch: int) -> int:
        """Return ceil(rows / batch_size), the same in every epoch."""
        return self.order.batches_per_epoch

    def batch(self, epoch: int, index: int) -> TagBatch:
        """Return batch `index` of `epoch`; IndexError outside the epoch."""
        rows_B = self.order.rows(epoch, index)
        ids = padded_rows(self.lines, rows_B, self.pad_id)
        words = padded_rows(self.words, rows_B, 0)
        return spelled_batch(
            ids,
            words.ids_BT,
            padded_rows(self.tags, rows_B, 0).ids_BT,
            self.spellings,
            self.spelling_pad_id,
        )


def spelled_batch(
    ids: Padded, words_BT: Tensor, tags_BT: Tensor, spellings: LineArray, pad_id: int
) -> TagBatch:
    """Return a batch with the spellings of its own words alone, numbered anew from 0.

    Padding has number 0, whose spelling is of a word of the batch and is not read.
    """
    steps_T = torch.arange(words_BT.shape[1])
    inside_BT = steps_T < ids.lengths_B.unsqueeze(1)
    used_W, own_N = torch.unique(words_BT[inside_BT], return_inverse=True)
    own_BT = torch.zeros_like(words_BT)
    own_BT[inside_BT] = own_N
    spelled = padded_rows(spellings, used_W.numpy(), pad_id)
    return TagBatch(ids.ids_BT, ids.lengths_B, own_BT, spelled.ids_BT, spelled.lengths_B, tags_BT)
