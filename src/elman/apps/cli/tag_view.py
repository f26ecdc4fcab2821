"""A tagger as a person sees it learn."""

from collections.abc import Mapping

from elman.apps.cli.output import error_console, plural, say
from elman.apps.cli.tag_output import tag_table, tag_warnings, tags_table
from elman.apps.cli.training_view import TITLES, TrainingView, tell_names
from elman.data.examples import TagBatch
from elman.models.tagger import SequenceTagger
from elman.recipes.prepared_text import PART_NAMES
from elman.recipes.tag import TagRun, TagTask
from elman.recipes.tag_preparing import PreparedTags
from elman.training.events import ValidationEvent


class TagView(TrainingView[PreparedTags, SequenceTagger, TagBatch]):
    """Sentences and tags read; nats a token; figures beside those of usual tags."""

    @property
    def task(self) -> TagTask:
        """The tagger."""
        return TagTask()

    def tell_data(self, run: TagRun) -> None:
        """Tell how many sentences there are, and how many words and tags."""
        prepared = run.prepared
        train = prepared.parts["train"]
        tell_names(list(prepared.names))
        say(
            f"text:  {train.num_tokens:,} token{plural(train.num_tokens)} to learn from in "
            f"{len(train.rows):,} sentence{plural(len(train.rows))}"
        )
        sizes = prepared.sizes()
        kinds = ", ".join(
            f"{sizes[name]:,} {name.removesuffix('s')}{plural(sizes[name])}"
            for name in ("words", "characters", "tags")
        )
        held = [
            f"{prepared.parts[name].num_tokens:,} {name}"
            for name in PART_NAMES[1:]
            if name in prepared.parts
        ]
        say(f"       held out: {', '.join(held) or 'none'}; {kinds}")
        facts = run.trainer.model.describe()
        say(f"       spellings: {facts['spelling']}; head: {facts['head']}")

    def num_scored(self, prepared: PreparedTags) -> int:
        """Return the tokens of what is held out."""
        return sum(part.num_tokens for name, part in prepared.parts.items() if name != "train")

    def training_figure(self, nats: float, run: TagRun) -> str:
        """Return nats."""
        return f"{nats:.3f}"

    def validation_figure(self, event: ValidationEvent, run: TagRun) -> str:
        """Return nats a token."""
        return f"{event.loss_nats / max(event.num_tokens, 1):.4f} nats/token"

    def tell_scores(self, scores: Mapping[str, Mapping[str, object]]) -> None:
        """Show a column of figures for each part, and each tag of the last one."""
        ordered = {TITLES[name]: scores[name] for name in TITLES if name in scores}
        console = error_console()
        console.print(tag_table(ordered))
        title, last = list(ordered.items())[-1]
        say(f"\neach tag, {title}\n{tags_table(last)}\n")
        for title, score in ordered.items():
            for warning in tag_warnings(score):
                say(f"warning: {title}: {warning}")

    def next_step(self, path: str) -> str:
        """Let it tag."""
        return f"predict {path} FILE"
