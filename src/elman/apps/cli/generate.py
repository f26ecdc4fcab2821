"""`elman generate`: let a trained model talk."""

import os
import secrets
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from elman.apps.cli.interrupts import polite_interrupts
from elman.apps.cli.options import Json, Run, Whole, WholeOrNone
from elman.apps.cli.output import print_json
from elman.errors import DataError, SettingError
from elman.text.raw_files import is_standard_input

if TYPE_CHECKING:
    from elman.recipes.generating import WriteRequest
    from elman.recipes.trained import TrainedModel

MOST_SEEDS = 2**63


@Parameter(name="*")
@dataclass(frozen=True)
class ChoosingOptions:
    """How each token is chosen."""

    temperature: Annotated[
        float, Parameter(help="0 takes the likeliest token; 1 is the model itself.")
    ] = 1.0
    top_k: Annotated[Whole, Parameter(help="Draw among the k likeliest tokens only; 0: off.")] = 0
    top_p: Annotated[
        float, Parameter(help="Draw among the likeliest tokens that hold this share; 1: off.")
    ] = 1.0
    min_p: Annotated[
        float, Parameter(help="Drop tokens less likely than this share of the likeliest; 0: off.")
    ] = 0.0
    seed: Annotated[
        WholeOrNone, Parameter(help="Seed of the draws: the same seed, the same text.")
    ] = None


def generate(
    run: Run,
    *,
    prompt: Annotated[
        str,
        Parameter(
            help="Text to continue, which is not printed again; - reads it from standard input.",
            allow_leading_hyphen=True,
            show_default=False,
        ),
    ] = "",
    max_tokens: Annotated[Whole, Parameter(help="Most tokens to write.")] = 200,
    num_samples: Annotated[Whole, Parameter(help="How many continuations to draw.")] = 1,
    choosing: ChoosingOptions | None = None,
    stop: Annotated[
        list[str] | None,
        Parameter(
            help="End before this text; may be repeated.", negative="", allow_leading_hyphen=True
        ),
    ] = None,
    unknown: Annotated[
        Literal["refuse", "replace", "skip"] | None,
        Parameter(
            help="Symbols of the prompt that the model never saw. [default: as the run says]"
        ),
    ] = None,
    state: Annotated[
        Path | None,
        Parameter(
            help="File of the state: gone on from if it is there, written after the last token."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Continue a prompt with a trained model, token by token, as it is written.

    The prompt is read once; after that each token costs the same, however long the text.
    """
    from elman.decoding.filters import SamplingSettings
    from elman.recipes.generating import WriteRequest
    from elman.text.reading import read_text

    how = choosing or ChoosingOptions()
    _check_samples(num_samples, state, how.seed or 0)
    for text in (prompt, *(stop or ())):
        _check_characters(text)
    if is_standard_input(prompt):
        prompt = read_text([prompt], encoding="utf-8")[0]
    seed = secrets.randbits(32) if how.seed is None else how.seed
    request = WriteRequest(
        prompt=prompt,
        max_tokens=max_tokens,
        sampling=SamplingSettings(how.temperature, how.top_k, how.top_p, how.min_p, seed),
        stop=tuple(stop or ()),
        unknown=unknown,
    )
    _write_all(run, request, num_samples, state, reseed=how.seed is not None, as_json=json)
    return 0


def _check_samples(num_samples: int, state: Path | None, seed: int) -> None:
    if num_samples < 1:
        raise SettingError("--num-samples must be an int >= 1", got=str(num_samples))
    if seed + num_samples > MOST_SEEDS:
        raise SettingError(
            "--seed must leave room for a seed of its own for each sample",
            got=f"{seed} and --num-samples {num_samples}",
            allowed="up to 2^63 - 1 for the last one",
        )
    if state is not None and num_samples > 1:
        raise SettingError("--state keeps one text", got=f"--num-samples {num_samples}")
    if state is None:
        return
    if state.is_dir():
        raise SettingError("--state must be a file", got=f"{state}, a folder")
    if not os.access(state.parent, os.W_OK):
        raise SettingError(
            "--state must be a file in a folder that can be written to", got=str(state)
        )


def _check_characters(text: str) -> None:
    """Refuse bytes of the command line that are no UTF-8, which Python hands on as surrogates."""
    for position, character in enumerate(text):
        if "\udc80" <= character <= "\udcff":
            raise DataError(
                "a text on the command line must be valid UTF-8",
                got=f"the byte {ord(character) - 0xDC00:02X} after {position} characters",
                hint="set the terminal to UTF-8, or give the prompt with --prompt - on standard "
                "input",
            )


def _write_all(
    run: Path,
    request: "WriteRequest",
    num_samples: int,
    state: Path | None,
    *,
    reseed: bool,
    as_json: bool,
) -> None:
    """Write `num_samples` texts, each from a seed of its own."""
    from elman.recipes.trained import open_trained

    trained = open_trained(run)
    rows = []
    for number in range(num_samples):
        if num_samples > 1 and trained.settings.text.unit == "stream" and not as_json:
            print(f"--- {number + 1} ---", flush=True)
        sampling = replace(request.sampling, seed=request.sampling.seed + number)
        row = _write_one(
            trained, replace(request, sampling=sampling), state, reseed=reseed, quiet=as_json
        )
        rows.append(row)
    if as_json:
        print_json(rows[0] if num_samples == 1 else {"samples": rows})


def _write_one(
    trained: "TrainedModel",
    request: "WriteRequest",
    state: Path | None,
    *,
    reseed: bool,
    quiet: bool,
) -> dict[str, object]:
    """Write one text, piece by piece, and keep its state where asked; return it with its facts."""
    from elman.recipes.generating import Writer

    writer = Writer(trained, request, goes_on=state is not None)
    seed = request.sampling.seed
    if state is not None and state.exists():
        writer.resume(state, sampling=request.sampling, seed=seed if reseed else None)
    writer.begin()
    written = ""
    asked: Callable[[], bool] = bool  # False, as long as nobody can ask
    with ExitStack() as polite:
        if state is not None:  # a text whose state is kept is never cut without it
            asked = polite.enter_context(polite_interrupts(lambda: None))
        for piece in writer.pieces():
            written += piece
            if not quiet:
                sys.stdout.write(piece)
                sys.stdout.flush()
            if asked():
                break
    if state is not None:
        writer.save(state)
    if not quiet:
        print()
    if asked():
        raise KeyboardInterrupt
    return {
        "prompt": request.prompt,
        "text": written,
        "num_tokens": writer.num_tokens,
        "seed": writer.generation.seed,
        "ended_by": writer.ended_by,
    }
