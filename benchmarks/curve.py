"""Validation perplexity against the time of training, of one run or several beside each other.

    python benchmarks/curve.py RUN… [--picture FILE]

Seconds are those of all updates and validations up to a validation, added up from metrics.jsonl, so
that an interruption costs nothing. The figures are those that a run is chosen by, of a stream in
lanes, which are a little above the exact ones.
"""

import argparse
import json
import math
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pictures import panel

Points = list[tuple[float, int, float]]
"""Seconds, updates, perplexity."""


def points_of(run: Path) -> Points:
    seconds, points = 0.0, []
    with (run / "metrics.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            seconds += event.get("elapsed_seconds", 0.0)
            if event["event"] == "validation":
                points.append((seconds, event["update"], math.exp(event["nats_per_token"])))
    return points


def draw(curves: dict[str, Points], path: Path) -> None:
    ticks = [90, 100, 110, 130, 150, 200, 250, 300, 400, 600, 800, 1000, 1400]
    with panel(path) as axes:
        for name, points in curves.items():
            axes.plot([p[0] / 60 for p in points], [p[2] for p in points], "o-", ms=3, label=name)
        axes.set(xlabel="minutes", ylabel="validation perplexity", yscale="log")
        low, high = axes.get_ylim()
        shown = [tick for tick in ticks if low <= tick <= high]
        axes.set_yticks(shown, [str(tick) for tick in shown])
        axes.minorticks_off()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    curves = {run.name: points_of(run) for run in args.runs}
    table = Table(box=None)
    for title in ("run", "minutes", "updates", "validation perplexity"):
        table.add_column(title, justify="left" if title == "run" else "right")
    for name, points in curves.items():
        for seconds, update, perplexity in points:
            table.add_row(name, f"{seconds / 60:.1f}", f"{update:,}", f"{perplexity:.1f}")
    Console().print(table)
    if args.picture:
        draw(curves, args.picture)


if __name__ == "__main__":
    main()
