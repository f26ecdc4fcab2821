"""What a batch is, and what can be asked of anything that gives batches."""

from typing import NamedTuple, Protocol, Self, TypeVar

import torch


class Batch(Protocol):
    """What a trainer asks of a batch of any kind."""

    @property
    def num_targets(self) -> int:
        """The number of supervised answers: tokens, labels or tags."""
        ...

    @property
    def continues(self) -> bool:
        """Whether every row goes on where the same row of the batch before ended."""
        ...

    @property
    def num_rows(self) -> int:
        """Rows: lanes of a stream, lines, or whatever is answered by itself."""
        ...

    def rows(self, which: slice) -> Self:
        """Return these rows alone, as wide as they are here."""
        ...


BatchT_co = TypeVar("BatchT_co", bound=Batch, covariant=True)


class TokenBatch(NamedTuple):
    """Inputs, the ids to predict from them, and how many positions of each row are real.

    ids_BT: [B, T] int64, what is read; targets_BT: [B, T] int64, what is predicted at the same
    position; lengths_B: [B] int64, 0 <= length <= T. Positions t >= lengths_B[b] are padding:
    their ids are valid row numbers of an embedding and carry no loss. `continues` is True where
    row b goes on where row b of the batch before ended, so that the state is carried in; False
    where every row starts from zeros.
    """

    ids_BT: torch.Tensor
    targets_BT: torch.Tensor
    lengths_B: torch.Tensor
    continues: bool

    @property
    def num_targets(self) -> int:
        """The number of supervised positions, the sum of the lengths."""
        return int(self.lengths_B.sum())

    @property
    def num_rows(self) -> int:
        """B."""
        return len(self.lengths_B)

    def rows(self, which: slice) -> "TokenBatch":
        """Return these rows alone, as wide as they are here."""
        ids_BT, targets_BT, lengths_B, continues = self
        return TokenBatch(ids_BT[which], targets_BT[which], lengths_B[which], continues)


class BatchSource(Protocol[BatchT_co]):
    """Batches by number: `batch(epoch, index)` is a pure function of its two numbers.

    The position in the data is therefore just (epoch, index), and nothing else has to be saved to
    go on in the middle of an epoch.
    """

    @property
    def num_targets(self) -> int:
        """Supervised positions in one epoch; the same in every epoch."""
        ...

    @property
    def num_sequences(self) -> int:
        """Sequences in one epoch: lanes of a stream, or lines."""
        ...

    def batches_per_epoch(self, epoch: int) -> int:
        """Return the number of batches in `epoch` (0-based)."""
        ...

    def batch(self, epoch: int, index: int) -> BatchT_co:
        """Return batch `index` (0-based) of `epoch`; IndexError outside the epoch."""
        ...
