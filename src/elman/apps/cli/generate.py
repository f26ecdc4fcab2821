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

from elman.apps.cli.beam_generation import BeamOptions, require_beam, write_best
from elman.apps.cli.interrupts import polite_interrupts
from elman.apps.cli.options import (
    Json,
    Precision,
    Run,
    Verbose,
    Whole,
    WholeOrNone,
    naming_options,
    require_at_least,
)
from elman.apps.cli.output import print_json, say, tell_kernels
from elman.apps.cli.stopped import tell_stopped
from elman.errors import DataError, SettingError
from elman.text.raw_files import is_standard_input

if TYPE_CHECKING:
    from elman.kernels.native_generation import NativeGenerator
    from elman.recipes.generating import Writer, WriteRequest
    from elman.recipes.trained import TrainedModel

MOST_SEEDS = 2**63
SAMPLES_TOGETHER = 16


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
    num_samples: Annotated[Whole, Parameter(help="Continuations to draw, each as if alone.")] = 1,
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
    searching: BeamOptions | None = None,
    precision: Precision = "float32",
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Continue a prompt with a trained model, token by token, as it is written.

    After the prompt each token costs the same, however long the text. --json names what ran.
    """
    from elman.decoding.filters import SamplingSettings
    from elman.recipes.generating import WriteRequest

    how, beam = choosing or ChoosingOptions(), searching or BeamOptions()
    require_at_least("--max-tokens", max_tokens, 0)
    _check_samples(num_samples, state, how.seed or 0)
    require_beam(beam, draws=how != ChoosingOptions() or num_samples > 1 or state is not None)
    seed = secrets.randbits(32) if how.seed is None else how.seed
    with naming_options("temperature", "top_k", "top_p", "min_p", "seed"):
        sampling = SamplingSettings(how.temperature, how.top_k, how.top_p, how.min_p, seed)
    request = WriteRequest(
        prompt=_given_prompt(prompt, stop or []),
        max_tokens=max_tokens,
        sampling=sampling,
        stop=tuple(stop or ()),
        unknown=unknown,
    )
    job = _Job(run, request, state, how.seed is not None, precision, verbose)
    return _write_all(job, num_samples, beam, as_json=json)


def _given_prompt(prompt: str, stop: list[str]) -> str:
    """Return the prompt, read from standard input where it is -; refuse texts that are no UTF-8."""
    from elman.text.reading import read_text

    for text in (prompt, *stop):
        _check_characters(text)
    return read_text([prompt], encoding="utf-8")[0] if is_standard_input(prompt) else prompt


def _check_samples(num_samples: int, state: Path | None, seed: int) -> None:
    require_at_least("--num-samples", num_samples, 1)
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


@dataclass(frozen=True)
class _Job:
    """What was asked for. `reseed`: a seed was given, which a saved state then takes."""

    run: Path
    request: "WriteRequest"
    state: Path | None
    reseed: bool
    precision: Precision
    verbose: bool


def _write_all(job: _Job, num_samples: int, beam: BeamOptions, *, as_json: bool) -> int:
    """Write `num_samples` texts, each from a seed of its own, or those that a beam finds.

    Returns the exit status.
    """
    from elman.recipes.precision import pack
    from elman.recipes.trained import open_trained

    exact = open_trained(job.run)
    tell_stopped((job.run,))
    trained, packed, kernel = pack(exact, job.precision)
    if job.verbose and not beam.beam:
        tell_kernels({"generation": kernel})
    if job.precision != "float32":
        _tell_cost(exact, trained, job.precision)
    if beam.beam:
        write_best(trained, job.request, beam, as_json=as_json)
        if job.verbose:
            tell_kernels(trained.plan.record())
        return 0
    seed = job.request.sampling.seed
    requests = [
        replace(job.request, sampling=replace(job.request.sampling, seed=seed + number))
        for number in range(num_samples)
    ]
    if as_json and num_samples > 1:
        print_json({"samples": _write_quietly(trained, requests, packed, kernel)})
        return 0
    for number, request in enumerate(requests):
        if num_samples > 1 and trained.settings.text.unit == "stream":
            print(f"--- {number + 1} ---", flush=True)
        writer, written = _write_one(trained, replace(job, request=request), packed, quiet=as_json)
        if as_json:
            print_json(_row(writer, request, written, kernel))
    return 0


def _tell_cost(exact: "TrainedModel", rounded: "TrainedModel", precision: str) -> None:
    """Say on standard error what the precision costs, or how to find out."""
    from elman.recipes.precision import measured_cost

    found = measured_cost(exact, rounded)
    if found is None:
        say(f"note: `elman score RUN FILE --precision {precision}` measures what {precision} costs")
        return
    cost, name = found
    say(
        f"note: {precision} weights take {cost.told} "
        f"(float32: {cost.exact.bits_per_character:.5f}) on the first "
        f"{cost.exact.characters:,} characters of {name}"
    )


def _write_quietly(
    trained: "TrainedModel",
    requests: "list[WriteRequest]",
    packed: "NativeGenerator | None",
    kernel: str,
) -> list[dict[str, object]]:
    """Write a few texts at a time side by side; return each with its facts."""
    from elman.recipes.generating import Writer, write_together

    rows = []
    for first in range(0, len(requests), SAMPLES_TOGETHER):
        some = requests[first : first + SAMPLES_TOGETHER]
        writers = [Writer(trained, request, packed=packed) for request in some]
        for writer in writers:
            writer.begin()
        texts = [""] * len(some)

        def take(number: int, piece: str, texts: list[str] = texts) -> bool:
            texts[number] += piece
            return False

        write_together(writers, take)
        rows += [_row(*each, kernel) for each in zip(writers, some, texts, strict=True)]
    return rows


def _write_one(
    trained: "TrainedModel", job: _Job, packed: "NativeGenerator | None", *, quiet: bool
) -> "tuple[Writer, str]":
    """Write one text, piece by piece, and keep its state where asked; return it where quiet.

    What is shown is not kept: a text may be longer than memory.
    """
    from elman.recipes.generating import Writer

    state, sampling = job.state, job.request.sampling
    writer = Writer(trained, job.request, goes_on=state is not None, packed=packed)
    if state is not None and state.exists():
        writer.resume(state, sampling=sampling, seed=sampling.seed if job.reseed else None)
    writer.begin()
    pieces = list[str]()
    asked: Callable[[], bool] = bool  # False, as long as nobody can ask

    def show(piece: str) -> bool:
        if quiet:
            pieces.append(piece)
        else:
            sys.stdout.write(piece)
            sys.stdout.flush()
        return asked()

    with ExitStack() as polite:
        if state is not None:  # a text whose state is kept is never cut without it
            asked = polite.enter_context(polite_interrupts(lambda: None))
        writer.write(show)
    if state is not None:
        writer.save(state)
    if not quiet:
        print()
    if asked():
        raise KeyboardInterrupt
    return writer, "".join(pieces)


def _row(writer: "Writer", request: "WriteRequest", written: str, kernel: str) -> dict[str, object]:
    return {
        "prompt": request.prompt,
        "text": written,
        "num_tokens": writer.num_tokens,
        "seed": writer.generation.seed,
        "ended_by": writer.ended_by,
        "kernel": kernel,
    }
