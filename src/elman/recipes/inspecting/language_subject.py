"""A recurrent language model and a text: at every step, the token that is expected next."""

from collections.abc import Callable, Iterable, Iterator
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
from elman.recipes.inspecting.unknown_marks import told_unknown, unknown_places
from elman.recipes.trained import TrainedModel, open_trained
from elman.recipes.unknown_tokens import known_and_unknown
from elman.text.tokenizer import Ids, Tokenizer
from elman.text.vocabulary import BOUNDARY

LINES_AT_ONCE = 256


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

    A line stands between its marks; a run that reads from the end has them from the end. `starts`
    are the places at which a line begins, of which only a run of lines may have several.
    """

    trained: TrainedModel
    model: RecurrentLanguageModel
    ids_N: npt.NDArray[np.int64]
    starts: tuple[int, ...] = (0,)

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

    @property
    def is_line(self) -> bool:
        """Whether the run is of lines, whose state ends with the mark that closes one."""
        return self.settings.text.unit == "line"

    @property
    def num_lines(self) -> int:
        """How many lines the text has, each read from its own beginning; 1 for a stream."""
        return len(self.starts)

    def lines(self, most: int | None = None) -> list[npt.NDArray[np.int64]]:
        """Return the ids that are read of each line, without the mark that closes it.

        `most` ends at the line that reaches so many tokens; None: all lines.
        """
        ends = (*self.starts[1:], len(self.ids_N))
        closing = int(self.is_line)
        return [
            self.ids_N[start : end - closing]
            for start, end in zip(self.starts, ends, strict=True)
            if most is None or start < most
        ]

    def batches(self, most: int | None = None) -> Iterator[tuple[list[int], npt.NDArray[np.int64]]]:
        """Yield the places of lines of one length, some at a time, and their ids_BT."""
        lines, by_length = self.lines(most), dict[int, list[int]]()
        for place, ids_T in enumerate(lines):
            by_length.setdefault(len(ids_T), []).append(place)
        for places in by_length.values():
            for start in range(0, len(places), LINES_AT_ONCE):
                some = places[start : start + LINES_AT_ONCE]
                yield some, np.stack([lines[place] for place in some])

    def require_one_line(self, asked: str) -> None:
        """Raise `DataError`, which names what was asked for, where the text has several lines."""
        if self.num_lines > 1:
            raise DataError(
                f"a run of lines reads one line at a time for {asked}",
                got=f"{self.num_lines:,} lines",
                hint="give one of them; --show gates, memory and change read every line",
            )

    def read(self) -> None:
        """Read the text by the run's kernels."""
        with torch.no_grad():
            for _, ids_BT in self.batches():
                self.model(torch.from_numpy(ids_BT), plan=self.trained.plan)

    def texts(self) -> Iterator[Iterable[Tensor]]:
        """Yield every line, those of one length together; a stream window by window."""
        if self.num_lines == 1:
            yield self.pieces()
            return
        for _, ids_BT in self.batches():
            yield [self._inputs(torch.from_numpy(ids_BT))]

    def pieces(self) -> Iterator[Tensor]:
        """Yield the text, or its first line, window by window."""
        ids_N = self.lines()[0]
        for start in range(0, len(ids_N), WINDOW):
            yield self._inputs(torch.from_numpy(ids_N[start : start + WINDOW])[None])

    def vocabulary_pieces(self) -> Iterator[Tensor]:
        """Yield every token, some at a time."""
        for start in range(0, self.model.vocabulary_size, WINDOW):
            stop = min(start + WINDOW, self.model.vocabulary_size)
            yield self._inputs(torch.arange(start, stop).unsqueeze(1))

    def steps(self, top: int) -> Iterator[SubjectStep]:
        """Yield every step; memory does not grow with the text."""
        for step in trace(self.model, self.ids_N, top=top):
            if self.is_line and step.following is None:
                return  # nothing is expected after the mark that closes a line
            following = None if step.following is None else self.shown[step.position + 1]
            # Tensors are not kept: a long text would hold them all.
            said = Expectation(step._replace(cells=()), following, self.spelling)
            yield SubjectStep(step.cells, said)

    def token(self, token_id: int) -> str:
        """Return a token as a person reads it in a table."""
        return self.trained.tokenizer.token_text(token_id)

    def spelling(self, token_id: int) -> str:
        """Return a token as it is spelled, specials by their name, part of a character as bytes."""
        tokenizer = self.trained.tokenizer
        if token_id < len(tokenizer.vocabulary.specials):
            return tokenizer.vocabulary.symbols[token_id]
        spelled = tokenizer.token_bytes(token_id)
        try:
            return spelled.decode("utf-8")
        except UnicodeDecodeError:
            return f"0x{spelled.hex()}"

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
    """Return the text as the language model at `path` reads it, a run of lines every line.

    Raises `RunError` for a run without a recurrent state, `DataError` for a text without tokens.
    """
    trained, model = open_recurrent(path)
    settings, tokenizer = trained.settings.text, trained.tokenizer
    is_line = settings.unit == "line"
    given = text.rstrip("\n").split("\n") if is_line else [text]
    ids, shown, starts, left_out = list[int](), list[str](), list[int](), 0
    for each in given:
        ids_N, tokens = _tokens(tokenizer, each, unknown)
        left_out += known_and_unknown(tokenizer, each, ids_N, unknown)[0] - len(ids_N)
        if not len(ids_N):
            continue
        if settings.direction == "backward":
            ids_N, tokens = ids_N[::-1], tokens[::-1]
        starts.append(len(ids))
        mark = tokenizer.vocabulary.boundary_id
        before = [mark] if mark is not None and (is_line or settings.start == "mark") else []
        after = before if is_line else []
        ids += [*before, *ids_N.tolist(), *after]
        shown += [*[BOUNDARY] * len(before), *tokens, *[BOUNDARY] * len(after)]
    if not ids:
        raise DataError("there is no token in the text", got=repr(text))
    whole_N = np.array(ids, dtype=np.int64)
    strange = unknown_places(tokenizer, whole_N)
    marks = shown.count(BOUNDARY)
    notices = [*told_unknown(shown, strange, left_out, marks=marks)]
    if settings.direction == "backward":
        notices.append(
            "the run reads backward: from the end of the text, and next is the token before"
        )
    if len(starts) > 1:
        notices.append(f"{len(starts):,} lines are read, each from its own beginning")
    return LanguageSubject(
        path,
        trained.settings,
        tuple(shown),
        tuple(notices),
        strange,
        trained,
        model,
        whole_N,
        tuple(starts),
    )


def _tokens(
    tokenizer: Tokenizer, text: str, unknown: UnknownPolicy | None
) -> tuple[Ids, list[str]]:
    """Return ids and tokens for a person: beside a part of a character its bytes."""
    ids_N, starts_N, ends_N = tokenizer.encode_with_offsets(text, policy=unknown)
    normal, tokens = tokenizer.normalise(text), list[str]()
    for token_id, start, end in zip(
        ids_N.tolist(), starts_N.tolist(), ends_N.tolist(), strict=True
    ):
        token = normal[start:end]
        spelled = tokenizer.token_bytes(token_id) if tokenizer.spells_every_text else b""
        is_part = spelled and spelled != token.encode()
        tokens.append(f"{token} 0x{spelled.hex()}" if is_part else token)
    return ids_N, tokens
