"""`elman inspect RUN TEXT --compare TEXT`: how far apart two texts leave the states."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from elman.apps.cli.inspect_cells import print_fitted, shown_token, starred, tell_unknown
from elman.apps.cli.inspect_options import ViewOptions
from elman.apps.cli.output import output_console, print_json, say

if TYPE_CHECKING:
    from elman.config.text_settings import UnknownPolicy
    from elman.recipes.inspecting.two_texts import TwoTexts


def inspect_two_texts(
    run: Path,
    texts: tuple[str, str],
    options: ViewOptions,
    unknown: "UnknownPolicy | None",
    *,
    as_json: bool,
) -> int:
    """Show, print, write or draw how far apart the texts leave the states of each layer."""
    from elman.atomic_files import writing_atomically
    from elman.recipes.inspecting.two_texts import two_texts, write_distances_csv
    from elman.recipes.panels import draw_panels

    found = two_texts(run, texts, unknown=unknown)
    for notice in found.notices:
        say(f"note: {notice}")
    if options.csv is not None:
        with writing_atomically(options.csv) as table:
            write_distances_csv(found, table)
        say(f"distances written to {options.csv}")
    if options.picture is not None:
        draw_panels(options.picture, [found.plot])
        say(f"picture written to {options.picture}")
    if as_json:
        print_json({"run": str(run), **found.to_json()})
    else:
        _show_distances(found)
    return 0


def _show_distances(found: "TwoTexts") -> None:
    """Show how far apart the states of each layer are after each token, and the predictions."""
    first, second, steps = found.first, found.second, found.rows
    layers = [f"layer {place + 1}" for place in range(len(steps[0].distances_L))]
    rows = []
    for row in steps:
        differs = row.token_ids[0] != row.token_ids[1]
        tokens = (
            shown_token(text.shown[row.position], unknown=row.position in text.unknown)
            for text in (first, second)
        )
        figures = [f"{distance:.4f}" for distance in row.distances_L] + [f"{row.nats_apart:.4f}"]
        rows.append([*(starred(token, is_meant=differs) for token in tokens), *map(Text, figures)])
    titles = ("first", "second", *layers, "next, nats apart")
    print_fitted(titles, rows, left=(0, 1), tokens=(0, 1))
    tell_unknown((*first.unknown, *second.unknown))
    console = output_console()
    apart = [row for row in steps if max(row.distances_L) > 0.0]
    if not apart:
        console.print("the states are the same throughout")
        return
    most = max(max(row.distances_L) for row in steps)
    near = [row.position for row in apart if max(row.distances_L) >= 0.01 * most]
    console.print(
        f"*: another token; states part at token {apart[0].position + 1} of {len(steps):,} and are "
        f"last more than a hundredth of their largest distance apart at token {near[-1] + 1}"
    )
