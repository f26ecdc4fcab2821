"""Texts and settings that train within seconds."""

from elman.data.corpora import language_reference
from elman.recipes.diagnosing.planting import Texts

SMALL = (
    *("training.batch_size=16", "training.window=32", "training.threads=1"),
    *("model.hidden_size=48", "model.embedding_size=16", "training.updates=400"),
)


def reference_texts(first: int, size: int, valid: int = 12_000) -> Texts:
    """A part of the built-in text, in whole lines."""
    text = language_reference()[first:]
    cut = text.index("\n", size) + 1
    return Texts(text[:cut], text[cut : text.index("\n", cut + valid) + 1])
