"""Which rows of a batch are whose, where several processes share it."""

from typing import NamedTuple


class RowShare(NamedTuple):
    """Which rows of a batch of `num_rows` one process takes: `first` … `stop` − 1."""

    first: int
    stop: int
    num_rows: int

    @property
    def is_spare(self) -> bool:
        """Whether there is no row for this process: fewer rows than processes."""
        return self.first == self.stop

    @property
    def held(self) -> slice:
        """The rows to hold: its own, or one that counts for nothing where it has none."""
        return slice(self.first, max(self.stop, self.first + 1))


def row_share(num_rows: int, rank: int, num_processes: int) -> RowShare:
    """Return the rows of process `rank`: contiguous, none left out or had twice, sizes within 1."""
    first, stop = (place * num_rows // num_processes for place in (rank, rank + 1))
    return RowShare(first, stop, num_rows)
