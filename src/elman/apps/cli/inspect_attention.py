"""`elman inspect` of an encoder-decoder: where each token of its answer looks."""

from pathlib import Path

from elman.apps.cli.inspect_options import ViewOptions
from elman.apps.cli.output import print_json, say


def inspect_attention(path: Path, text: str, options: ViewOptions, *, as_json: bool) -> int:
    """Show, print or draw where the run at `path` looks while it answers one line of text."""
    from elman.apps.cli.inspect_view import show_attention
    from elman.recipes.inspecting.attention_view import attention_view

    view = attention_view(path, text)
    for notice in view.notices:
        say(f"note: {notice}")
    if options.picture is not None:
        view.draw(options.picture)
        say(f"picture written to {options.picture}")
    if as_json:
        print_json({"run": str(path), "answer": view.answer, "attention": view.to_json()})
    else:
        show_attention(view)
    return 0
