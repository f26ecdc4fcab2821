"""Text that a trained model writes: a prompt read once, then one token at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from elman.checkpoints.tensor_file import read_tensor_file, write_tensor_file
from elman.config.settings import UnknownPolicy
from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import Generation, GenerationState, reseed
from elman.decoding.streaming import TextStream
from elman.errors import DataError, RunError, SettingError
from elman.recipes.scoring import first_context
from elman.recipes.trained import TrainedModel


@dataclass(frozen=True)
class WriteRequest:
    """What to write. `stop` texts end it and are not shown; `unknown` None: as the run says."""

    prompt: str = ""
    max_tokens: int = 200
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    stop: tuple[str, ...] = ()
    unknown: UnknownPolicy | None = None


class Writer:
    """One generation as text. Its whole state is a value that can be saved and gone on from."""

    def __init__(self, trained: TrainedModel, request: WriteRequest) -> None:
        if request.max_tokens < 0:
            raise SettingError("max_tokens must be an int >= 0", got=str(request.max_tokens))
        if "" in request.stop:
            raise SettingError("a stop text must have at least one character", got="an empty one")
        self._trained, self._request = trained, request
        vocabulary = trained.tokenizer.vocabulary
        never = [i for i in (vocabulary.pad_id, vocabulary.unk_id) if i is not None]
        stops = () if vocabulary.boundary_id is None else (vocabulary.boundary_id,)
        if trained.settings.text.unit == "stream":
            never, stops = [*never, *stops], ()
        self.generation = Generation(
            trained.model,
            request.sampling,
            plan=trained.plan,
            forbidden_ids=never,
            stop_ids=stops,
        )
        tokenizer = trained.tokenizer
        self._stream = TextStream(tokenizer.token_bytes, separator=tokenizer.token_separator)
        self._started = self._stopped = False

    def begin(self) -> None:
        """Read the prompt; without one, what stands before a text (see `first_context`)."""
        ids = prompt_ids(self._trained, self._request.prompt, self._request.unknown)
        line = self._trained.settings.text.unit == "line"
        if not self._started and (line or not len(ids)):
            self.generation.feed([first_context(self._trained)])
        self._started = True
        self.generation.feed(ids.tolist())
        for token in ids.tolist():
            self._stream.follow(token)

    @property
    def num_tokens(self) -> int:
        """Tokens generated since the state began, a stop mark included."""
        return self.generation.num_generated

    @property
    def ended_by(self) -> Literal["stop mark", "stop text", "max tokens"]:
        """What ended the text, once `pieces` is exhausted."""
        if self.generation.ended:
            return "stop mark"
        return "stop text" if self._stopped else "max tokens"

    def pieces(self) -> Iterator[str]:
        """Yield the text written, as soon as it is certain, up to a stop text or mark."""
        held = ""
        for token in self.generation.tokens(self._request.max_tokens):
            held += self._stream.push(token)
            shown, held, ended = _until_stop(held, self._request.stop)
            if shown:
                yield shown
            if ended:
                self._stopped = True
                return
        held += self._stream.flush() if not self.generation.ended else ""
        shown, held, self._stopped = _until_stop(held, self._request.stop, last=True)
        if shown:
            yield shown

    def save(self, path: Path) -> None:
        """Write the state after the last token to `path`, atomically."""
        state = self.generation.state()
        facts = {
            "generation": state.facts(),
            "stream": self._stream.facts(),
            "weights": self._trained.weights_digest,
        }
        write_tensor_file(path, "generation state", state.tensors(), facts)

    def resume(self, path: Path, *, sampling: SamplingSettings, seed: int | None) -> None:
        """Go on from the state at `path`, exactly as if it had never stopped.

        `sampling` replaces the way of choosing, not the position of the generator; a `seed`, where
        given, starts that anew. Raises `RunError` where the state is another model's.
        """
        file = read_tensor_file(path, "generation state")
        file.verify()
        generation, stream = file.facts.get("generation"), file.facts.get("stream")
        if not isinstance(generation, dict) or not isinstance(stream, dict):
            raise RunError(f"{path} holds no state of a generation")
        if file.facts.get("weights") != self._trained.weights_digest:
            raise RunError(
                f"the state {path} belongs to other weights than those of {self._trained.path}",
                hint="use the run that wrote it, or name another file",
            )
        state = GenerationState.from_parts(file.tensors, generation, self._trained.model)
        state = replace(state, sampling=replace(sampling, seed=state.sampling.seed))
        if seed is not None:
            state = reseed(state, seed)
        if state.ended:  # the line is over: what follows is a new one, which knows nothing of it
            state = replace(state, model_state=None, ended=False)
        self.generation.restore(state)
        self._stream.restore(stream)
        self._started = True


def prompt_ids(
    trained: TrainedModel, prompt: str, unknown: UnknownPolicy | None
) -> npt.NDArray[np.int32]:
    """Return the ids of a prompt under the policy for prompts.

    Raises `UnknownSymbolError` listing symbols with their code points where that is to refuse, and
    `DataError` for a line end in the prompt of a model of lines, which ends a line.
    """
    if trained.settings.text.unit == "line" and "\n" in prompt:
        raise DataError(
            "a prompt for a model of lines must be one line",
            got=f"{prompt.count(chr(10)) + 1} lines",
        )
    policy = unknown or trained.settings.text.prompt_unknown
    return trained.tokenizer.encode(prompt, policy=policy)


def _until_stop(text: str, stops: tuple[str, ...], *, last: bool = False) -> tuple[str, str, bool]:
    """Return (what can be shown, what must be held, whether a stop text was met).

    The end of `text` that may yet become a stop text is held, unless this is the `last` piece.
    """
    found = [position for stop in stops if (position := text.find(stop)) >= 0]
    if found:
        return text[: min(found)], "", True
    if last:
        return text, "", False
    held = max(
        (n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])), default=0
    )
    return text[: len(text) - held], text[len(text) - held :], False
