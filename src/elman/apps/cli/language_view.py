"""A language model as a person sees it learn."""

import math
from collections.abc import Mapping

from elman.apps.cli.output import error_console, say, score_table
from elman.apps.cli.training_view import TITLES, TrainingView, tell_names
from elman.checkpoints.run_folder import RunFolder
from elman.config.text_settings import Level
from elman.data.batches import TokenBatch
from elman.evaluation.units import nats_to_bits, percent
from elman.models.language import LanguageModel
from elman.recipes.language_model import LanguageModelRun, LanguageTask
from elman.recipes.prepared_text import Part, PreparedText
from elman.training.events import ValidationEvent

MOST_NATS = 20.0
"""A loss above this is told as a power: its perplexity is a number that nobody reads."""


class LanguageView(TrainingView[PreparedText, LanguageModel, TokenBatch]):
    """Characters and tokens read; bits a character or perplexity; the table of exact scores."""

    @property
    def task(self) -> LanguageTask:
        """The language model."""
        return LanguageTask()

    def tell_data(self, run: LanguageModelRun) -> None:
        """Tell how much text there is to learn from, and how much is held out."""
        self.tell_text(run.prepared, run.settings.text.level)

    def tell_text(self, prepared: PreparedText, level: Level) -> None:
        """Tell how much text of a level there is."""
        train = prepared.parts["train"]
        tell_names([report.name for report in prepared.reports])
        lines = f" in {train.num_lines:,} lines, each with a stop mark" if train.num_lines else ""
        say(
            f"text:  {train.characters:,} characters to learn from, "
            f"{train.num_tokens:,} {level} tokens{lines}"
        )
        held = ", ".join(
            f"{part.num_predicted:,} {name}{_unknown(part)}"
            for name, part in prepared.parts.items()
            if name != "train"
        )
        vocabulary = len(prepared.tokenizer.vocabulary)
        say(f"       held out: {held or 'none'}; vocabulary: {vocabulary:,}")

    def num_scored(self, prepared: PreparedText) -> int:
        """Return the tokens and stop marks of what is held out."""
        return sum(part.num_predicted for name, part in prepared.parts.items() if name != "train")

    def training_figure(self, nats: float, run: LanguageModelRun) -> str:
        """Return bits, or of words and subwords perplexity."""
        return level_figure(nats, run.settings.text.level)

    def validation_figure(self, event: ValidationEvent, run: LanguageModelRun) -> str:
        """Return bits a character or byte, or perplexity."""
        return held_out_figure(event, run.prepared.parts["valid"], run.settings.text.level)

    def tell_scores(self, scores: Mapping[str, Mapping[str, object]]) -> None:
        """Show a column of figures for each part."""
        ordered = {TITLES[name]: scores[name] for name in TITLES if name in scores}
        error_console().print(score_table(ordered))
        for title, score in ordered.items():
            if score.get("warning"):
                say(f"warning: {title}: {score['warning']}")

    def next_step(self, path: str) -> str:
        """Let it write; what reads from the end can only be scored."""
        if RunFolder.open(path).settings.text.direction == "backward":
            return f"score {path} FILE"
        return f"generate {path}"


def held_out_figure(event: ValidationEvent, part: Part, level: Level) -> str:
    """Return the held-out figure of a text to watch, with its unit."""
    unit = {"char": " bits/char", "byte": " bits/byte"}.get(level, " perplexity")
    size = part.characters if level == "char" else event.num_tokens
    return level_figure(event.loss_nats / max(size, 1), level) + unit


def level_figure(nats: float, level: Level) -> str:
    """Return nats per token as people compare them: perplexity of words, else bits."""
    if level in ("char", "byte"):
        return f"{nats_to_bits(nats):.3f}"
    return f"{math.exp(nats):,.1f}" if nats < MOST_NATS else f"e^{nats:.1f}"


def _unknown(part: Part) -> str:
    if not part.unknown:
        return ""
    return f" ({percent(part.unknown / part.num_tokens)} unknown)"
