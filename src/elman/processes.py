"""One process, or several that share the rows of each batch: what they have to tell each other.

A `Processes` is one alone. `SeveralProcesses` are those of `torch.distributed`, all of which have
to ask the same things in the same order.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from elman.errors import RunError
from elman.rows import RowShare, row_share

BUCKET_MB = 4
"""Gradients exchanged at once: small, so that the exchange begins while others are still made."""


def usable_cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Processes:
    """One process alone, to which all rows belong."""

    rank = 0
    size = 1

    def share(self, num_rows: int) -> RowShare:
        """Return the rows of a batch that are this process's own."""
        return row_share(num_rows, self.rank, self.size)

    def sum_of(self, number: float) -> float:
        """Return the sum of the numbers of all processes; the same bits in each."""
        return number

    def sums_of(self, numbers: Tensor) -> Tensor:
        """Return the sums over processes of tensors of one shape and type; the same in each."""
        return numbers

    def any_of(self, flag: bool) -> bool:
        """Return whether any process says so."""
        return flag

    def gathered(self, part_BN: Tensor, num_rows: int) -> Tensor:
        """Return all `num_rows` rows from those that each process holds, copied."""
        return part_BN.clone()

    def texts(self, own: str) -> list[str]:
        """Return the text that each process gives, by its number."""
        return [own]

    def sharing(self, module: nn.Module, *, may_skip: bool) -> nn.Module:
        """Return `module` with gradients that are the mean over processes in each of them.

        `may_skip` says that a batch may leave parameters without a gradient.
        """
        return module


class SeveralProcesses(Processes):
    """The default group of `torch.distributed`, which must be there.

    Sums are made in one order, whose result every process gets: they decide alike. Raises
    `RunError` where another process has ended.
    """

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def sum_of(self, number: float) -> float:
        """Return the sum over processes, in float64."""
        return float(self.sums_of(torch.tensor([number], dtype=torch.float64)))

    def sums_of(self, numbers: Tensor) -> Tensor:
        """Return the sums over processes of tensors of one shape and type; the same in each."""
        sums = numbers.clone()
        with lost_processes():
            dist.all_reduce(sums)
        return sums

    def any_of(self, flag: bool) -> bool:
        """Return whether any process says so."""
        return self.sum_of(float(flag)) > 0.0

    def gathered(self, part_BN: Tensor, num_rows: int) -> Tensor:
        """Return all rows; each process sends its own, bit by bit."""
        whole_BN = part_BN.new_empty(num_rows, *part_BN.shape[1:])
        own = self.share(num_rows)
        whole_BN[own.first : own.stop] = part_BN[: own.stop - own.first]
        for rank in range(self.size):
            share = row_share(num_rows, rank, self.size)
            if not share.is_spare:
                with lost_processes():
                    dist.broadcast(whole_BN[share.first : share.stop], src=rank)
        return whole_BN

    def texts(self, own: str) -> list[str]:
        """Return the text that each process gives, by its number."""
        given = torch.frombuffer(bytearray(own.encode() + b" "), dtype=torch.uint8)
        found = list[str]()
        for rank in range(self.size):
            num_bytes = int(self.sum_of(float(len(given)) if rank == self.rank else 0.0))
            told = given if rank == self.rank else given.new_empty(num_bytes)
            with lost_processes():
                dist.broadcast(told, src=rank)
            found.append(told.numpy().tobytes().decode()[:-1])
        return found

    def sharing(self, module: nn.Module, *, may_skip: bool) -> nn.Module:
        """Return `module` under `DistributedDataParallel`; rank 0 tells the others its weights."""
        with lost_processes(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # the new name of one option is younger
            return DistributedDataParallel(  # than the oldest torch that is served
                module,
                broadcast_buffers=False,
                bucket_cap_mb=BUCKET_MB,
                find_unused_parameters=may_skip,
            )


class ProcessLostError(RunError):
    """Another process of the same training has ended."""


@contextmanager
def lost_processes() -> Iterator[None]:
    """Turn what a connection that ended raises into one line."""
    try:
        yield
    except RuntimeError as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        told = isinstance(error, dist.DistError) or any(word in first for word in _TOLD)
        if not told:
            raise
        raise ProcessLostError(
            "another process of this training has ended, and so does this one",
            hint="what was saved last is whole: go on with --resume, on any number of processes",
        ) from error


_TOLD = ("gloo", "Gloo", "Connection", "connection", "Broken pipe", "Timed out")
