"""`elman score`: the exact loss of a trained model on a text, or the figures of its task."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from elman.apps.cli.column_options import ColumnOptions, require_columns_of
from elman.apps.cli.mixing_options import MixingOptions, require_plain
from elman.apps.cli.options import Ensemble, Json, Precision, Run, Verbose, Whole, require_at_least
from elman.apps.cli.output import error_console, print_json, say, score_table, tell_kernels
from elman.apps.cli.search_options import PairScoreOptions
from elman.apps.cli.shared_work import of_the_first, shared_work
from elman.apps.cli.stopped import tell_stopped
from elman.errors import SettingError
from elman.recipes.launching import require_one_process

if TYPE_CHECKING:
    from elman.config.reading_settings import TaskName
    from elman.recipes.mixing import Mixing
    from elman.recipes.scoring import ScoreRequest


def score(
    run: Run,
    files: Annotated[
        list[str] | None,
        Parameter(help="Files or folders to score, in order; - reads standard input.", negative=""),
    ] = None,
    *,
    per_token: Annotated[
        Path | None,
        Parameter(help="Write each token's surprisal in bits, with offsets, to this TSV."),
    ] = None,
    minimal_pairs: Annotated[
        Path | None,
        Parameter(
            help="Score pairs, good⇥bad, in this file, or builtin:agreement: which is likelier?"
        ),
    ] = None,
    encoding: Annotated[
        str | None, Parameter(help="Encoding of the files. [default: as the run says]")
    ] = None,
    unknown: Annotated[
        Literal["refuse", "replace", "skip"] | None,
        Parameter(help="Symbols that the model never saw. [default: as the run says]"),
    ] = None,
    picture: Annotated[
        Path | None,
        Parameter(help="Classifiers: draw the confusion matrix to this .png or .svg file."),
    ] = None,
    columns: ColumnOptions | None = None,
    ensemble: Ensemble = None,
    mixing: MixingOptions | None = None,
    sequences: PairScoreOptions | None = None,
    batch_size: Annotated[Whole, Parameter(help="Lines scored at once. Changes no number.")] = 64,
    window: Annotated[Whole, Parameter(help="Tokens scored at once. Changes no number.")] = 512,
    precision: Precision = "float32",
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Score a text exactly: every token is predicted once, from all the text before it.

    Losses are sums and counts; memory does not grow with the file. Started by torchrun, several
    processes score the rows of a file together. Classifiers score labelled files
    (accuracy, F1, confusions, calibration), taggers tagged ones, and runs that write sequences
    pairs: exact matches, BLEU, chrF, error rates.
    """
    from elman.recipes.scoring import ScoreRequest

    _require_one(files, minimal_pairs, per_token)
    texts, members = tuple(files or ()), tuple(ensemble or ())
    added = (mixing or MixingOptions()).mixing()
    request = ScoreRequest(texts, encoding, unknown, per_token, batch_size, window, members)
    rows = _RowScores(picture, columns or ColumnOptions(), sequences or PairScoreOptions())
    _score_together(
        run, request, minimal_pairs, rows, precision, added, as_json=json, verbose=verbose
    )
    return 0


