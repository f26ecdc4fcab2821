"""Count models of a run's own training text, scored on the same held-out text in the same unit."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from elman.config.settings import Settings
from elman.data.token_array import LineArray
from elman.evaluation.units import LanguageScore, LanguageTally
from elman.models.count import CountModel
from elman.recipes.held_out import stream_boundary
from elman.recipes.preparing import Part, PartName, PreparedText
from elman.text.vocabulary import Vocabulary


def count_score(
    settings: Settings, prepared: PreparedText, *, order: int, on: PartName
) -> LanguageScore:
    """Return the score of the part `on` under counts of the training part, of the given order.

    Tokens, targets and units are those of the recurrent model, so that the figures compare.
    """
    vocabulary = prepared.tokenizer.vocabulary
    model = CountModel.fit(
        _sequences(settings, vocabulary, prepared.parts["train"]),
        order=order,
        vocabulary_size=len(vocabulary),
    )
    part = prepared.parts[on]
    tally = LanguageTally(unk_id=vocabulary.unk_id)
    for ids_N in _sequences(settings, vocabulary, part):
        tally.add(-model.log_probs([ids_N]), np.asarray(ids_N[1:]))
    return tally.score().with_text(characters=part.characters, utf8_bytes=part.utf8_bytes)


def _sequences(
    settings: Settings, vocabulary: Vocabulary, part: Part
) -> Iterator[npt.NDArray[np.integer]]:
    """Yield what is counted: framed lines, or the stream after its start mark if it has one."""
    if isinstance(part.ids, LineArray):
        assert vocabulary.boundary_id is not None
        yield from part.ids.framed(vocabulary.boundary_id)
        return
    boundary_id = stream_boundary(settings, vocabulary)
    ids_N = np.asarray(part.ids)
    yield ids_N if boundary_id is None else np.concatenate([[boundary_id], ids_N])
