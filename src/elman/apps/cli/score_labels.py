"""`elman score` of a classifier: accuracy, F1, calibration, classes and confusions."""

from dataclasses import replace
from pathlib import Path

from elman.apps.cli.column_options import ColumnOptions
from elman.apps.cli.label_output import label_figures
from elman.apps.cli.output import error_console, output_console, print_json, say, tell_kernels
from elman.apps.cli.progress import scoring
from elman.errors import SettingError, first_few
from elman.evaluation.confusion_picture import MOST_DRAWN_LABELS, draw_confusion
from elman.evaluation.label_sets import LabelSetScores
from elman.evaluation.label_tables import class_table, confusion_table
from elman.evaluation.labels import OTHERS, LabelScores
from elman.recipes.classifying import open_classifier, score_labelled
from elman.recipes.scoring import ScoreRequest

MOST_CLASSES = 40
"""Classes in the table for people; of more those with the most mistakes are shown."""


def show_label_scores(
    run: Path,
    request: ScoreRequest,
    columns: ColumnOptions,
    picture: Path | None,
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    """Score labelled files and show the figures; draw the confusions where asked."""
    classifier = replace(open_classifier(run, request.ensemble), processes=request.processes)
    if picture is not None and classifier.labels.answers == "several":
        raise SettingError(
            "--picture draws which label was taken for which",
            got="a run that gives any number of labels to a row",
        )
    if columns.text_column and classifier.settings.model.input == "series":
        raise SettingError(
            "--text-column is for texts; a run of series reads every column but the label's",
            got=columns.text_column,
        )
    with scoring(error_console(), "rows") as on_scored:
        report, notices = score_labelled(
            classifier,
            request.names,
            encoding=request.encoding,
            text_column=columns.text_column,
            label_column=columns.label_column,
            batch_size=request.batch_size,
            on_scored=on_scored,
        )
    for notice in notices:
        say(f"note: {notice}")
    if verbose:
        tell_kernels(classifier.plan.record())
    scores = report.scores
    if picture is not None and isinstance(scores, LabelScores):
        _draw(scores, picture, title=f"{run.name} on {', '.join(request.names)}")
    figures = report.to_json()
    if as_json:
        print_json(figures)
        return
    output_console().print(label_figures({", ".join(request.names): figures}))
    _print_classes(scores)
    if scores.unknown_labels:
        named = first_few([f"{label} {count:,}" for label, count in scores.unknown_labels])
        say(f"note: training has no label {named}: these rows count as wrong")


def _draw(scores: LabelScores, picture: Path, *, title: str) -> None:
    draw_confusion(scores, picture, title=title)
    say(f"picture: {picture}")
    joined = len(scores.labels) - MOST_DRAWN_LABELS + 1
    if joined > 1:
        say(
            f"note: the picture has the {MOST_DRAWN_LABELS - 1} most confused labels; the "
            f"other {joined:,} stand together as {OTHERS}"
        )


def _print_classes(scores: LabelScores | LabelSetScores) -> None:
    """Print the figures of each class, or of those with most mistakes, and what was confused."""
    classes = sorted(
        scores.classes,
        key=lambda each: 2 * each.num_right - each.num_gold - each.num_predicted,
    )
    shown = {each.label for each in classes[:MOST_CLASSES]}
    table = class_table([each for each in scores.classes if each.label in shown])
    print(f"\n{table}")
    if len(classes) > MOST_CLASSES:
        print(f"and {len(classes) - MOST_CLASSES:,} more labels with fewer mistakes (--json)")
    if isinstance(scores, LabelScores):
        print(f"\n{confusion_table(scores, width=output_console().width)}")