def _score_together(
    run: Path,
    request: "ScoreRequest",
    minimal_pairs: Path | None,
    rows: "_RowScores",
    precision: Precision,
    added: "Mixing",
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    """Score what was asked for, alone or together with other processes."""
    with shared_work(request.names) as processes:
        table = of_the_first(request.per_token, processes)
        request = replace(request, per_token=table, processes=processes)
        rows = replace(rows, picture=of_the_first(rows.picture, processes))
        task = _task_of(run, (*request.ensemble, *filter(None, [added.other])))
        _require_fitting(task, request, minimal_pairs, rows, precision, added)
        if minimal_pairs is not None:
            _judge(run, minimal_pairs, request, precision, as_json=as_json)
        elif task != "lm":
            _score_rows(task, run, request, rows, as_json=as_json, verbose=verbose)
        else:
            _score(run, request, precision, added, as_json=as_json, verbose=verbose)


def _task_of(run: Path, ensemble: tuple[Path, ...]) -> "TaskName":
    """Return the task of the run; say where it, or one of its ensemble, has not ended."""
    from elman.recipes.trained import task_of

    tell_stopped((run, *ensemble))
    return task_of(run)


@dataclass(frozen=True)
class _RowScores:
    """What only models of rows are asked for."""

    picture: Path | None
    columns: ColumnOptions
    sequences: PairScoreOptions


def _score_rows(
    task: "TaskName",
    run: Path,
    request: "ScoreRequest",
    rows: _RowScores,
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    if task == "translate":
        from elman.apps.cli.score_translations import show_translation_scores

        show_translation_scores(
            run, request, rows.columns, rows.sequences, as_json=as_json, verbose=verbose
        )
    elif task == "tag":
        from elman.apps.cli.score_tagged import show_tag_scores

        show_tag_scores(run, request, as_json=as_json, verbose=verbose)
    else:
        from elman.apps.cli.score_labels import show_label_scores

        show_label_scores(
            run, request, rows.columns, rows.picture, as_json=as_json, verbose=verbose
        )


def _require_one(
    files: list[str] | None, minimal_pairs: Path | None, per_token: Path | None
) -> None:
    if bool(files) == (minimal_pairs is not None):
        raise SettingError(
            "elman score needs a text",
            got="both files and --minimal-pairs" if files else "no file",
            allowed="files to score, or --minimal-pairs FILE",
        )
    if minimal_pairs is not None and per_token is not None:
        raise SettingError(
            "--per-token is for files, and --minimal-pairs gives one figure a sentence",
            got="both",
            hint="leave one of them out",
        )


def _require_fitting(
    task: "TaskName",
    request: "ScoreRequest",
    minimal_pairs: Path | None,
    rows: _RowScores,
    precision: Precision,
    added: "Mixing",
) -> None:
    """Refuse options that mean nothing to a run of this task, and sizes below 1."""
    if not added.is_plain or minimal_pairs is not None:
        require_one_process("scores pairs, and text with what is added to a run")
    require_at_least("--batch-size", request.batch_size, 1)
    require_at_least("--window", request.window, 1)
    require_columns_of(task, rows.columns)
    require_plain(task, added, precision, has_pairs=minimal_pairs is not None)
    if task != "translate" and rows.sequences != PairScoreOptions():
        raise SettingError(
            "the options of searches and targets are for runs that write sequences",
            got=f"a run of elman train {task}",
        )
    if task in ("lm", "tag") and request.ensemble:
        raise SettingError(
            "--ensemble is for classifiers and runs that write sequences",
            got=f"a run of elman train {task}",
        )
    if task != "classify" and rows.picture is not None:
        raise SettingError("--picture is for classifiers", got=f"a run of elman train {task}")
    if task == "lm":
        return
    if minimal_pairs or request.per_token or request.unknown:
        raise SettingError(
            "--minimal-pairs, --per-token and --unknown are for language models",
            got=f"a run of elman train {task}",
        )
    if precision != "float32":
        raise SettingError(
            "--precision is for language models",
            got=f"{precision} with a run of elman train {task}",
            hint="leave it out",
        )


def _score(
    run: Path,
    request: "ScoreRequest",
    precision: Precision,
    added: "Mixing",
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    from elman.apps.cli.progress import fitting_and_scoring, scoring
    from elman.recipes.mixing import score_mixed
    from elman.recipes.precision import PrecisionCost, pack
    from elman.recipes.scoring import score_files
    from elman.recipes.trained import open_trained

    exact = open_trained(run)
    trained = exact if precision == "float32" else pack(exact, precision)[0]
    with fitting_and_scoring(error_console()) as (on_fitted, on_scored):
        score, notices, facts = score_mixed(
            trained, request, added, on_fitted=on_fitted, on_scored=on_scored
        )
    figures = score.to_json() | facts
    if precision != "float32":
        with scoring(error_console()) as on_scored:
            plain = replace(request, per_token=None)
            in_float32, _ = score_files(exact, plain, on_scored=on_scored)
        cost = PrecisionCost(in_float32, score)
        figures |= {
            "precision": precision,
            "bits_per_character_over_float32": cost.bits_per_character,
        }
        say(f"note: {precision} weights take {cost.told} over float32")
    for notice in notices:
        say(f"note: {notice}")
    if verbose:
        tell_kernels(trained.plan.record())
    if as_json:
        print_json(figures)
    else:
        Console(highlight=False).print(score_table({", ".join(request.names): figures}))
    if figures["warning"]:
        say(f"warning: {figures['warning']}")


def _judge(
    run: Path, pairs: Path, request: "ScoreRequest", precision: Precision, *, as_json: bool
) -> None:
    from elman.recipes.minimal_pairs import judge_pairs
    from elman.recipes.precision import pack
    from elman.recipes.trained import open_trained

    trained = open_trained(run)
    if precision != "float32":
        trained = pack(trained, precision)[0]
    judged = judge_pairs(
        trained,
        pairs,
        encoding=request.encoding or trained.settings.text.encoding,
        policy=request.unknown,
    )
    if as_json:
        print_json(judged.to_json())
    else:
        print(judged.summary())
