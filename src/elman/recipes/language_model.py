"""The language model as a task: next-token prediction on a text."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from elman.checkpoints.run_folder import RunFolder
from elman.config.settings import Settings
from elman.data.batches import BatchSource, TokenBatch
from elman.evaluation.units import LanguageScore
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.models.language import LanguageModel
from elman.models.language_models import new_language_model
from elman.recipes.class_splitting import order_readout, with_cutoffs
from elman.recipes.corpus import open_corpus
from elman.recipes.held_out import held_out_scores, training_source, validation_source
from elman.recipes.language_presets import language_preset
from elman.recipes.learning import Run
from elman.recipes.prepared_text import PreparedText
from elman.recipes.preparing import prepare_text
from elman.recipes.reopening import reopen_prepared
from elman.recipes.sizing import notices_of_size, suggested_settings
from elman.recipes.task import Task
from elman.recipes.trained import require_same_text
from elman.seeding import generator
from elman.text.tokenizer_file import tokenizer_from_json
from elman.training.language_objective import LanguageObjective
from elman.training.loop import Trainer

LOOKS_BACK: Mapping[str, int] = MappingProxyType({"window": 8, "transformer": 256})
"""Tokens that are looked back at where `model.context_length` is 0."""

MANY_WORDS = 20_000
"""From so many words to learn from on those seen once are usually read as unknown. Where none is,
an unknown word of a held-out text costs whatever its logit drifts to, which outweighs all else."""
MOST_ONCE = 0.25
"""Share of the words that are seen once, beyond which little would be left of the text."""
LOOKED_AT_WORDS = 200_000

LanguageModelRun = Run[PreparedText, LanguageModel, TokenBatch]


class LanguageTask(Task[PreparedText, LanguageModel, TokenBatch]):
    """A recurrent language model: every token of a text from those before it."""

    @property
    def base(self) -> Settings:
        """The defaults."""
        return Settings()

    def preset(self, name: str, early: Settings) -> tuple[str, ...]:
        """Return sizes and noise by name."""
        return language_preset(name, early)

    def first_suggestions(self, early: Settings, scratch: Path) -> tuple[str, ...]:
        """Return that words seen once are unknown, in a text of many: so those are learnt too.

        A list of words, each once, is left as it is.
        """
        text, data = early.text, early.data
        if text.level != "word" or text.unknown != "replace" or text.literal_unknown:
            return ()
        if not data.train:
            return ()
        held_out = (0.0 if data.valid else data.valid_fraction) + (
            0.0 if data.test else data.test_fraction
        )
        found = open_corpus(data.train, encoding=text.encoding, repeats="keep", scratch=scratch)
        words = Counter[str]()
        for chunk in found.chunks():
            words.update(chunk.split())
            if words.total() >= LOOKED_AT_WORDS:
                break
        once = sum(count == 1 for count in words.values())
        many = words.total() * (1.0 - held_out) >= MANY_WORDS
        return ("text.min_count=2",) if many and once <= MOST_ONCE * words.total() else ()

    def prepare(self, settings: Settings, scratch: Path) -> PreparedText:
        """Read, split, tokenise and encode the text."""
        return prepare_text(settings, scratch)

    def reopen(
        self, folder: RunFolder, recorded: Mapping[str, object], scratch: Path
    ) -> PreparedText:
        """Return the text as the run began with it."""
        tokenizer = tokenizer_from_json(folder.tokenizer_json)
        require_same_text(folder.settings.text, tokenizer, folder.path)
        return reopen_prepared(folder.settings, tokenizer, scratch, recorded)

    def suggestions(
        self, early: Settings, prepared: PreparedText, *, budget_seconds: float | None
    ) -> tuple[str, ...]:
        """Return sizes that fit the text."""
        return suggested_settings(early, prepared.num_targets, budget_seconds=budget_seconds)

    def size_notices(self, prepared: PreparedText) -> tuple[str, ...]:
        """Return a line where the text is too small to learn much from."""
        return notices_of_size(prepared.num_targets)

    def chosen(self, settings: Settings, prepared: PreparedText) -> Settings:
        """Return `settings` with the cutoffs of a split output, and how far is looked back."""
        return with_reach(with_cutoffs(settings, prepared))

    def model(self, settings: Settings, prepared: PreparedText) -> LanguageModel:
        """Return a new recurrent language model, its output in the order of the counts."""
        model = new_language_model(
            settings.model,
            len(prepared.tokenizer.vocabulary),
            generator(settings.training.seed, "initialisation"),
        )
        order_readout(model, prepared)
        return model

    def objective(
        self, model: LanguageModel, settings: Settings, prepared: PreparedText
    ) -> LanguageObjective[LanguageModel]:
        """Return next-token prediction."""
        return LanguageObjective(model, settings.training)

    def source(
        self, settings: Settings, prepared: PreparedText
    ) -> tuple[BatchSource[TokenBatch], tuple[str, ...]]:
        """Return the batches of the stream, or of lines."""
        return training_source(settings, prepared)

    def validation(
        self,
        settings: Settings,
        prepared: PreparedText,
        trainer: Trainer[LanguageModel, TokenBatch],
    ) -> Callable[[], LossSum] | None:
        """Return the held-out loss in lanes, which is quick and a little too high."""
        return validation_source(settings, prepared, trainer)

    def scores(
        self,
        model: LanguageModel,
        settings: Settings,
        prepared: PreparedText,
        plan: KernelPlan,
        on_scored: Callable[[int], None],
    ) -> Mapping[str, LanguageScore]:
        """Return the exact scores of the text held out."""
        scores = held_out_scores(model, settings, prepared, plan, on_scored)
        return {str(name): score for name, score in scores.items()}


def with_reach(settings: Settings) -> Settings:
    """Return `settings` with the tokens that a window or a Transformer looks back at said."""
    model = settings.model
    if model.kind not in LOOKS_BACK or model.context_length:
        return settings
    return replace(settings, model=replace(model, context_length=LOOKS_BACK[model.kind]))
