"""`elman data`: look at data before anything is learnt from it."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter
from rich.console import Console

from elman.apps.cli.options import Encoding, Json, Whole
from elman.apps.cli.output import print_json

if TYPE_CHECKING:
    from elman.recipes.data_check import FileCheck

data = App(name="data", help="Look at data before anything is learnt from it.")

EXIT_UNUSABLE = 1
Name = Annotated[str, Parameter(show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True)
class CheckOptions:
    """How the files of `elman data check` are read; the fields are those of `CheckRequest`."""

    format: Annotated[
        Literal[
            "auto", "text", "tsv", "csv", "jsonl", "conll", "conllu", "class-files", "class-folders"
        ],
        Parameter(help="How files are read; auto: by their endings, text where these say nothing."),
    ] = "auto"
    header: Annotated[
        Literal["auto", "yes", "no"],
        Parameter(help="Whether the first row names columns; auto: only where that is certain."),
    ] = "auto"
    delimiter: Annotated[str, Parameter(help="What parts the cells of CSV.")] = ","
    parallel: Annotated[
        bool, Parameter(help="Files are the two sides of pairs, two by two.", negative="")
    ] = False
    series: Annotated[
        bool, Parameter(help="Tables hold series of numbers, each with a label.", negative="")
    ] = False
    input_column: Annotated[
        Name, Parameter(help="Column that a model would be given, by name or number from 1.")
    ] = ""
    label_column: Annotated[
        Name,
        Parameter(
            help="Column of the label or target, by name or number from 1; of a series the last "
            "unless named; none: there is none."
        ),
    ] = ""
    label_separator: Annotated[
        Name, Parameter(help="What parts several labels in one cell, such as |.")
    ] = ""
    token_column: Annotated[Name, Parameter(help="Column of tokens in CoNLL.")] = ""
    tag_column: Annotated[
        Name, Parameter(help="Column of tags in CoNLL: UPOS, XPOS, …, or a number; -1: the last.")
    ] = ""
    max_length: Annotated[
        Whole,
        Parameter(help="Count what a limit of so many characters (of CoNLL, tokens) would cut."),
    ] = 0
    encoding: Encoding = "utf-8"


DEFAULTS = CheckOptions()


@data.command
def check(
    files: Annotated[
        list[str] | None,
        Parameter(
            help="Files or folders of classes; - reads standard input. Others are held against "
            "the first.",
            negative="",
        ),
    ] = None,
    *,
    options: CheckOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Say what was read and what is odd about it; nothing is left out silently.

    Exit status 1 where a row cannot be used, 2 where a file cannot be read.
    """
    import tempfile
    from pathlib import Path

    from elman.recipes.check_rows import CheckRequest
    from elman.recipes.data_check import check_data

    request = CheckRequest(names=tuple(files or ()), **asdict(options))
    with tempfile.TemporaryDirectory(prefix="elman-check-") as scratch:
        found = check_data(request, Path(scratch))
    if json:
        print_json(found.to_json())
    else:
        console = Console(highlight=False)
        for file in found.files:
            show_check(console, file)
    return EXIT_UNUSABLE if found.num_unusable else 0


def show_check(console: Console, file: "FileCheck") -> None:
    """Print what was found in one file: the figures, then a table of its columns."""
    from elman.apps.cli.data_tables import column_table, facts_table, label_table

    console.print(facts_table(file))
    console.print(column_table(file))
    for place in range(len(file.columns)):
        table = label_table(file, place)
        if table is not None:
            console.print(table)
    console.print()
