"""Count models of a run's own training text, scored on the same held-out text in the same unit."""

import numpy as np

from elman.config.settings import Settings
from elman.evaluation.units import LanguageScore, LanguageTally
from elman.models.ngram.counting import count_grams
from elman.models.ngram.smoothing import estimate
from elman.recipes.counting import no_outcomes, occurrences
from elman.recipes.prepared_text import PartName, PreparedText


def count_score(
    settings: Settings, prepared: PreparedText, *, order: int, on: PartName
) -> LanguageScore:
    """Return the score of the part `on` under counts of the training part, of the given order.

    Tokens, targets and units are those of the recurrent model, so that the figures compare.
    """
    vocabulary, size = prepared.tokenizer.vocabulary, len(prepared.tokenizer.vocabulary)
    learnt = occurrences(settings, vocabulary, prepared.parts["train"])
    grams = count_grams(learnt, order=order, vocabulary_size=size)
    tables = estimate(grams, size, never=no_outcomes(settings, vocabulary)).tables
    part = prepared.parts[on]
    where = occurrences(settings, vocabulary, part)
    tally = LanguageTally(unk_id=vocabulary.unk_id)
    tally.add(-tables.log_probs(where), np.asarray(where.ids_N[where.depths_N > 0]))
    return tally.score().with_text(characters=part.characters, utf8_bytes=part.utf8_bytes)
