"""The demo as a person sees it: text, training, comparison, samples, and what to try next."""

import time
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from rich.console import Console
from rich.table import Table
from rich.text import Text

from elman.apps.cli.interrupts import EXIT_INTERRUPTED
from elman.apps.cli.language_view import LanguageView
from elman.apps.cli.options import duration_seconds, duration_text
from elman.apps.cli.output import error_console, program, say
from elman.apps.cli.progress import stages
from elman.apps.cli.training_run import describe, train_with_progress
from elman.decoding.filters import SamplingSettings
from elman.recipes.baselines import count_score
from elman.recipes.corpus import BUILT_IN_PREFIX
from elman.recipes.generating import Writer, WriteRequest
from elman.recipes.language_model import LanguageModelRun
from elman.recipes.learning import TrainReport, start_run
from elman.recipes.precision import pack
from elman.recipes.trained import open_trained
from elman.recipes.training_request import TrainRequest

COUNT_ORDER = 5
TEMPERATURE = 0.7
BAR_WIDTH = 40
SAVED_FOR_THE_END = 0.2
"""Share of the demo's time kept for the comparison and the samples after training."""

TITLES = MappingProxyType(
    {
        "language-reference": "a language model of Python's language reference",
        "unicode-names": "a model that names characters that Unicode does not have",
    }
)
PROMPTS = MappingProxyType(
    {"language-reference": ("The ", "An object "), "unicode-names": ("",) * 8}
)


def run_demo(*, out: Path | None, corpus: str, budget: str, seed: int, started: float) -> int:
    """Train on a built-in text, compare, sample; return the exit status."""
    console = Console(highlight=False)
    console.print(Text(f"\nelman demo: {TITLES[corpus]}, learnt here and now\n", style="bold"))
    seconds = duration_seconds(budget)
    path = out or Path("runs") / f"demo-{datetime.now():%Y%m%d-%H%M%S}"
    request = TrainRequest(
        out=path,
        overrides=(
            f'data.train=["{BUILT_IN_PREFIX}{corpus}"]',
            f"text.unit={'line' if corpus == 'unicode-names' else 'stream'}",
            f"training.seed={seed}",
        ),
        budget_seconds=seconds * (1 - SAVED_FOR_THE_END),
        started=started,
    )
    view = LanguageView()
    with stages(error_console()) as on_stage:
        run = start_run(view.task, request, on_stage=on_stage)
    describe(view, run)
    scores = _count_scores(run)
    report = train_with_progress(view, run)
    if report.fit.reason == "interrupted":
        say(f"interrupted; go on with: {program()} train lm --out {path} --resume")
        return EXIT_INTERRUPTED
    _compare(console, run, scores, report)
    _samples(console, path, PROMPTS[corpus])
    _next_steps(console, path, time.monotonic() - started)
    return 0


def _count_scores(run: LanguageModelRun) -> dict[str, float | None]:
    """Return bits per character of two count models, taken while the token arrays are there."""
    return {
        name: count_score(run.settings, run.prepared, order=order, on="test").bits_per_character
        for name, order in (
            ("letter counts", 1),
            (f"counts of {COUNT_ORDER} in a row", COUNT_ORDER),
        )
    }


def _compare(
    console: Console, run: LanguageModelRun, scores: dict[str, float | None], report: TrainReport
) -> None:
    """Show every model on the same held-out text, in bits per character."""
    bits = report.scores["test"]["bits_per_character"]
    assert isinstance(bits, float)
    rows = {**scores, f"{run.settings.model.kind.upper()}, trained just now": bits}
    characters = run.prepared.parts["test"].characters
    console.print(
        f"\nHow well is text never seen predicted? Bits per character over {characters:,} "
        "characters; less is better.\n"
    )
    worst = max(value for value in rows.values() if value is not None)
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in rows.items():
        if value is None:
            continue
        best = value == min(v for v in rows.values() if v is not None)
        bar = "█" * max(1, round(BAR_WIDTH * value / worst))
        table.add_row(
            f"  {name}", f"{value:.3f}", Text(bar, style="green" if best else "bright_black")
        )
    console.print(table)


def _samples(console: Console, path: Path, prompts: tuple[str, ...]) -> None:
    """Show what the model writes; the prompt is in bold."""
    console.print(f"\nWhat it writes (temperature {TEMPERATURE}):\n")
    trained, packed, _ = pack(open_trained(path))
    for number, prompt in enumerate(prompts):
        sampling = SamplingSettings(temperature=TEMPERATURE, seed=number)
        request = WriteRequest(prompt=prompt, max_tokens=320, sampling=sampling)
        writer = Writer(trained, request, packed=packed)
        writer.begin()
        written = "".join(writer.pieces())
        lines = Text(prompt, style="bold").append(written, style="not bold").split("\n")
        for line in lines:
            shown = Text("  │ ", style="bright_black").append_text(line)
            console.print(shown, no_wrap=True, overflow="ellipsis")
        if trained.settings.text.unit == "stream":
            console.print()


def _next_steps(console: Console, path: Path, elapsed_seconds: float) -> None:
    console.print(f"\nThe run is in {path} (all of this took {duration_text(elapsed_seconds)}).")
    console.print("Try it on a file of your own:\n")
    for command in (
        "elman train lm --data FILE --out runs/mine --budget 2m",
        "elman generate runs/mine --num-samples 3",
        "elman score runs/mine OTHER-FILE --per-token surprisal.tsv",
    ):
        console.print(f"  {command.replace('elman', program(), 1)}")
    console.print()
