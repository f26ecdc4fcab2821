"""Peak memory of a word model's training: each side in a fresh process that measures itself.

A process of its own is the only fair place: the high-water mark of this one never falls again, and
what one side has freed the other would be given for nothing.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elman.kernels.dispatch import Precision
from elman.recipes.benchmark.rows import ModelSizes
from elman.recipes.benchmark.timing import StopAskedError

Side = Literal["elman", "torch"]
SIDES: tuple[Side, Side] = ("elman", "torch")

_CODE = "from elman.recipes.benchmark.memory import answer; answer()"


@dataclass(frozen=True)
class PeakMemory:
    """Bytes resident at most, bytes before the model was built, and how that was learnt.

    None where the system does not tell. The bytes before the model are Python, torch and the text.
    """

    peak_bytes: int | None
    before_bytes: int | None
    measured_by: str


def peak_bytes_of(
    side: Side,
    sizes: ModelSizes,
    num_steps: int,
    precision: Precision,
    *,
    should_stop: Callable[[], bool] = bool,
) -> PeakMemory:
    """Return the peak of a new process that makes `num_steps` updates of one side.

    Raises `RuntimeError` with what the process wrote where it fails, and `StopAskedError` where it
    failed because it was interrupted together with this one.
    """
    import torch

    request = {
        "side": side,
        "sizes": list(sizes),
        "num_steps": num_steps,
        "precision": precision,
        "threads": torch.get_num_threads(),
        "path": sys.path,
    }
    code = f"import json, sys; sys.path[:] = json.loads(sys.argv[1])['path']; {_CODE}"
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(request)],
        capture_output=True,
        text=True,
        check=False,
    )
    if should_stop():
        raise StopAskedError
    if done.returncode:
        raise RuntimeError(f"the process that measures memory failed:\n{done.stderr}")
    told = json.loads(done.stdout)
    return PeakMemory(told["peak"], told["before"], told["by"])


def answer() -> None:
    """Do what the JSON object in the first argument asks for; print the measured bytes as JSON."""
    import torch

    from elman.recipes.benchmark.word_training import DROPOUT, elman_training, torch_training

    request = json.loads(sys.argv[1])
    torch.set_num_threads(request["threads"])
    before, by = high_water_bytes()
    trainer = elman_training(
        ModelSizes(*request["sizes"]), dropout=DROPOUT, precision=request["precision"]
    )
    step: Callable[[], object] = trainer.step
    if request["side"] == "torch":
        step = torch_training(trainer, dropout=DROPOUT).step
        del trainer
    for _ in range(request["num_steps"]):
        step()
    print(json.dumps({"peak": high_water_bytes()[0], "before": before, "by": by}))


def high_water_bytes() -> tuple[int | None, str]:
    """Return the most bytes that this process ever had resident, and where that was read.

    Linux keeps the mark of the program itself in /proc; `getrusage` there also counts the process
    that started it, so that it is asked on other systems only.
    """
    try:
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024, "VmHWM of /proc/self/status"
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return None, "this system does not tell"
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024
    return most * unit, "getrusage, ru_maxrss"
