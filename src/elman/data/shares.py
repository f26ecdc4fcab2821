"""What one of several processes has of the batches that all of them know."""

from typing import Generic, TypeVar

from elman.data.batches import Batch, BatchSource, TokenBatch
from elman.rows import row_share

BatchT = TypeVar("BatchT", bound=Batch)


class SharedRows:
    """The rows of each batch that belong to process `rank` of `size`.

    A process without a row in a batch has one of length 0, which carries no loss.
    """

    def __init__(self, source: BatchSource[TokenBatch], rank: int, size: int) -> None:
        self._source, self._rank, self._size = source, rank, size
        self.num_targets, self.num_sequences = source.num_targets, source.num_sequences

    def batches_per_epoch(self, epoch: int) -> int:
        """Return as many as there are for all processes."""
        return self._source.batches_per_epoch(epoch)

    def batch(self, epoch: int, index: int) -> TokenBatch:
        """Return this process's rows of batch `index`."""
        batch = self._source.batch(epoch, index)
        share = row_share(batch.num_rows, self._rank, self._size)
        own = batch.rows(share.held)
        return own._replace(lengths_B=own.lengths_B * 0) if share.is_spare else own


class SharedBatches(Generic[BatchT]):
    """The whole batches that belong to process `rank` of `size`: every `size`-th one."""

    def __init__(self, source: BatchSource[BatchT], rank: int, size: int) -> None:
        self._source, self._rank, self._size = source, rank, size
        self.num_targets, self.num_sequences = source.num_targets, source.num_sequences

    def batches_per_epoch(self, epoch: int) -> int:
        """Return how many this process has."""
        return len(range(self._rank, self._source.batches_per_epoch(epoch), self._size))

    def batch(self, epoch: int, index: int) -> BatchT:
        """Return the batch that is this process's number `index`."""
        if not 0 <= index < self.batches_per_epoch(epoch):
            raise IndexError(f"batch {index} of {self.batches_per_epoch(epoch)}")
        return self._source.batch(epoch, self._rank + index * self._size)
