"""`elman score`: the exact loss of a trained model on a text."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from elman.apps.cli.options import Json, Run
from elman.apps.cli.output import print_json, say, score_table
from elman.errors import SettingError


def score(
    run: Run,
    files: Annotated[
        list[str] | None,
        Parameter(help="Files or folders to score, in order; - reads standard input.", negative=""),
    ] = None,
    *,
    per_token: Annotated[
        Path | None,
        Parameter(
            help="Write each token's surprisal in bits, with character offsets, to this TSV."
        ),
    ] = None,
    minimal_pairs: Annotated[
        Path | None,
        Parameter(
            help="Score a file of pairs, good⇥bad (a tab between): how often is good likelier?"
        ),
    ] = None,
    encoding: Annotated[
        str | None, Parameter(help="Encoding of the files. [default: as the run says]")
    ] = None,
    unknown: Annotated[
        Literal["refuse", "replace", "skip"] | None,
        Parameter(help="Symbols that the model never saw. [default: as the run says]"),
    ] = None,
    batch_size: Annotated[int, Parameter(help="Lines scored at once. Changes no number.")] = 64,
    window: Annotated[
        int, Parameter(help="Tokens of a stream scored at once. Changes no number.")
    ] = 1024,
    json: Json = False,
) -> int:
    """Score a text exactly: every token is predicted once, from all the text before it.

    Losses are sums and counts; batch size and window change no number. Memory does not grow with
    the file.
    """
    from elman.recipes.scoring import ScoreRequest, score_files
    from elman.recipes.trained import open_trained

    if bool(files) == (minimal_pairs is not None):
        raise SettingError(
            "elman score needs a text",
            got="both files and --minimal-pairs" if files else "no file",
            allowed="files to score, or --minimal-pairs FILE",
        )
    trained = open_trained(run)
    if minimal_pairs is not None:
        from elman.recipes.minimal_pairs import judge_pairs

        judged = judge_pairs(
            trained,
            minimal_pairs,
            encoding=encoding or trained.settings.text.encoding,
            policy=unknown,
        )
        if json:
            print_json(judged.to_json())
        else:
            print(judged.summary())
        return 0
    request = ScoreRequest(
        names=tuple(files or ()),
        encoding=encoding,
        unknown=unknown,
        per_token=per_token,
        batch_size=batch_size,
        window=window,
    )
    score = score_files(trained, request).to_json()
    if json:
        print_json(score)
    else:
        Console(highlight=False).print(score_table({", ".join(files or ()): score}))
    if score["warning"]:
        say(f"warning: {score['warning']}")
    return 0
