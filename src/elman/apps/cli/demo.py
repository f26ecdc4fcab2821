"""`elman demo`: the main job, on a text that every Python carries."""

import time
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.options import Whole


def demo(
    *,
    out: Annotated[
        Path | None, Parameter(help="Folder of the run. [default: a new one under runs/]")
    ] = None,
    corpus: Annotated[
        Literal["language-reference", "unicode-names"],
        Parameter(
            help="language-reference: Python's own manual; unicode-names: names, one a line."
        ),
    ] = "language-reference",
    budget: Annotated[
        str, Parameter(help="Time to take in all, such as 90s or 2m, or in seconds.")
    ] = "100s",
    seed: Annotated[Whole, Parameter(help="Seed of every random draw.")] = 1,
) -> int:
    """Train, compare and sample a small language model in under two minutes.

    Needs no download and no file: the text is one that every Python carries.
    """
    started = time.monotonic()
    from elman.apps.cli.demonstration import run_demo

    return run_demo(out=out, corpus=corpus, budget=budget, seed=seed, started=started)
