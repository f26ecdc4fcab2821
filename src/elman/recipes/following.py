"""Continuations of a prompt that a beam search finds, with what each is worth."""

from dataclasses import dataclass, field
from typing import Literal

import torch

from elman.decoding.beam import BeamSettings, beam_search
from elman.decoding.generation import PROMPT_CHUNK
from elman.decoding.model_steps import language_steps
from elman.decoding.search import Hypothesis, SearchLimits
from elman.decoding.streaming import TextStream
from elman.errors import SettingError
from elman.layers.stack import StackState
from elman.recipes.generating import WriteRequest, prompt_ids, require_forward
from elman.recipes.trained import TrainedModel


@dataclass(frozen=True)
class FollowRequest:
    """What to search for: `write` says the prompt and the most tokens, `beam` how, `min_length`
    the tokens that a line has at least.

    Nothing is drawn: the sampling of `write` has no part in it, and a stop text cannot have one, as
    it would end continuations of unlike lengths.
    """

    write: WriteRequest
    beam: BeamSettings = field(default_factory=BeamSettings)
    min_length: int = 0


@dataclass(frozen=True)
class Continuation:
    """One continuation: its text, and what the search ranks it by.

    log_prob_nats: of all its tokens after the prompt, the stop mark counted where there is one.
    """

    text: str
    num_tokens: int
    log_prob_nats: float
    score: float
    ended_by: Literal["stop mark", "max tokens"]


def follow(trained: TrainedModel, request: FollowRequest) -> list[Continuation]:
    """Return the `n_best` continuations of the prompt, the best one first.

    A model of lines ends them by its stop mark, unless `max_tokens` cut them; one of a stream
    writes `max_tokens` tokens. Raises `SettingError` for a stop text and for limits that clash.
    """
    require_forward(trained)
    write, settings = request.write, trained.settings
    if write.stop:
        raise SettingError("a beam takes no stop text", got=", ".join(map(repr, write.stop)))
    if write.max_tokens < 0:
        raise SettingError("max_tokens must be an int >= 0", got=str(write.max_tokens))
    if not 0 <= request.min_length <= write.max_tokens:
        raise SettingError(
            "min_length must be an int from 0 to max_tokens",
            got=f"{request.min_length} with max_tokens {write.max_tokens}",
        )
    vocabulary, is_lines = trained.tokenizer.vocabulary, settings.text.unit == "line"
    never = [i for i in (vocabulary.pad_id, vocabulary.unk_id) if i is not None]
    if not is_lines and vocabulary.boundary_id is not None:
        never.append(vocabulary.boundary_id)
    limits = SearchLimits(
        vocabulary.boundary_id if is_lines else None,
        (write.max_tokens,),
        min_length=request.min_length,
        forbidden_ids=tuple(never),
        at_limit="cut",
    )
    prompt = prompt_ids(trained, write.prompt, write.unknown).tolist()
    read = [trained.tokenizer.first_context, *prompt] if is_lines or not prompt else prompt
    with torch.inference_mode():
        found = beam_search(
            language_steps(trained.model, trained.plan),
            _state_after(trained, read[:-1]),
            torch.tensor(read[-1:]),
            limits,
            request.beam,
        )
    return [_continuation(trained, prompt, one) for one in found[0]]


def _state_after(trained: TrainedModel, ids: list[int]) -> StackState:
    state = trained.model.zero_state(1)
    for first in range(0, len(ids), PROMPT_CHUNK):
        ids_BT = torch.tensor([ids[first : first + PROMPT_CHUNK]])
        state = trained.model(ids_BT, state, plan=trained.plan).state
    return state


def _continuation(trained: TrainedModel, prompt: list[int], one: Hypothesis) -> Continuation:
    stream = TextStream(trained.tokenizer.token_bytes, separator=trained.tokenizer.token_separator)
    for token in prompt:
        stream.follow(token)
    text = "".join(map(stream.push, one.ids)) + stream.flush()
    ended: Literal["stop mark", "max tokens"] = "stop mark" if one.ended else "max tokens"
    return Continuation(text, one.length, one.log_prob_nats, one.score, ended)
