"""`elman score` of a tagger: tokens, sentences, words never seen, spans, each tag."""

from dataclasses import replace
from pathlib import Path

from elman.apps.cli.output import error_console, output_console, print_json, say, tell_kernels
from elman.apps.cli.progress import scoring
from elman.apps.cli.tag_output import tag_table, tag_warnings, tags_table
from elman.recipes.scoring import ScoreRequest
from elman.recipes.tagging import open_tagger, score_tagged


def show_tag_scores(run: Path, request: ScoreRequest, *, as_json: bool, verbose: bool) -> None:
    """Score tagged files and show the figures."""
    tagger = replace(open_tagger(run), processes=request.processes)
    with scoring(error_console()) as on_scored:
        report, notices = score_tagged(
            tagger,
            request.names,
            encoding=request.encoding,
            batch_size=request.batch_size,
            on_scored=on_scored,
        )
    for notice in notices:
        say(f"note: {notice}")
    if verbose:
        tell_kernels(tagger.plan.record())
    figures = report.to_json()
    if as_json:
        print_json(figures)
    else:
        output_console().print(tag_table({", ".join(request.names): figures}))
        print(f"\n{tags_table(figures)}")
    for warning in tag_warnings(figures):
        say(f"warning: {warning}")
