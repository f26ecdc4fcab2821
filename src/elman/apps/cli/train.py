"""`elman train`: learn a model from text that is yours."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from elman.apps.cli.options import Json, Verbose, WholeOrNone, duration_seconds

train = App(name="train", help="Train a model on your own text.")

Names = list[str] | None


@Parameter(name="*")
@dataclass(frozen=True)
class FileOptions:
    """Which files are learnt from, and which are held out."""

    data: Annotated[
        Names,
        Parameter(
            help="Files or folders to learn from; - is standard input, builtin:NAME one of ours.",
            consume_multiple=True,
            negative="",
        ),
    ] = None
    valid: Annotated[
        Names,
        Parameter(
            help="Files to choose by. Without them a part of --data is split off.",
            consume_multiple=True,
            negative="",
        ),
    ] = None
    test: Annotated[
        Names,
        Parameter(
            help="Files for the final figure only. Without them a part of --data is split off.",
            consume_multiple=True,
            negative="",
        ),
    ] = None


@train.command
def lm(
    *,
    out: Annotated[Path, Parameter(help="Folder of the run, made by this command.")],
    files: FileOptions | None = None,
    budget: Annotated[
        str,
        Parameter(help="Time to take, such as 90s or 2m: fits the run to it.", show_default=False),
    ] = "",
    level: Annotated[
        Literal["char", "byte", "word", "bpe"] | None, Parameter(help="What one token is.")
    ] = None,
    unit: Annotated[
        Literal["line", "stream"] | None,
        Parameter(help="line: every line stands alone; stream: one long text."),
    ] = None,
    seed: Annotated[WholeOrNone, Parameter(help="Seed of every random draw.")] = None,
    encoding: Annotated[str | None, Parameter(help="Encoding of the files.")] = None,
    config: Annotated[Path | None, Parameter(help="TOML file of settings.")] = None,
    set_: Annotated[
        Names,
        Parameter(name="--set", help="A setting, as section.key=value; repeatable.", negative=""),
    ] = None,
    resume: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Go on with the interrupted run in --out."),
    ] = False,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Train a language model: next-token prediction on a text file.

    Progress goes to standard error. Ctrl-C saves and stops with status 130; --resume goes on, to
    the same bits. docs/settings.md lists every setting.
    """
    started = time.monotonic()
    from elman.apps.cli.training_run import Invocation, run_training

    named: dict[str, object] = {
        "text.level": level,
        "text.unit": unit,
        "text.encoding": encoding,
        "training.seed": seed,
    }
    given = files or FileOptions()
    invocation = Invocation(
        out=out,
        files={
            "train": tuple(given.data or ()),
            "valid": tuple(given.valid or ()),
            "test": tuple(given.test or ()),
        },
        config=config,
        overrides=(*(set_ or ()), *(f"{k}={v}" for k, v in named.items() if v is not None)),
        budget_seconds=duration_seconds(budget) if budget else None,
        started=started,
    )
    return run_training(invocation, resume=resume, as_json=json, verbose=verbose)
