"""A classifier as a person sees it learn."""

from collections.abc import Mapping

from elman.apps.cli.label_output import label_figures, order_sentence
from elman.apps.cli.output import error_console, plural, say
from elman.apps.cli.training_view import TITLES, TrainingView
from elman.data.examples import LabelBatch
from elman.evaluation.units import percent
from elman.models.classifier import SequenceClassifier
from elman.recipes.classify import ClassifierRun, ClassifyTask
from elman.recipes.label_preparing import PreparedLabels
from elman.recipes.prepared_text import PART_NAMES
from elman.training.events import ValidationEvent

MOST_LABELS = 6
"""Labels told with their numbers of rows; of more the number is told."""


class ClassifyView(TrainingView[PreparedLabels, SequenceClassifier, LabelBatch]):
    """Rows and labels read; nats a row; figures beside those of simpler models."""

    unit = scored_unit = "rows"

    @property
    def task(self) -> ClassifyTask:
        """The classifier."""
        return ClassifyTask()

    def tell_data(self, run: ClassifierRun) -> None:
        """Tell how many rows there are, how long, and with which labels."""
        prepared, settings = run.prepared, run.settings
        train, labels = prepared.parts["train"], prepared.labels
        lengths_N = train.rows.lengths_N
        step = "number" if settings.model.input == "series" else f"{settings.text.level} token"
        spread = spread_text(int(lengths_N.min()), int(lengths_N.max()), lengths_N.mean(), step)
        say(f"rows:  {train.num_rows:,} to learn from, {spread}")
        held = [
            f"{prepared.parts[name].num_rows:,} {name}{_unknown(prepared, name)}"
            for name in PART_NAMES[1:]
            if name in prepared.parts
        ]
        inputs = (
            ""
            if settings.model.input == "series"
            else (f"; vocabulary: {prepared.encoder.input_size:,}")
        )
        say(f"       held out: {', '.join(held) or 'none'}{inputs}")
        several = ", any number of them a row" if labels.answers == "several" else ""
        by_count = sorted(zip(labels.counts, labels.labels, strict=True), key=_most_first)
        shown = ", ".join(f"{label} {count:,}" for count, label in by_count[:MOST_LABELS])
        more = len(labels) - MOST_LABELS
        rest = f" and {more:,} more, the rarest with {by_count[-1][0]:,}" if more > 0 else ""
        say(f"       {len(labels):,} label{plural(len(labels))}{several}: {shown}{rest}")

    def num_scored(self, prepared: PreparedLabels) -> int:
        """Return the rows of what is held out."""
        return sum(part.num_rows for name, part in prepared.parts.items() if name != "train")

    def training_figure(self, nats: float, run: ClassifierRun) -> str:
        """Return nats."""
        return f"{nats:.3f}"

    def validation_figure(self, event: ValidationEvent, run: ClassifierRun) -> str:
        """Return nats a row."""
        return f"{event.loss_nats / max(event.num_tokens, 1):.4f} nats/row"

    def tell_scores(self, scores: Mapping[str, Mapping[str, object]]) -> None:
        """Show a column of figures for each part, and simpler models beside them."""
        ordered = {TITLES[name]: scores[name] for name in TITLES if name in scores}
        error_console().print(label_figures(ordered))
        told = [(title, order_sentence(score)) for title, score in ordered.items()]
        for title, sentence in told[-1:]:
            if sentence:
                say(f"{title}: {sentence}")

    def next_step(self, path: str) -> str:
        """Let it label."""
        return f"predict {path} FILE"


def spread_text(least: int, most: int, mean: float, step: str) -> str:
    """Return how long rows are; `step` is what they are made of, in the singular."""
    if least == most:
        return f"each of {most:,} {step}{plural(most)}"
    return f"of {least:,} to {most:,} {step}s, {mean:.1f} on the average"


def _most_first(entry: tuple[int, str]) -> tuple[int, str]:
    return -entry[0], entry[1]


def _unknown(prepared: PreparedLabels, name: str) -> str:
    part = prepared.parts[name]  # type: ignore[index]
    if not part.unknown:
        return ""
    return f" ({percent(part.unknown / max(1, part.num_steps))} unknown)"
