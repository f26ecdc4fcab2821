"""`elman predict`: what a trained model says of each line of a file."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from elman.apps.cli.options import Ensemble, Run, Verbose, Whole, require_at_least
from elman.apps.cli.search_options import AnswerOptions, asked_search

if TYPE_CHECKING:
    from elman.recipes.prediction_request import PredictRequest


@Parameter(name="*")
@dataclass(frozen=True)
class ReadOptions:
    """How the file is read."""

    format_: Annotated[
        str,
        Parameter(
            name="--format",
            help="How the file is read, such as text, tsv, csv or jsonl; auto: as its ending says, "
            "lines of text where that names none (a run of series: as in training).",
        ),
    ] = "auto"
    column: Annotated[
        str,
        Parameter(
            help="Column of a table to read, its name or its number from 1. [default: as in "
            "training, or as the header says; of two columns the first]",
            show_default=False,
        ),
    ] = ""
    encoding: Annotated[
        str | None, Parameter(help="Encoding of the file. [default: as the run says]")
    ] = None


def predict(
    run: Run,
    file: Annotated[str, Parameter(help="File to read; - reads standard input.")],
    *,
    out: Annotated[
        Path | None,
        Parameter(help="File to write, whole or not at all. [default: standard output]"),
    ] = None,
    json: Annotated[
        bool,
        Parameter(
            name="--json", negative="", show_default=False, help="One JSON object for each line."
        ),
    ] = False,
    probabilities: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Classifiers: the probability of every label too; taggers: of each tag (--json).",
        ),
    ] = False,
    reading: ReadOptions | None = None,
    batch_size: Annotated[Whole, Parameter(help="Rows read at once. Changes no answer.")] = 64,
    ensemble: Ensemble = None,
    sequences: AnswerOptions | None = None,
    verbose: Verbose = False,
) -> int:
    """Answer each line of a file, in order: one line is written for each that is read.

    A classifier writes a label, a tab and its probability. A blank line is answered by a blank one.
    A tagger writes CoNLL and CoNLL-U back with its tags, and a line of tags for a line of text. A
    run that writes sequences writes its answer. Started by torchrun, several processes answer the
    rows of a file together.
    """
    from elman.apps.cli.output import tell_kernels
    from elman.recipes.prediction_request import PredictRequest

    require_at_least("--batch-size", batch_size, 1)
    how, answers = reading or ReadOptions(), sequences or AnswerOptions()
    searches = answers != AnswerOptions(attention=answers.attention)
    request = PredictRequest(
        name=file,
        out=out,
        as_json=json,
        all_probabilities=probabilities,
        data_format=how.format_,
        column=how.column,
        encoding=how.encoding,
        batch_size=batch_size,
        search=asked_search(answers) if searches else None,
        attention=answers.attention,
        ensemble=tuple(ensemble or ()),
        on_kernels=tell_kernels if verbose else lambda record: None,
    )
    _answer(run, request)
    return 0


def _answer(run: Path, request: "PredictRequest") -> None:
    """Answer the file, alone or together with other processes."""
    from elman.apps.cli.output import say
    from elman.apps.cli.shared_work import shared_work
    from elman.apps.cli.stopped import tell_stopped
    from elman.recipes.launching import require_one_process
    from elman.recipes.predicting import predict_file

    if request.attention is not None:
        require_one_process("writes attention")
    with shared_work([request.name]) as processes:
        out = Path(os.devnull) if processes.rank else request.out
        tell_stopped((run, *request.ensemble))
        for notice in predict_file(run, replace(request, out=out, processes=processes)):
            say(f"note: {notice}")
