"""A run in another precision of its weights, and what that costs in bits per character."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from elman.decoding.packing import pack_for_generation
from elman.decoding.rounding import RoundedLanguageModel
from elman.errors import ElmanError, SettingError
from elman.evaluation.units import LanguageScore
from elman.kernels.native_generation import NativeGenerator, WeightPrecision
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.corpus import open_corpus
from elman.recipes.scoring import ScoreRequest, score_files
from elman.recipes.trained import TrainedModel
from elman.text.raw_files import is_standard_input

MEASURED_CHARACTERS = 8192
"""Characters of the run's own text that `measured_cost` scores: a second's work or so."""


@dataclass(frozen=True)
class PrecisionCost:
    """The scores of one text in float32 and in another precision."""

    exact: LanguageScore
    rounded: LanguageScore

    @property
    def bits_per_character(self) -> float:
        """How many more the other precision takes; it can be below 0 by chance."""
        exact, rounded = self.exact.bits_per_character, self.rounded.bits_per_character
        assert exact is not None
        assert rounded is not None
        return rounded - exact

    @property
    def told(self) -> str:
        """The same as a person reads it, to five places and never −0."""
        return f"{round(self.bits_per_character, 5) + 0.0:+.5f} bits per character"


def pack(
    trained: TrainedModel, precision: WeightPrecision = "float32"
) -> tuple[TrainedModel, NativeGenerator | None, str]:
    """Return the run in `precision`, its model packed where that can be, and how it will run.

    In another precision than float32 the run's model is a `RoundedLanguageModel`, whose scores are
    those of what is packed, and which the readable loop uses where nothing is.
    """
    packed, how = pack_for_generation(trained.model, trained.plan, precision)
    if precision == "float32":
        return trained, packed, how
    if not isinstance(trained.model, RecurrentLanguageModel):
        raise SettingError(
            "weights of fewer bits are those of a recurrent model",
            got=f"--precision {precision} with model.kind = {trained.settings.model.kind}",
            allowed="--precision float32",
        )
    how = how if packed is not None else f"{how}, {precision} weights"
    rounded = RoundedLanguageModel(trained.model, precision, packed)
    return replace(trained, model=rounded), packed, how


def measured_cost(trained: TrainedModel, rounded: TrainedModel) -> tuple[PrecisionCost, str] | None:
    """Return the cost on the beginning of the run's own text, and that text's name.

    The text is the validation files where the run names some, else those that it was trained on.
    None where they cannot be read again.
    """
    data = trained.settings.data
    names = data.valid or data.train
    if not names or any(is_standard_input(name) for name in names):
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
            beginning = Path(scratch) / "text"
            text = _beginning(names, trained.settings.text.encoding, Path(scratch))
            beginning.write_text(text, encoding="utf-8", newline="")
            request = ScoreRequest((str(beginning),), encoding="utf-8", unknown="replace")
            exact, _ = score_files(trained, request)
            other, _ = score_files(rounded, request)
    except ElmanError:
        return None
    return PrecisionCost(exact, other), names[0]


def _beginning(names: tuple[str, ...], encoding: str, scratch: Path) -> str:
    corpus = open_corpus(names, encoding=encoding, repeats="keep", scratch=scratch)
    text = ""
    for piece in corpus.chunks():
        text += piece
        if len(text) >= MEASURED_CHARACTERS:
            break
    return text[:MEASURED_CHARACTERS]
