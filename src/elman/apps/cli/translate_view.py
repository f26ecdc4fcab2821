"""An encoder-decoder as a person sees it learn."""

import math
from collections.abc import Mapping

from elman.apps.cli.output import error_console, say
from elman.apps.cli.training_view import TITLES, TrainingView
from elman.apps.cli.translation_output import translation_figures
from elman.data.examples import PairBatch
from elman.evaluation.units import percent
from elman.models.encoder_decoder import EncoderDecoder
from elman.recipes.pair_preparing import PairPart, PreparedPairs
from elman.recipes.prepared_text import PART_NAMES
from elman.recipes.translate import TranslateRun, TranslateTask
from elman.training.events import ValidationEvent


class TranslateView(TrainingView[PreparedPairs, EncoderDecoder, PairBatch]):
    """Pairs read; nats a target token; the figures of what it writes by itself."""

    unit, scored_unit = "tokens", "pairs"

    @property
    def task(self) -> TranslateTask:
        """The encoder-decoder."""
        return TranslateTask()

    def tell_data(self, run: TranslateRun) -> None:
        """Tell how many pairs there are, and how long their sides."""
        prepared, text = run.prepared, run.settings.text
        train = prepared.parts["train"]
        level = text.level if text.target_level == "same" else text.target_level
        say(
            f"pairs: {train.num_rows:,} to learn from, sources of "
            f"{train.sources.lengths_N.mean():.1f} {text.level} tokens on the average, targets of "
            f"{train.targets.lengths_N.mean():.1f} {level} tokens"
        )
        held = [
            f"{prepared.parts[name].num_rows:,} {name}{_unknown(prepared.parts[name])}"
            for name in PART_NAMES[1:]
            if name in prepared.parts
        ]
        sizes = f"{len(prepared.source.vocabulary):,} and {len(prepared.target.vocabulary):,}"
        say(f"       held out: {', '.join(held) or 'none'}; vocabularies: {sizes}")

    def num_scored(self, prepared: PreparedPairs) -> int:
        """Return the pairs that are held out."""
        return sum(part.num_rows for name, part in prepared.parts.items() if name != "train")

    def training_figure(self, nats: float, run: TranslateRun) -> str:
        """Return nats a target token."""
        return f"{nats:.3f}"

    def validation_figure(self, event: ValidationEvent, run: TranslateRun) -> str:
        """Return nats a target token, and their perplexity."""
        nats = event.loss_nats / max(event.num_tokens, 1)
        shown = f"{math.exp(nats):,.3f}" if nats < 20 else f"e^{nats:.1f}"
        return f"{nats:.4f} nats/token, perplexity {shown}"

    def tell_scores(self, scores: Mapping[str, Mapping[str, object]]) -> None:
        """Show a column of figures for each part."""
        ordered = {TITLES[name]: scores[name] for name in TITLES if name in scores}
        if ordered:
            error_console().print(translation_figures(ordered))
        if any("bleu" not in score for score in ordered.values()):
            say("note: BLEU, chrF and error rates need: pip install 'elman[metrics]'")

    def next_step(self, path: str) -> str:
        """Let it write."""
        return f"predict {path} FILE"


def _unknown(part: PairPart) -> str:
    shares = [
        f"{percent(count / max(1, int(side.lengths_N.sum())))} of the {name} tokens unknown"
        for name, count, side in (
            ("source", part.unknown_sources, part.sources),
            ("target", part.unknown_targets, part.targets),
        )
        if count
    ]
    return f" ({', '.join(shares)})" if shares else ""
