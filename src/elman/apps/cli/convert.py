"""`elman convert`: a model to and from other programs, with the proof that it is the same."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.options import Json
from elman.apps.cli.output import print_json, program, say
from elman.errors import SettingError

if TYPE_CHECKING:
    from elman.recipes.converting import Conversion


def convert(
    source: Annotated[Path, Parameter(help="A run to convert, or a file of another program.")],
    target: Annotated[
        Path | None, Parameter(help="What to write; with --from, --out RUN may name it.")
    ] = None,
    *,
    to: Annotated[
        Literal["torch", "keras", "onnx", "py", "arpa"] | None,
        Parameter(
            help="Write the run for: torch (a folder), keras, onnx, py (one file of plain "
            "Python), or arpa (counts)."
        ),
    ] = None,
    from_: Annotated[
        Literal["torch", "keras", "onnx", "arpa"] | None,
        Parameter(name="--from", help="Read a model of this program and make a run of it."),
    ] = None,
    out: Annotated[Path | None, Parameter(help="Folder of the run that --from makes.")] = None,
    vocabulary: Annotated[
        Path | None,
        Parameter(
            help="--from: tokens in the order of their ids: one a line, a JSON list, or a "
            "tokenizer.json."
        ),
    ] = None,
    level: Annotated[
        Literal["char", "word"], Parameter(help="--vocabulary, --from arpa: what a token is.")
    ] = "word",
    kind: Annotated[
        Literal["RNN_TANH", "RNN_RELU", "GRU", "LSTM"] | None,
        Parameter(help="--from torch: the kind of recurrence, where the shapes do not tell."),
    ] = None,
    json: Json = False,
) -> int:
    """Convert a model to or from PyTorch, Keras, ONNX and ARPA, or to a file of plain Python.

    Both sides are run on random inputs, and the largest difference is told. What the other side
    cannot express is refused, with the nearest model that it can. docs/conventions.md compares the
    conventions.
    """
    from elman.recipes.converting import ImportRequest, export_run, import_model

    _require_one_way(to, from_)
    if to is not None:
        if target is None or out is not None:
            raise SettingError(
                "elman convert RUN --to needs a place to write to", allowed="elman convert RUN OUT"
            )
        done = export_run(source, to, target)
    else:
        assert from_ is not None
        place = out or target
        if place is None or (out is not None and target is not None):
            raise SettingError(
                "elman convert FILE --from needs the folder of the new run", allowed="--out RUN"
            )
        request = ImportRequest(source, from_, vocabulary, level, kind)
        done = import_model(request, place)
    _tell(done, as_json=json, is_run=to is None)
    return 0


def _require_one_way(target: str | None, source: str | None) -> None:
    """Raise `SettingError` unless exactly one of --to and --from is given."""
    if (target is None) == (source is None):
        raise SettingError(
            "elman convert needs one direction",
            got="both --to and --from" if target else "neither --to nor --from",
            allowed="RUN OUT --to torch|keras|onnx|py|arpa, "
            "or FILE OUT --from torch|keras|onnx|arpa",
        )


def _tell(done: "Conversion", *, as_json: bool, is_run: bool) -> None:
    for notice in done.notices:
        say(f"note: {notice}")
    proof = done.proof
    if as_json:
        print_json(done.to_json())
    else:
        print(f"written: {done.path}")
        print(f"proof:   {proof.num_values:,} values compared: {proof.compared}")
        print(
            f"         largest difference {proof.largest:.3g}, "
            f"{proof.largest_ulp:.2g} units in the last place of float32"
        )
    if is_run:
        say(f"next: {program()} score {done.path} FILE")
