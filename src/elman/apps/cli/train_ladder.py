"""`elman train ladder`: a whole ladder of models on one text, and the table that compares them."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.options import Whole
from elman.apps.cli.output import program, say
from elman.apps.cli.train_options import FileOptions, HowOptions, Invocation, Out, invocation

if TYPE_CHECKING:
    from elman.recipes.ladder import LadderText, Rung

GO_ON = "the same command; what is finished stays as it is"


def ladder(
    *,
    out: Out,
    files: FileOptions | None = None,
    rungs: Annotated[
        list[str] | None,
        Parameter(
            help="Those to train: unigram, ngram, window-2, window, elman, gru, lstm, transformer. "
            "[default: all]",
            consume_multiple=True,
            negative="",
        ),
    ] = None,
    cache: Annotated[
        Whole, Parameter(help="Compare with a cache of this many states too; 0: none.")
    ] = 0,
    level: Annotated[
        Literal["char", "byte", "word", "bpe"] | None, Parameter(help="What one token is.")
    ] = None,
    unit: Annotated[
        Literal["line", "stream"] | None,
        Parameter(help="line: every line stands alone; stream: one long text."),
    ] = None,
    options: HowOptions | None = None,
) -> int:
    """Train a ladder of models on one text, and compare them.

    Counts, windows, recurrent states and attention learn from the same part of the text, and are
    compared on a part that none of them has seen. --budget is for all of them together, in equal
    shares for those that are learnt. The command given again goes on where it was stopped: what is
    finished is not trained again.
    """
    asked = invocation(out, files, options, {"text.level": level, "text.unit": unit})
    from elman.apps.cli.compare import compare_on
    from elman.apps.cli.training_run import train_request
    from elman.recipes.ladder import checked_ladder, ladder_text, rungs_named
    from elman.recipes.launching import require_one_process
    from elman.recipes.mixing import Mixing

    require_one_process("trains a ladder")
    Mixing(cache_size=cache)  # refuses now what it would refuse once all is trained
    chosen, request = rungs_named(rungs or ()), train_request(asked)
    text = ladder_text(request, checked_ladder(chosen, request), out / "text")
    learnt = [rung for rung in chosen if not rung.is_counted]
    share = None if asked.budget_seconds is None else asked.budget_seconds / max(len(learnt), 1)
    for rung in chosen:
        say(f"rung {rung.name}: {rung.meaning}")
        status = _train(asked, rung, text, share if rung in learnt else None)
        if status:
            return status
    runs = tuple(out / rung.name for rung in chosen)
    again = " ".join(f"{run}" for run in runs)
    say(f"compare them again with: {program()} compare {again} {text.test}")
    return compare_on(runs, (str(text.test),), cache=cache, as_json=asked.as_json)


def _train(
    asked: Invocation, rung: "Rung", text: "LadderText", budget_seconds: float | None
) -> int:
    """Train one rung, or go on with it, and return the status; a finished one is passed over."""
    from elman.apps.cli.counting_run import run_counting
    from elman.apps.cli.language_view import LanguageView
    from elman.apps.cli.training_run import run_training, train_request
    from elman.checkpoints.run_folder import STATE, is_finished
    from elman.recipes.ladder import request_of

    place = asked.out / rung.name
    if is_finished(place):
        say(f"{rung.name} is finished")
        return 0
    one = replace(
        asked,
        out=place,
        files={name: (str(path),) for name, path in text._asdict().items()},
        budget_seconds=budget_seconds,
        as_json=False,
        started=time.monotonic(),
    )
    if (place / STATE).is_file():
        no_files: dict[str, tuple[str, ...]] = dict.fromkeys(one.files, ())
        going_on = replace(one, files=no_files, overrides=(), budget_seconds=None, config=None)
        return run_training(LanguageView(), replace(going_on, resume=True), go_on=GO_ON)
    request = request_of(rung, train_request(one))
    if rung.is_counted:
        return run_counting(request, one)
    return run_training(LanguageView(), one, request, go_on=GO_ON)
