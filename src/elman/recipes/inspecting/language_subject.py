"""A recurrent language model and a text: at every step, the token that is expected next."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.config.text_settings import UnknownPolicy
from elman.errors import DataError, RunError
from elman.evaluation.units import nats_to_bits
from elman.inspection.trace import WINDOW, Choice, TokenStep, trace
from elman.layers.stack import RecurrentStack
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.inspecting.subject import Subject, SubjectStep
from elman.recipes.trained import TrainedModel, open_trained
from elman.text.vocabulary import BOUNDARY


@dataclass(frozen=True)
class Expectation:
    """What is expected after a token, beside what follows; `step` has the figures, and no cells."""

    step: TokenStep
    following: str | None
    token_of: Callable[[int], str]

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        step, found = self.step, self.step.following
        told: dict[str, object] = {
            "token_id": step.token_id,
            "top": [self._choice_json(choice) for choice in step.top],
            "greedy_differs": step.greedy_differs,
        }
        if found is not None:
            told["next"] = self._choice_json(found.choice) | {
                "token": self.following,
                "rank": found.rank,
                "surprisal_bits": nats_to_bits(found.nats),
            }
        return told

    def columns(self) -> dict[str, object]:
        """Return a cell for each column; those of what follows are empty after the last token."""
        found, names = self.step.following, ("logit", "probability", "rank", "surprisal bits")
        values: tuple[object, ...] = ("",) * len(names)
        if found is not None:
            choice = found.choice
            values = choice.logit, choice.probability, found.rank, nats_to_bits(found.nats)
        return {
            "next": self.following or "",
            **{f"next {name}": value for name, value in zip(names, values, strict=True)},
            "greedy": self.token_of(self.step.top[0].token_id),
            "greedy differs": int(self.step.greedy_differs),
        }

    @property
    def mark(self) -> float | None:
        """The surprisal of what follows, in bits; None where nothing does."""
        found = self.step.following
        return None if found is None else nats_to_bits(found.nats)

    def _choice_json(self, choice: Choice) -> dict[str, object]:
        return {
            "token": self.token_of(choice.token_id),
            "token_id": choice.token_id,
            "logit": choice.logit,
            "probability": choice.probability,
        }


@dataclass(frozen=True)
class LanguageSubject(Subject):
    """ids_N as the model reads them.

    A line stands between its marks; a run that reads from the end has them from the end.
    """

    trained: TrainedModel
    model: RecurrentLanguageModel
    ids_N: npt.NDArray[np.int64]

    task = "lm"
    mark_title = "bits of surprise at each token"
    mark_shift = 1

    @property
    def module(self) -> RecurrentLanguageModel:
        """The language model."""
        return self.model

    @property
    def stack(self) -> RecurrentStack:
        """Its layers."""
        return self.model.stack

    def read(self) -> None:
        """Read the text by the run's kernels."""
        with torch.no_grad():
            self.model(torch.from_numpy(self.ids_N)[None], plan=self.trained.plan)

    def pieces(self) -> Iterator[Tensor]:
        """Yield the text window by window."""
        for start in range(0, len(self.ids_N), WINDOW):
            yield self._inputs(torch.from_numpy(self.ids_N[start : start + WINDOW])[None])

    def vocabulary_pieces(self) -> Iterator[Tensor]:
        """Yield every token, some at a time."""
        for start in range(0, self.model.vocabulary_size, WINDOW):
            stop = min(start + WINDOW, self.model.vocabulary_size)
            yield self._inputs(torch.arange(start, stop).unsqueeze(1))

    def steps(self, top: int) -> Iterator[SubjectStep]:
        """Yield every step; memory does not grow with the text."""
        for step in trace(self.model, self.ids_N, top=top):
            following = None if step.following is None else self.shown[step.position + 1]
            # Tensors are not kept: a long text would hold them all.
            said = Expectation(step._replace(cells=()), following, self.token)
            yield SubjectStep(step.cells, said)

    def token(self, token_id: int) -> str:
        """Return a token as a person reads it in a table."""
        return self.trained.tokenizer.token_text(token_id)

    def _inputs(self, ids_BT: Tensor) -> Tensor:
        with torch.no_grad():
            return self.model.inputs(ids_BT)


def open_recurrent(path: Path) -> tuple[TrainedModel, RecurrentLanguageModel]:
    """Return a run whose model is recurrent. Raises `RunError` for another one."""
    trained = open_trained(path)
    if not isinstance(trained.model, RecurrentLanguageModel):
        raise RunError(
            f"the run {path} has no recurrent state to look into",
            got=f"model.kind = {trained.settings.model.kind}",
            allowed="a recurrent language model",
            hint="elman compare --reach shows how far back any model looks",
        )
    return trained, trained.model


def language_subject(
    path: Path, text: str, *, unknown: UnknownPolicy | None = None
) -> LanguageSubject:
    """Return the text as the language model at `path` reads it.

    Raises `RunError` for a run without a recurrent state, `DataError` for a text without tokens or,
    where the run is of lines, of several.
    """
    trained, model = open_recurrent(path)
    tokenizer = trained.tokenizer
    is_line = trained.settings.text.unit == "line"
    if is_line and "\n" in text.rstrip("\n"):
        raise DataError(
            "a run of lines reads one line at a time",
            got=f"{text.rstrip(chr(10)).count(chr(10)) + 1} lines",
            hint="give one of them",
        )
    given = text.rstrip("\n") if is_line else text
    ids_N, starts_N, ends_N = tokenizer.encode_with_offsets(given, policy=unknown)
    if not len(ids_N):
        raise DataError("there is no token in the text", got=repr(text))
    normal = tokenizer.normalise(given)
    shown = [
        normal[start:end] for start, end in zip(starts_N.tolist(), ends_N.tolist(), strict=True)
    ]
    if trained.settings.text.direction == "backward":
        ids_N, shown = ids_N[::-1], shown[::-1]
    ids = ids_N.astype(np.int64)
    if is_line or trained.settings.text.start == "mark":
        assert tokenizer.vocabulary.boundary_id is not None
        mark = np.array([tokenizer.vocabulary.boundary_id], dtype=np.int64)
        ids, shown = np.concatenate((mark, ids)), [BOUNDARY, *shown]
        if is_line:
            ids, shown = np.concatenate((ids, mark)), [*shown, BOUNDARY]
    return LanguageSubject(path, trained.settings, tuple(shown), (), trained, model, ids)
