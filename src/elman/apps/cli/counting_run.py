"""A count model as a person sees it made: what was read, which orders were tried, its scores."""

import math
from collections.abc import Mapping
from pathlib import Path

from rich.table import Table

from elman.apps.cli.interrupts import EXIT_INTERRUPTED
from elman.apps.cli.language_view import LanguageView, level_figure
from elman.apps.cli.output import error_console, print_json, program, say
from elman.apps.cli.progress import stages
from elman.apps.cli.stopped import kept_of_start
from elman.apps.cli.train_options import Invocation
from elman.config.text_settings import Level
from elman.recipes.counting import CountRun, OrderTried, count_run, scored_count_run
from elman.recipes.training_request import TrainRequest


def run_counting(request: TrainRequest, invocation: Invocation) -> int:
    """Count, show it, and return the exit status."""
    try:
        with stages(error_console()) as on_stage:
            run = count_run(request, on_stage=on_stage)
        view = LanguageView()
        view.tell_text(run.prepared, run.settings.text.level)
        _tell_model(run)
        with stages(error_console()) as on_stage:
            on_stage("scoring what is held out …")
            scores = scored_count_run(run, on_scored=lambda num_tokens: None)
    except KeyboardInterrupt:
        kept = kept_of_start(request.out) or "nothing was kept that cannot be counted again"
        say(f"interrupted; {kept}")
        return EXIT_INTERRUPTED
    if invocation.as_json:
        tried = [one._asdict() for one in run.tried]
        told = {"order": run.model.tables.order, "tried": tried}
        print_json({"run": str(run.folder.path), "counts": told, "scores": scores})
    if scores:
        view.tell_scores(scores)
    say(f"run: {run.folder.path}")
    say(f"next: {program()} {view.next_step(str(run.folder.path))}")
    return 0


def tell_finished(out: Path, scores: Mapping[str, Mapping[str, object]], *, as_json: bool) -> int:
    """Tell the scores of a count model that is made already, and return the exit status."""
    say("this run is finished: there is nothing left to do")
    if as_json:
        print_json({"run": str(out), "scores": scores})
    if scores:
        LanguageView().tell_scores(scores)
    return 0


def _tell_model(run: CountRun) -> None:
    facts = run.model.describe()
    say(f"model: {facts['cell']}, {facts['layers']}")
    say(f"       {int(facts['parameters']):,} numbers kept")
    if run.tried:
        error_console().print(_orders(run.tried, run.model.tables.order, run.settings.text.level))
    for notice in (*run.prepared.notices, *run.notices):
        say(f"note: {notice}")


def _orders(tried: tuple[OrderTried, ...], chosen: int, level: Level) -> Table:
    """Return the orders that were tried, with what they cost on the validation part."""
    unit = {"char": "bits/char", "byte": "bits/byte"}.get(level, "perplexity")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("order", f"held out, {unit}", "histories seen"):
        table.add_column(title, justify="right")
    table.add_column("")
    for one in tried:
        figure = level_figure(one.nats_per_token, level)
        if math.isinf(one.nats_per_token):
            figure = "infinite"
        mark = "chosen" if one.order == chosen else ""
        table.add_row(str(one.order), figure, f"{100 * one.share_seen:.1f} %", mark)
    return table
