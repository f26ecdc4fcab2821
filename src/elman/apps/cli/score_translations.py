"""`elman score` of an encoder-decoder: loss, BLEU, chrF, exact matches, error rates."""

from dataclasses import replace
from pathlib import Path

from elman.apps.cli.column_options import ColumnOptions
from elman.apps.cli.output import error_console, output_console, print_json, say, tell_kernels
from elman.apps.cli.progress import scoring
from elman.apps.cli.search_options import PairScoreOptions, asked_search
from elman.apps.cli.translation_output import signatures, translation_figures
from elman.errors import SettingError
from elman.recipes.scoring import ScoreRequest
from elman.recipes.translating import open_translator, score_pairs


def show_translation_scores(
    run: Path,
    request: ScoreRequest,
    columns: ColumnOptions,
    options: PairScoreOptions,
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    """Answer the sources of pairs, and show the figures of the answers."""
    if options.targets and columns != ColumnOptions():
        raise SettingError(
            "files of lines have no columns",
            got=f"--targets with {columns.source_column or columns.target_column}",
            hint="leave out --source-column and --target-column",
        )
    translator = replace(open_translator(run, request.ensemble), processes=request.processes)
    with scoring(error_console(), "pairs") as on_scored:
        report, notices = score_pairs(
            translator,
            request.names,
            options.targets or (),
            translator.search(asked_search(options)),
            encoding=request.encoding,
            source_column=columns.source_column,
            target_column=columns.target_column,
            phones=options.phones,
            batch_size=request.batch_size,
            on_scored=on_scored,
        )
    for notice in notices:
        say(f"note: {notice}")
    if verbose:
        tell_kernels(translator.plan.record())
    figures = report.to_json()
    if as_json:
        print_json(figures)
        return
    output_console().print(translation_figures({", ".join(request.names): figures}))
    for signature in signatures(figures):
        print(signature)
    if report.texts is None:
        say("note: BLEU, chrF and error rates need: pip install 'elman[metrics]'")
