"""The options that `elman train` has for every task, and what they ask for together."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from elman.apps.cli.options import Json, Verbose, WholeOrNone, duration_seconds

Names = list[str] | None
Out = Annotated[Path, Parameter(help="Folder of the run, made by this command.")]


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


@Parameter(name="*")
@dataclass(frozen=True)
class HowOptions:
    """How long to train, from which seed and with which settings."""

    budget: Annotated[
        str,
        Parameter(
            help="Time to take, such as 90s, 2m or 1h30m, or in seconds: fits the run to it.",
            show_default=False,
        ),
    ] = ""
    seed: Annotated[WholeOrNone, Parameter(help="Seed of every random draw.")] = None
    encoding: Annotated[str | None, Parameter(help="Encoding of the files.")] = None
    config: Annotated[Path | None, Parameter(help="TOML file of settings.")] = None
    set_: Annotated[
        Names,
        Parameter(name="--set", help="A setting, as section.key=value; repeatable.", negative=""),
    ] = None
    verbose: Verbose = False
    json: Json = False


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions(HowOptions):
    """How to train one run, and whether to go on with it."""

    resume: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Go on with the interrupted run in --out."),
    ] = False


@dataclass(frozen=True)
class Invocation:
    """What a person asked of `elman train`; `started` is the `time.monotonic` of the command."""

    out: Path
    files: Mapping[str, tuple[str, ...]]
    config: Path | None
    overrides: tuple[str, ...]
    budget_seconds: float | None
    resume: bool
    as_json: bool
    verbose: bool
    preset: str = ""
    started: float = field(default_factory=time.monotonic)


def invocation(
    out: Path,
    files: FileOptions | None,
    options: HowOptions | None,
    named: Mapping[str, object],
) -> Invocation:
    """Return the options together. `named` holds the task's own, by the setting that each sets.

    Call it before anything that takes long is imported: a budget counts from here, and settings
    that no run can have are refused at once, with `SettingError`. Options that are None change no
    setting.
    """
    started = time.monotonic()
    from elman.config.settings import Settings
    from elman.config.toml_file import apply_overrides

    given, how = files or FileOptions(), options or HowOptions()
    settings = {**named, "text.encoding": how.encoding, "training.seed": how.seed}
    named_here = (f"{key}={value}" for key, value in settings.items() if value is not None)
    overrides = (*(how.set_ or ()), *named_here)
    apply_overrides(Settings(), overrides)
    return Invocation(
        out=out,
        files={
            "train": tuple(given.data or ()),
            "valid": tuple(given.valid or ()),
            "test": tuple(given.test or ()),
        },
        config=how.config,
        overrides=overrides,
        budget_seconds=duration_seconds(how.budget) if how.budget else None,
        resume=isinstance(how, RunOptions) and how.resume,
        as_json=how.json,
        verbose=how.verbose,
        started=started,
    )
