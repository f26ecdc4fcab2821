"""A queue of `elman` commands that stops and goes on: each step once, its JSON kept."""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Step:
    """One command of `elman`; a training one makes the run OUT/name."""

    name: str
    arguments: tuple[str, ...]
    trains: bool = False


def do(step: Step, out: Path, threads: int) -> bool:
    """Run one step, and keep what it prints where it succeeded."""
    command = [sys.executable, "-m", "elman", *(("train",) if step.trains else ("score",))]
    run = out / step.name
    if step.trains and run.exists():
        command += [step.arguments[0], "--out", str(run), "--resume"]
    else:
        command += [*step.arguments, *(("--out", str(run)) if step.trains else ())]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    begun, before = time.monotonic(), _processor_seconds()
    with (out / f"{step.name}.log").open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*command, "--json"], stdout=subprocess.PIPE, stderr=log, env=environment, text=True
        )
        try:
            printed, _ = process.communicate()
        except KeyboardInterrupt:
            process.terminate()  # it saves, and goes on from there when the queue is begun again
            process.communicate()
            raise
    took = time.monotonic() - begun
    if process.returncode:
        print(f"{step.name}: failed after {took:.0f} s, see {step.name}.log", flush=True)
        return False
    spent = {"seconds": took, "processor_seconds": _processor_seconds() - before}
    told = json.loads(printed) | spent | {"threads": threads}
    whole = out / f"{step.name}.json.part"
    whole.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    whole.rename(out / f"{step.name}.json")
    print(f"{step.name}: done in {took:.0f} s", flush=True)
    return True


def _processor_seconds() -> float:
    """Return those of all commands that have ended, which other work disturbs less than time."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def told_by(step: Step, out: Path) -> dict[str, object] | None:
    """Return what `step` printed, with its seconds; None where it is not done."""
    path = out / f"{step.name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def work_through(steps: Iterable[Step], args: argparse.Namespace) -> None:
    """Do every step that `args.patterns` name and that is not done, or list them."""
    args.out.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):  # a background job is begun with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    for step in chosen(steps, args.patterns):
        if args.list:
            print(step.name, *step.arguments)
        elif told_by(step, args.out) is None:
            try:
                do(step, args.out, args.threads)
            except KeyboardInterrupt:
                sys.exit(f"stopped in {step.name}; the same command goes on")


def chosen(steps: Iterable[Step], patterns: list[str]) -> list[Step]:
    """Return the steps whose name begins with a pattern, all of them without one."""
    return [one for one in steps if not patterns or any(map(one.name.startswith, patterns))]


def queue_arguments(description: str | None) -> argparse.Namespace:
    """Return DATA, CUT, OUT, the patterns and options of a queue from the command line."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("data", "cut", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_intermixed_args()
    for name in ("data", "cut", "out"):
        setattr(args, name, getattr(args, name).resolve())
    return args
