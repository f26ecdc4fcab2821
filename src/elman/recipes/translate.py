"""The encoder-decoder as a task: another sequence for each source."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.config.text_settings import TextSettings
from elman.config.training_settings import TrainingSettings
from elman.data.batches import BatchSource
from elman.data.examples import PairBatch
from elman.decoding.translation_steps import TranslationSearch
from elman.evaluation.translation_report import TranslationReport, forced_score
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.models.encoder_decoder import EncoderDecoder
from elman.recipes.learning import Run
from elman.recipes.pair_preparing import PreparedPairs, prepare_pairs, target_ids
from elman.recipes.presets import PRESETS, named_preset
from elman.recipes.row_task import VALIDATED_AT_ONCE, RowTask, held_out_parts
from elman.recipes.translating import Translator, report_of
from elman.seeding import generator
from elman.training.translation_objective import TranslationObjective

TranslateRun = Run[PreparedPairs, EncoderDecoder, PairBatch]

FEW_PAIRS, MANY_TOKENS, MOST_TOKENS = 200, 100_000, 1_000_000
MANY_SIGNS = 1_000
"""Targets of fewer kinds of tokens, such as letters or phones, are learnt without smoothing: their
answers are nearly certain, and every share that is spread is taken from a right one."""

BASE = Settings(
    text=TextSettings(unit="line", prompt_unknown="replace"),
    model=ModelSettings(
        task="translate",
        attention="projected",
        bidirectional=True,
        embedding_size=128,
        hidden_size=256,
        dropout=0.3,
    ),
    training=TrainingSettings(
        optimizer="adamw", learning_rate=2e-3, batch_size=64, length_pool=8, label_smoothing=0.1
    ),
)
"""What an encoder-decoder is unless settings say otherwise."""


class TranslateTask(RowTask[PreparedPairs, EncoderDecoder, PairBatch]):
    """Pairs of sequences, in tables or in two parallel files."""

    @property
    def base(self) -> Settings:
        """The defaults."""
        return BASE

    @property
    def called(self) -> tuple[str, str]:
        """Pairs."""
        return "pairs", "pairs"

    def preset(self, name: str, early: Settings) -> tuple[str, ...]:
        """Return a named architecture."""
        return named_preset(PRESETS, name)

    def prepare(self, settings: Settings, scratch: Path) -> PreparedPairs:
        """Read, split and encode the pairs."""
        return prepare_pairs(settings, scratch)

    def suggestions(
        self, early: Settings, prepared: PreparedPairs, *, budget_seconds: float | None
    ) -> tuple[str, ...]:
        """Return sizes that fit the pairs, and plain targets where these are of few signs."""
        tokens = prepared.num_targets
        suggestions = []
        if tokens < MANY_TOKENS:
            suggestions += ["model.embedding_size=64", "model.hidden_size=128"]
            suggestions += ["training.batch_size=32"]
        elif tokens >= MOST_TOKENS:
            suggestions += ["model.embedding_size=256", "model.hidden_size=384"]
            suggestions += ["training.batch_size=128"]
        if len(prepared.target.vocabulary) < MANY_SIGNS:
            suggestions.append("training.label_smoothing=0.0")
        if not (budget_seconds or early.training.epochs or early.training.updates):
            suggestions.append(f"training.epochs={_epochs(tokens)}")
        return tuple(suggestions)

    def size_notices(self, prepared: PreparedPairs) -> tuple[str, ...]:
        """Return a line where there is too little to learn from."""
        pairs = prepared.parts["train"].num_rows
        if pairs >= FEW_PAIRS:
            return ()
        some = f"{pairs:,} pair{'s' * (pairs != 1)}"
        return (f"only {some} to learn from; {FEW_PAIRS:,} are a beginning",)

    def model(self, settings: Settings, prepared: PreparedPairs) -> EncoderDecoder:
        """Return a new encoder-decoder."""
        return EncoderDecoder(
            settings.model,
            len(prepared.source.vocabulary),
            len(prepared.target.vocabulary),
            generator(settings.training.seed, "initialisation"),
        )

    def objective(
        self, model: EncoderDecoder, settings: Settings, prepared: PreparedPairs
    ) -> TranslationObjective:
        """Return the likelihood of the targets."""
        boundary_id = target_ids(prepared.target).boundary_id
        return TranslationObjective(model, settings.training, boundary_id=boundary_id)

    def held_out_loss(
        self,
        model: EncoderDecoder,
        prepared: PreparedPairs,
        source: BatchSource[PairBatch],
        plan: KernelPlan,
    ) -> LossSum:
        """Return the teacher-forced loss of the targets."""
        boundary_id = target_ids(prepared.target).boundary_id
        every = (source.batch(0, index) for index in range(source.batches_per_epoch(0)))
        score = forced_score([model], every, boundary_id=boundary_id, plan=plan)
        return LossSum(torch.tensor(score.loss_nats, dtype=torch.float64), score.num_tokens)

    def scores(
        self,
        model: EncoderDecoder,
        settings: Settings,
        prepared: PreparedPairs,
        plan: KernelPlan,
        on_scored: Callable[[int], None],
    ) -> Mapping[str, TranslationReport]:
        """Return the exact scores of the parts held out, answers found greedily."""
        translator = Translator(
            settings, prepared.source, prepared.target, (model,), plan, prepared.growth
        )
        reports: dict[str, TranslationReport] = {}
        for name, part, tell in held_out_parts(
            prepared.parts, on_scored, lambda part: part.num_rows
        ):
            if not part.num_rows:
                continue
            reports[name] = report_of(
                translator,
                part,
                prepared.batches(name, batch_size=VALIDATED_AT_ONCE, seed=0, order="stored"),
                translator.search(TranslationSearch()),
                batch_size=VALIDATED_AT_ONCE,
                on_scored=tell,
            )
        return reports


def _epochs(num_tokens: int) -> int:
    """Return how many passes to make where nothing says when to stop."""
    return 8 if num_tokens >= MOST_TOKENS else 20 if num_tokens >= MANY_TOKENS else 40
