"""The validation text of a run, on which numbers are fitted that nobody gave."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elman.data.token_array import LineArray
from elman.errors import DataError, RunError, SettingError
from elman.evaluation.language import score_lines_by, score_stream_by
from elman.evaluation.scorers import TokenScorer
from elman.recipes.held_out import ids_in_pieces, parts_of_run, stream_boundary
from elman.recipes.prepared_text import Part
from elman.recipes.trained import TrainedModel

OnFitted = Callable[[str, int], None]
"""Receives what is being fitted, such as "fitting the rate, try 2 of 5", and the tokens read."""

FITTED_TOKENS = 50_000
"""Tokens of validation text, from its beginning, that numbers are fitted on at most."""


class ValidationText:
    """The beginning of the validation part of a run, read when it is first needed.

    Where there are unknown tokens and known ones, numbers are fitted on the known: a guess that a
    word is unknown tells nothing of the word. `num_scored` and `num_left_out` count both.
    """

    def __init__(self, trained: TrainedModel, on_fitted: OnFitted = lambda stage, tokens: None):
        self._trained, self.on_fitted = trained, on_fitted
        self._sequences: list[npt.NDArray[np.integer]] | None = None
        self.num_scored = self.num_left_out = 0

    def nats(self, scorer: TokenScorer, stage: str) -> npt.NDArray[np.float64]:
        """Return the nats of each known token under `scorer`; `stage` is what that is told as."""
        told: list[npt.NDArray[np.float64]] = []
        known: list[npt.NDArray[np.bool_]] = []
        settings, vocabulary = self._trained.settings, self._trained.tokenizer.vocabulary
        if self._sequences is None:
            self.on_fitted("reading the validation text", 0)
            self._sequences = self._read()
        count, unknown = 0, -1 if vocabulary.unk_id is None else vocabulary.unk_id

        def add(nats_N: npt.NDArray[np.float64], targets_N: npt.NDArray[np.int64]) -> None:
            nonlocal count
            told.append(nats_N)
            known.append(targets_N != unknown)
            count += len(nats_N)
            self.on_fitted(stage, count)

        self.on_fitted(stage, 0)
        if settings.text.unit == "line":
            assert vocabulary.boundary_id is not None
            score_lines_by(
                scorer,
                self._sequences,
                boundary_id=vocabulary.boundary_id,
                on_line=lambda number, nats_N, targets_N: add(nats_N, targets_N),
            )
        else:
            score_stream_by(
                scorer,
                self._sequences,
                boundary_id=stream_boundary(settings, vocabulary),
                on_tokens=add,
            )
        found_N, known_N = np.concatenate(told), np.concatenate(known)
        if known_N.any():
            found_N = found_N[known_N]
        self.num_scored, self.num_left_out = len(found_N), len(known_N) - len(found_N)
        return found_N

    def _read(self) -> list[npt.NDArray[np.integer]]:
        trained = self._trained
        try:
            with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
                part = parts_of_run(trained, Path(scratch)).parts.get("valid")
                sequences = [] if part is None else list(_beginning(part))
        except (DataError, RunError) as error:
            raise SettingError(
                "numbers that are not given are fitted on the validation text of the run, which "
                "cannot be had",
                got=str(error),
                hint="give them, as --help says",
            ) from None
        if not sequences:
            raise SettingError(
                "numbers that are not given are fitted on the validation text of the run",
                got="a run without validation text",
                hint="give them, as --help says",
            )
        return sequences


def _beginning(part: Part) -> Iterator[npt.NDArray[np.integer]]:
    """Yield copies of the first sequences of a part, about FITTED_TOKENS in all."""
    left = FITTED_TOKENS
    if isinstance(part.ids, LineArray):
        for number in range(len(part.ids)):
            line_N = np.array(part.ids.line(number))
            yield line_N
            left -= len(line_N) + 1
            if left <= 0:
                return
        return
    for piece_N in ids_in_pieces(part.ids):
        yield np.array(piece_N[:left])
        left -= len(piece_N)
        if left <= 0:
            return
