"""Native kernels wait for no thread that a forked process lacks, and take no more than allowed."""

import multiprocessing
import subprocess
import sys

import pytest

from elman.kernels.native_module import NOT_BUILT, native_level

pytestmark = [
    pytest.mark.skipif(not native_level(), reason=NOT_BUILT),
    pytest.mark.skipif(
        "fork" not in multiprocessing.get_all_start_methods(), reason="the system cannot fork"
    ),
]

KERNELS = """
import os, sys, numpy as np, torch
from elman.cells.registry import CELLS
from elman.config.model_settings import ModelSettings
from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import row_choices
from elman.decoding.packing import pack_for_generation
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_generation import GeneratorRows
from elman.kernels.native_loss import row_nats
from elman.kernels.native_module import native_level
from elman.kernels.native_recurrence import NativeKernel
from elman.models.recurrent import RecurrentLanguageModel

draw = torch.Generator().manual_seed(1)
cell = CELLS["gru/after/keep"](8, 40)
cell.initialise(draw)
kernel = NativeKernel(cell.key, native_level())
x_BTE = torch.randn(9, 6, 8, generator=draw)
loss_parts = torch.randn(50, 8, generator=draw), torch.randn(90, 8, generator=draw), torch.zeros(90)
targets_N = torch.arange(50)
model = RecurrentLanguageModel(
    ModelSettings(kind="lstm", embedding_size=64, hidden_size=128, num_layers=2), 200, draw
)
packed, _ = pack_for_generation(model, KernelPlan())

def recurrence():
    with torch.no_grad():
        return kernel(x_BTE, tuple(cell.zero_state(9)), cell.kernel_weights)[0]

def loss():
    return row_nats(*loss_parts, targets_N)

def generation():
    rows = GeneratorRows(packed.zero_rows(4), [1, 2, 3, 4])
    choices = row_choices([SamplingSettings(seed=n) for n in range(4)])
    return torch.from_numpy(packed.generate(rows, choices, 20)[0])

part = {"recurrence": recurrence, "loss": loss, "generation": generation}[sys.argv[1]]
"""

FORKING = """
torch.set_num_threads(2)
want = part()
child = os.fork()
if child == 0:
    torch.set_num_threads(1)  # as a DataLoader does: torch's own products would hang otherwise
    torch.get_num_threads = lambda: 2  # and still the kernel is asked for threads
    os._exit(0 if torch.equal(part(), want) else 3)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert torch.equal(part(), want)
"""

WORKERS = """
from torch.utils.data import DataLoader
torch.set_num_threads(2)
want = part()

class Results(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, place):
        return part()

loader = DataLoader(Results(), num_workers=2, multiprocessing_context="fork")
found = [result[0] for result in loader]
assert len(found) == 4
for result in found:
    torch.testing.assert_close(result, want)
assert torch.equal(part(), want)
"""

COUNTING = """
def threads():
    return len(os.listdir("/proc/self/task"))

torch.set_num_threads(1)
part()
before = threads()
part()
assert threads() == before
torch.set_num_threads(3)
part()
# Another compiler than torch's brings a runtime of its own, with threads of its own.
assert before < threads() <= before + 4, (before, threads())
torch.set_num_threads(1)
torch.get_num_threads = lambda: 2**31 - 1  # no runtime can start as many
part()
"""


def run_in_a_process(script, part) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KERNELS + script, part],
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


PARTS = ["recurrence", "loss", "generation"]


@pytest.mark.parametrize("part", PARTS)
def test_a_forked_child_runs_without_waiting_for_threads_it_does_not_have(part) -> None:
    run_in_a_process(FORKING, part)


@pytest.mark.parametrize("part", PARTS)
def test_workers_of_a_data_loader_run_kernels_after_their_parent_did(part) -> None:
    run_in_a_process(WORKERS, part)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
@pytest.mark.parametrize("part", PARTS)
def test_kernels_start_no_more_threads_than_torch_is_set_to(part) -> None:
    run_in_a_process(COUNTING, part)
