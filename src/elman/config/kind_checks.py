"""What a kind of language model leaves without effect, or cannot be."""

from collections.abc import Iterator
from dataclasses import fields

from elman.config.fields import setting_facts, shown
from elman.config.ngram_settings import NgramModel
from elman.config.settings import Settings
from elman.errors import SettingError

CELL_KINDS = ("elman", "gru", "lstm", "mgu", "mingru", "minlstm")
_COUNTED = tuple(item.name for item in fields(NgramModel))
_KEPT_BY_COUNTS = ("training.seed", "training.threads", "model.kind", "model.task")


def acts_on_counts(key: str) -> bool:
    """Return whether the setting `key`, such as `model.order`, says something to count models."""
    section, _, name = key.partition(".")
    return section in ("text", "data") or key in _KEPT_BY_COUNTS or name in _COUNTED


def kind_clashes(settings: Settings) -> Iterator[SettingError]:
    """Yield what clashes with `model.kind`."""
    model = settings.model
    if model.task != "lm" and model.kind not in CELL_KINDS:
        yield SettingError(
            f"model.kind = {shown(model.kind)} is a language model",
            got=f"model.task = {shown(model.task)}",
            allowed=", ".join(CELL_KINDS),
        )
    if model.kind == "ngram":
        yield from _beside_counts(settings)
    if model.kind == "transformer" and model.hidden_size % (2 * model.num_heads):
        yield SettingError(
            "each head of a transformer must be of an even width",
            got=f"model.hidden_size = {model.hidden_size} for model.num_heads = {model.num_heads}",
            allowed=f"a multiple of {2 * model.num_heads}",
        )
    if model.kind == "window" and model.tie_weights and model.direct_connections:
        yield SettingError(
            "an output that sees the window by itself has another matrix than the embedding",
            got="model.tie_weights = true with model.direct_connections = true",
            allowed="one of them",
        )


def _beside_counts(settings: Settings) -> Iterator[SettingError]:
    """Yield every setting of learning that is changed, as counts are not learnt."""
    for facts in setting_facts():
        if acts_on_counts(facts.key):
            continue
        value = getattr(getattr(settings, facts.section), facts.name)
        if value != facts.default:
            yield SettingError(
                f'{facts.key} has no effect with model.kind = "ngram"',
                got=f"{facts.key} = {shown(value)}",
                hint="leave it out: it says nothing to a count model",
            )
