"""`elman train classify`: learn to label texts, or series of numbers."""

from typing import Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.train_options import FileOptions, Out, RunOptions, invocation


def classify(
    *,
    out: Out,
    files: FileOptions | None = None,
    format_: Annotated[
        Literal["tsv", "csv", "jsonl", "class-files", "class-folders"] | None,
        Parameter(name="--format", help="How the files are read. [default: as they are called]"),
    ] = None,
    text_column: Annotated[
        str | None, Parameter(help="Column of the texts: its name, or its number from 1.")
    ] = None,
    label_column: Annotated[
        str | None, Parameter(help="Column of the labels: its name, or its number from 1.")
    ] = None,
    label_separator: Annotated[
        str | None,
        Parameter(help="What parts several labels of one text.", allow_leading_hyphen=True),
    ] = None,
    series: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Tables are series of numbers, one a row."),
    ] = False,
    level: Annotated[
        Literal["char", "byte", "word", "bpe"] | None,
        Parameter(help="What one token is. [default: words, or letters where texts are words]"),
    ] = None,
    options: RunOptions | None = None,
) -> int:
    """Train a classifier: a label, or several, for each text of a table or a folder of classes.

    Reads TSV, CSV, JSON Lines, and folders with a file or a folder for each class. Beside its
    figures stand those of the most frequent label and of bags of words, on the same rows.
    """
    asked = invocation(
        out,
        files,
        options,
        {
            "data.format": format_,
            "data.text_column": text_column,
            "data.label_column": label_column,
            "data.label_separator": label_separator,
            "model.input": "series" if series else None,
            "text.level": level,
        },
    )
    from elman.apps.cli.classify_view import ClassifyView
    from elman.apps.cli.training_run import run_training

    return run_training(ClassifyView(), asked)
