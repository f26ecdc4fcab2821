"""`elman train`: learn a model from text that is yours."""

import time
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from elman.apps.cli.options import Json, duration_seconds

train = App(name="train", help="Train a model on your own text.")


@train.command
def lm(
    *,
    out: Annotated[Path, Parameter(help="Folder of the run, made by this command.")],
    data: Annotated[
        list[str] | None,
        Parameter(
            help="Files or folders to learn from; - is standard input, builtin:NAME a built-in one.",
            consume_multiple=True,
            negative="",
        ),
    ] = None,
    valid: Annotated[
        list[str] | None,
        Parameter(
            help="Files to choose by. Without them a part of --data is split off.",
            consume_multiple=True,
            negative="",
        ),
    ] = None,
    test: Annotated[
        list[str] | None,
        Parameter(
            help="Files for the final figure only. Without them a part of --data is split off.",
            consume_multiple=True,
            negative="",
        ),
    ] = None,
    budget: Annotated[
        str,
        Parameter(help="Time to take, such as 90s or 2m: fits size and length of the run to it."),
    ] = "",
    level: Annotated[
        Literal["char", "byte", "word", "bpe"] | None, Parameter(help="What one token is.")
    ] = None,
    unit: Annotated[
        Literal["line", "stream"] | None,
        Parameter(help="line: every line stands alone; stream: one long text."),
    ] = None,
    seed: Annotated[int | None, Parameter(help="Seed of every random draw.")] = None,
    config: Annotated[Path | None, Parameter(help="TOML file of settings.")] = None,
    set_: Annotated[
        list[str] | None,
        Parameter(
            name="--set", help="One setting, as section.key=value; may be repeated.", negative=""
        ),
    ] = None,
    resume: Annotated[
        bool,
        Parameter(negative="", help="Go on with the interrupted run in --out, to the same bits."),
    ] = False,
    json: Json = False,
) -> int:
    """Train a language model: next-token prediction on a text file.

    Progress goes to standard error. Ctrl-C saves and stops with status 130; --resume goes on.
    """
    started = time.monotonic()
    from elman.apps.cli.training_run import Invocation, run_training

    overrides = list(set_ or ())
    for key, value in (("text.level", level), ("text.unit", unit), ("training.seed", seed)):
        if value is not None:
            overrides.append(f"{key}={value}")
    invocation = Invocation(
        out=out,
        files={"train": tuple(data or ()), "valid": tuple(valid or ()), "test": tuple(test or ())},
        config=config,
        overrides=tuple(overrides),
        budget_seconds=duration_seconds(budget) if budget else None,
        started=started,
    )
    return run_training(invocation, resume=resume, as_json=json)
