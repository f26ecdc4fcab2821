"""`elman compare`: runs of any kind on the same text, in one table under one unit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from elman.apps.cli.options import Json, Whole, WholeOrNone, require_at_least
from elman.apps.cli.output import error_console, output_console, plural, print_json, say
from elman.apps.cli.stopped import tell_stopped
from elman.errors import SettingError

if TYPE_CHECKING:
    from elman.recipes.comparing import Compare


POSITIONS = 1000
"""Places of a text that --reach asks about."""


def compare(
    paths: Annotated[
        list[str],
        Parameter(help="Runs, and the files to compare them on.", negative=""),
    ],
    *,
    cache: Annotated[
        Whole, Parameter(help="Also each run with a cache of this many states; 0: none.")
    ] = 0,
    encoding: Annotated[
        str | None, Parameter(help="Encoding of the files. [default: as the runs say]")
    ] = None,
    markdown: Annotated[
        Path | None, Parameter(help="Write the table to this file, as Markdown.")
    ] = None,
    picture: Annotated[
        Path | None, Parameter(help="Draw bits per byte to this .png or .svg file.")
    ] = None,
    reach: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="How far back does each run look? Its loss when only the last tokens are kept.",
        ),
    ] = False,
    positions: Annotated[
        WholeOrNone,
        Parameter(help="--reach: places of the text that are asked about. [default: 1000]"),
    ] = None,
    json: Json = False,
) -> int:
    """Compare language models on one text: elman compare RUN … FILE.

    Each run scores the files exactly, in the order given. Bits per byte compare whatever the tokens
    are; the interval is of the bootstrap over blocks of the text, and the difference is to the row
    above, in pairs of the same blocks. Perplexities of different tokens are not set side by side.
    """
    runs, names = _parted(paths)
    _require_fitting(reach, cache, markdown, picture, positions)
    tell_stopped(runs)
    if reach:
        asked = POSITIONS if positions is None else positions
        return _reach_on(runs, names, encoding, asked, picture, as_json=json)
    return compare_on(
        runs,
        names,
        cache=cache,
        encoding=encoding,
        markdown=markdown,
        picture=picture,
        as_json=json,
    )


def compare_on(
    runs: tuple[Path, ...],
    names: tuple[str, ...],
    *,
    cache: int = 0,
    encoding: str | None = None,
    markdown: Path | None = None,
    picture: Path | None = None,
    as_json: bool = False,
) -> int:
    """Compare the runs on the files, show it, and return the exit status."""
    from elman.apps.cli.comparison_view import markdown_table, print_comparison
    from elman.apps.cli.progress import stages
    from elman.atomic_files import write_atomically
    from elman.evaluation.comparison_picture import draw_comparison
    from elman.recipes.comparing import CompareRequest, compare_runs

    with stages(error_console()) as on_stage:
        found = compare_runs(CompareRequest(runs, names, encoding, cache), on_stage=on_stage)
    if as_json:
        print_json(_json(found, names))
    else:
        print_comparison(found.comparison, output_console())
    for notice in found.notices:
        say(f"note: {notice}")
    if markdown is not None:
        write_atomically(markdown, markdown_table(found.comparison, found.notices).encode())
    if picture is not None:
        draw_comparison(found.comparison, picture, title=", ".join(names))
    return 0


def _reach_on(
    runs: tuple[Path, ...],
    names: tuple[str, ...],
    encoding: str | None,
    positions: int,
    picture: Path | None,
    *,
    as_json: bool,
) -> int:
    from elman.apps.cli.comparison_view import print_reach
    from elman.apps.cli.progress import stages
    from elman.evaluation.reach_picture import draw_reach
    from elman.recipes.comparing import CompareRequest, reach_of_runs

    request = CompareRequest(runs, names, encoding)
    with stages(error_console()) as on_stage:
        found = reach_of_runs(request, num_positions=positions, on_stage=on_stage)
    if as_json:
        told = {one.name: [curve.to_json() for curve in one.curves] for one in found}
        print_json({"files": list(names), "reach": told})
    else:
        print_reach([(one.name, one.curves) for one in found], output_console())
    if picture is not None:
        draw_reach([(one.name, one.curves) for one in found], picture)
    return 0


def _parted(paths: list[str]) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the runs among the paths, and what is text."""
    from elman.checkpoints.run_folder import RunFolder, runs_within
    from elman.text.raw_files import is_standard_input

    runs = tuple(Path(path) for path in paths if _is_run(path))
    names = tuple(path for path in paths if not _is_run(path))
    for name in names:
        if runs_within(Path(name)):
            RunFolder.open(name)  # tells what runs it holds
        if Path(name).is_dir():
            say(f"note: {name} is no run, and is read as a folder of texts")
    missing = [name for name in names if not (is_standard_input(name) or Path(name).exists())]
    if not runs or not names:
        counts = f"{len(runs)} run{plural(len(runs))} and {len(names)} file{plural(len(names))}"
        raise SettingError(
            "elman compare needs runs and a text",
            got=f"{', '.join(missing)}, which is not there" if missing else counts,
            allowed="elman compare RUN … FILE",
        )
    return runs, names


def _require_fitting(
    reach: bool, cache: int, markdown: Path | None, picture: Path | None, positions: int | None
) -> None:
    """Refuse, before any work is done, options that would come to nothing."""
    from elman.evaluation.drawing import picture_format
    from elman.recipes.mixing import Mixing

    Mixing(cache_size=cache)  # refuses now what it would refuse once a run is scored
    if picture is not None:
        picture_format(picture)
    for path in filter(None, (markdown, picture)):
        if not path.absolute().parent.is_dir():
            raise SettingError("the folder to write to is not there", got=str(path.parent))
    if reach and (cache or markdown is not None):
        raise SettingError(
            "--reach asks the runs alone, and writes no Markdown",
            got="--cache" if cache else "--markdown",
            hint="leave it out",
        )
    if positions is not None:
        if not reach:
            raise SettingError("--positions is of --reach", got="no --reach")
        require_at_least("--positions", positions, 2)


def _is_run(path: str) -> bool:
    """Return whether `path` is a run, or what is left of one: opening it tells what is missing."""
    return any((Path(path) / name).is_file() for name in ("config.toml", "model.safetensors"))


def _json(found: "Compare", names: tuple[str, ...]) -> dict[str, object]:
    return {"files": list(names), **found.comparison.to_json(), "notices": list(found.notices)}
