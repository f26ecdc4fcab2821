"""Fuzzing that libFuzzer guides: python tests/fuzzing/guided.py "native: loss" -max_total_time=60

The first argument names a subject, the others are libFuzzer's. What makes a fault is written to a
file crash-…, and named in place of the options it is tried again. Guided is what Python runs; C++
is too where the kernels are built with clang and -fsanitize=fuzzer-no-link.
"""

import random
import sys
import tempfile
from pathlib import Path
from typing import Any


def main() -> int:
    """Fuzz one subject until libFuzzer ends it."""
    try:
        import atheris
    except ImportError:
        print("atheris is not installed; install it with: python -m pip install atheris")
        return 2
    with atheris.instrument_imports(include=["elman"], enable_loader_override=False):
        from fuzz_subjects import all_subjects
    named = {subject.name: subject for subject in all_subjects()}
    if len(sys.argv) < 2 or sys.argv[1] not in named:
        print("name one of the subjects:", *named, sep="\n  ")
        return 2
    subject = named[sys.argv.pop(1)]
    with tempfile.TemporaryDirectory(prefix="elman-fuzz-") as scratch:
        subject.prepare(Path(scratch))
        options = ["-len_control=0", "-max_len=4096", *sys.argv[1:]]
        atheris.Setup(
            [sys.argv[0], *options], lambda data: _try(subject, atheris.FuzzedDataProvider(data))
        )
        atheris.Fuzz()
    return 0


def _try(subject: Any, provider: Any) -> None:
    from outcomes import outcome_of_use

    attempt = subject.attempt(Drawn(provider))
    outcome = outcome_of_use(attempt.use, within_limits=False)  # libFuzzer has its own
    if outcome.kind == "fault":
        raise AssertionError(f"{attempt.changed}: {outcome.told}")


class Drawn(random.Random):
    """Choices that are taken from the bytes which libFuzzer gives; zeros after their end."""

    def __init__(self, provider: Any) -> None:
        super().__init__(0)
        self._provider = provider

    def random(self) -> float:
        """Return a number of [0, 1)."""
        return self._provider.ConsumeIntInRange(0, 2**53 - 1) / 2**53

    def getrandbits(self, k: int, /) -> int:
        """Return k bits."""
        return int.from_bytes(self._provider.ConsumeBytes((k + 7) // 8), "little") % 2**k


if __name__ == "__main__":
    sys.exit(main())
