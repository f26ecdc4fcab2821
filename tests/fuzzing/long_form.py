"""Fuzzing for as long as one likes: python tests/fuzzing/long_form.py --seconds 600 --seed 1.

All subjects take turns. Attempts run in a child of this process, so that one that kills it is told
as a fault too. The same seed and number make the same attempt again: --only NAME --number N.
"""

import argparse
import json
import os
import re
import select
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fuzz_subjects import all_subjects
from outcomes import MOST_SECONDS, Outcome, Subject, outcome_of

TURN_SECONDS = 6.0
"""A subject has as many attempts in a row as fit into this."""
MOST_IN_TURN = 400


def main() -> int:
    """Fuzz until the time is over; return 1 where there was a fault."""
    asked = _parser().parse_args()
    subjects = [one for one in all_subjects() if re.search(asked.only, one.name)]
    if not subjects:
        print(
            "no subject of that name; there are:", *(one.name for one in all_subjects()), sep="\n  "
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="elman-fuzz-") as scratch:
        ready = _prepared(subjects, Path(scratch))
        if asked.number is not None:
            faults = sum(_show(one, asked.seed, asked.number) for one in ready)
        else:
            faults = _go_round(ready, asked.seed, asked.first, asked.seconds)
    return 1 if faults else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="subjects whose name this pattern matches")
    parser.add_argument("--first", type=int, default=0, help="the number to begin with")
    parser.add_argument(
        "--number", type=int, help="make this one attempt, and tell what came of it"
    )
    return parser


def _prepared(subjects: list[Subject], scratch: Path) -> list[Subject]:
    for place, subject in enumerate(subjects):
        folder = scratch / str(place)
        folder.mkdir()
        subject.prepare(folder)
    return subjects


def _show(subject: Subject, seed: int, number: int) -> bool:
    outcome = outcome_of(subject, seed, number)
    print(f"{subject.name} {number}: {outcome.kind}: {outcome.told}")
    return outcome.kind == "fault"


def _go_round(subjects: list[Subject], seed: int, first: int, seconds: float) -> int:
    """Give each subject turn after turn; print what came of them, and return how many faults."""
    counts: dict[str, Counter[str]] = {one.name: Counter() for one in subjects}
    following = dict.fromkeys(counts, first)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for subject in subjects:
            left = end - time.monotonic()
            if left <= 0:
                break
            for number, outcome in _turn(subject, seed, following[subject.name], left):
                following[subject.name] = number + 1
                counts[subject.name][outcome.kind] += 1
                if outcome.kind == "fault":
                    print(f'FAULT --only "{subject.name}" --seed {seed} --number {number}')
                    print(f"  {outcome.told}", flush=True)
    return _print_counts(counts, seed)


def _print_counts(counts: dict[str, Counter[str]], seed: int) -> int:
    kinds = ("answered", "refused", "fault")
    print(f"seed {seed}\n{'subject':<28}{'inputs':>9}" + "".join(f"{kind:>10}" for kind in kinds))
    for name, by_kind in counts.items():
        row = "".join(f"{by_kind[kind]:>10,}" for kind in kinds)
        print(f"{name:<28}{by_kind.total():>9,}{row}")
    total = sum(counts.values(), Counter())
    row = "".join(f"{total[kind]:>10,}" for kind in kinds)
    print(f"{'all':<28}{total.total():>9,}{row}")
    return total["fault"]


def _turn(subject: Subject, seed: int, first: int, left: float) -> Iterator[tuple[int, Outcome]]:
    """Yield what came of some attempts in a row, which a child of this process has made."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _attempts_of_child(subject, seed, first, min(left, TURN_SECONDS), writing)
    os.close(writing)
    number, silent = first, False
    with os.fdopen(reading, "rb", buffering=0) as lines:
        while not silent:
            silent = not select.select([lines], [], [], 3 * MOST_SECONDS)[0]
            line = b"" if silent else lines.readline()
            if not line:
                break
            yield number, Outcome(*json.loads(line))
            number += 1
    if silent:  # within compiled code, where no signal is heard
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if silent:
        yield number, Outcome("fault", "it did not end, and heard no signal")
    elif status:
        yield (
            number,
            Outcome("fault", f"the process ended with {os.waitstatus_to_exitcode(status)}"),
        )


def _attempts_of_child(
    subject: Subject, seed: int, first: int, seconds: float, writing: int
) -> None:
    end = time.monotonic() + seconds
    try:
        for number in range(first, first + MOST_IN_TURN):
            outcome = outcome_of(subject, seed, number)
            os.write(writing, json.dumps(outcome).encode() + b"\n")
            if time.monotonic() > end:
                break
        os._exit(0)
    except BaseException:
        traceback.print_exc(limit=-6)
    finally:
        os._exit(3)  # what outcome_of does not catch is a fault of the fuzzing itself


if __name__ == "__main__":
    sys.exit(main())
