"""A trained run, opened: settings, tokenizer and model, ready to score or to generate."""

from dataclasses import dataclass
from pathlib import Path

from elman.checkpoints.run_folder import RunFolder
from elman.config.settings import Settings
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel
from elman.seeding import generator
from elman.text.tokenizer import Tokenizer
from elman.text.tokenizer_file import tokenizer_from_json


@dataclass(frozen=True)
class TrainedModel:
    """What scoring and generating need of a run. `weights_digest` names its weights."""

    path: Path
    settings: Settings
    tokenizer: Tokenizer
    model: RecurrentLanguageModel
    plan: KernelPlan
    weights_digest: str


def open_trained(path: str | Path) -> TrainedModel:
    """Open the run at `path` and load its best weights. Raises `RunError` where that cannot be."""
    folder = RunFolder.open(path)
    settings = folder.settings
    tokenizer = tokenizer_from_json(folder.tokenizer_json)
    model = RecurrentLanguageModel(
        settings.model, len(tokenizer.vocabulary), generator(0, "initialisation")
    )
    record = folder.load_weights(model)
    return TrainedModel(
        folder.path,
        settings,
        tokenizer,
        model,
        KernelPlan(settings.training.kernels),
        record.digest,
    )
