"""A generation: ids after a prompt, one at a time, whose whole state is a value.

The model keeps nothing of a request, so any number of generations share one model and none of
them can see another. A prompt of P ids and n generated ones take P + n - 1 steps of the recurrence
in all: the prompt is read once, in pieces, and each further token costs one step, whatever came
before.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.decoding.filters import SamplingSettings
from elman.decoding.sampling import draw
from elman.errors import RunError, SettingError
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import StackState
from elman.models.recurrent import ModelOutput, RecurrentLanguageModel
from elman.seeding import generator as new_generator

PROMPT_CHUNK = 512
"""Ids of a prompt read at once; memory does not grow with its length."""
GENERATOR_NAME = "sampling_generator"

GenerationFacts = dict[str, int | float | bool]


@dataclass(frozen=True)
class GenerationState:
    """All that a generation is between two tokens.

    `model_state` (None: nothing read yet) is the state before `last_id`, the newest id, prompt or
    generated, which has not been read so far; `generator_state` is the position of the sampling
    generator, [bytes] uint8; `num_generated` counts the ids generated; `ended` says that the last
    one was a stop mark.
    """

    model_state: StackState | None
    last_id: int
    generator_state: Tensor
    num_generated: int
    ended: bool
    sampling: SamplingSettings

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors, copied: `cell.0.h` and so on, and the sampling generator."""
        named = {GENERATOR_NAME: self.generator_state.clone()}
        for place, cell_state in enumerate(self.model_state or ()):
            for name, part in zip(_part_names(cell_state), cell_state, strict=True):
                named[f"cell.{place}.{name}"] = torch.from_numpy(part.numpy(force=True).copy())
        return named

    def facts(self) -> GenerationFacts:
        """Return everything else, for JSON; a float keeps its value through it."""
        return {
            "last_id": self.last_id,
            "num_generated": self.num_generated,
            "ended": self.ended,
            "started": self.model_state is not None,
            **asdict(self.sampling),
        }

    @classmethod
    def from_parts(
        cls,
        tensors: Mapping[str, Tensor],
        facts: Mapping[str, object],
        model: RecurrentLanguageModel,
    ) -> "GenerationState":
        """Return the state that `tensors` and `facts` hold; `RunError` if it is not of `model`."""
        try:
            sampling = SamplingSettings(
                **{name: facts[name] for name in _SAMPLING_NAMES}  # type: ignore[arg-type]
            )
        except KeyError as missing:
            raise _damaged(f"no {missing.args[0]}") from missing
        except SettingError as error:
            raise _damaged(str(error)) from error
        generator_state = tensors.get(GENERATOR_NAME)
        blank = torch.Generator().get_state()
        if generator_state is None or generator_state.shape != blank.shape:
            raise _damaged("no usable position of the sampling generator")
        return cls(
            model_state=_model_state(tensors, model) if _flag(facts, "started") else None,
            last_id=_whole(facts, "last_id", below=model.vocabulary_size),
            generator_state=generator_state.clone(),
            num_generated=_whole(facts, "num_generated", below=2**63),
            ended=_flag(facts, "ended"),
            sampling=sampling,
        )


class Generation:
    """Generates ids with `model` under `sampling`: `feed` a prompt, then `step` or `tokens`.

    `forbidden_ids` are never generated; after an id of `stop_ids` it has ended. Dropout is off and
    no gradient graph is built. The same model, kernels, calls of `feed` and seed give the same ids,
    whatever else the model does in between.

    Raises `SettingError` where an id given is outside the vocabulary.
    """

    def __init__(
        self,
        model: RecurrentLanguageModel,
        sampling: SamplingSettings,
        *,
        plan: KernelPlan,
        forbidden_ids: Collection[int] = (),
        stop_ids: Collection[int] = (),
    ) -> None:
        self._model, self._plan, self._sampling = model, plan, sampling
        self._device = model.readout.weight.device
        self._forbidden_ids = tuple(sorted(forbidden_ids))
        self._stop_ids = frozenset(stop_ids)
        self._require_ids(self._forbidden_ids, "forbidden_ids")
        if len(set(self._forbidden_ids)) == model.vocabulary_size:
            raise SettingError("every token is forbidden", hint="allow at least one")
        self._generator = new_generator(sampling.seed, "sampling")
        self._model_state: StackState | None = None
        self._last_id: int | None = None
        self._num_generated, self._ended = 0, False

    @property
    def num_generated(self) -> int:
        """Ids generated so far, a stop mark included."""
        return self._num_generated

    @property
    def seed(self) -> int:
        """The seed of the generator in use: that of the state, where one was restored."""
        return self._sampling.seed

    @property
    def ended(self) -> bool:
        """Whether a stop mark was the last id generated."""
        return self._ended

    def feed(self, ids: Sequence[int]) -> None:
        """Read ids that are given, not generated: a prompt, or more of it. No ids change nothing.

        A request begins with at least one id: the start mark, the prompt, or, where there is
        neither, an id of the caller's choice that is context only. Feeding after the end goes on.
        """
        if len(ids) == 0:
            return
        self._require_ids(ids, "a prompt")
        unread = [int(token) for token in ids]
        if self._last_id is not None:
            unread.insert(0, self._last_id)
        with torch.inference_mode():
            for start in range(0, len(unread) - 1, PROMPT_CHUNK):
                piece = unread[start : min(start + PROMPT_CHUNK, len(unread) - 1)]
                ids_BT = torch.tensor([piece], device=self._device)
                self._model_state = self._model(ids_BT, self._model_state, plan=self._plan).state
        self._last_id, self._ended = unread[-1], False

    def step(self) -> int:
        """Generate one id, a stop mark included, for one step of the recurrence.

        Raises `SettingError` where nothing was fed or the generation has ended.
        """
        if self._last_id is None:
            raise SettingError(
                "a generation needs something to follow",
                got="no ids",
                hint="feed the start mark, a prompt, or a first id as context",
            )
        if self._ended:
            raise SettingError("the generation has ended with a stop mark", hint="feed more ids")
        with torch.inference_mode():
            ids_BT = torch.tensor([[self._last_id]], device=self._device)
            output = self._model(ids_BT, self._model_state, plan=self._plan)
            logits_V = last_logits(output, self._plan)
            token = draw(
                logits_V, self._sampling, self._generator, forbidden_ids=self._forbidden_ids
            )
        self._model_state, self._last_id = output.state, token
        self._num_generated += 1
        self._ended = token in self._stop_ids
        return token

    def tokens(self, max_tokens: int) -> Iterator[int]:
        """Yield up to `max_tokens` new ids one by one; a stop mark ends them and is not yielded.

        Nothing is computed ahead: a caller who stops asking stops the work.
        """
        for _ in range(max_tokens):
            if self._ended:
                return
            token = self.step()
            if not self._ended:
                yield token

    def state(self) -> GenerationState:
        """Return the state as a value that later steps do not change.

        Raises `SettingError` where nothing was fed.
        """
        if self._last_id is None:
            raise SettingError("a generation has no state before its first id", hint="feed an id")
        return GenerationState(
            model_state=self._model_state,
            last_id=self._last_id,
            generator_state=self._generator.get_state(),
            num_generated=self._num_generated,
            ended=self._ended,
            sampling=self._sampling,
        )

    def restore(self, state: GenerationState) -> None:
        """Go on from `state` exactly as the generation that it was taken from would.

        The sampling settings become those of the state; the caller who wants others says so with
        `replace(state, sampling=…)`. Forbidden ids and stop ids stay this generation's own.
        """
        self._require_ids([state.last_id], "a saved state")
        self._model_state, self._last_id = state.model_state, state.last_id
        self._generator.set_state(state.generator_state)
        self._num_generated, self._ended = state.num_generated, state.ended
        self._sampling = state.sampling

    def _require_ids(self, ids: Sequence[int], what: str) -> None:
        if len(ids) and (min(ids) < 0 or max(ids) >= self._model.vocabulary_size):
            raise SettingError(
                f"{what} holds an id outside the vocabulary",
                got=str(min(ids) if min(ids) < 0 else max(ids)),
                allowed=f"0 to {self._model.vocabulary_size - 1}",
            )


def last_logits(output: ModelOutput, plan: KernelPlan) -> Tensor:
    """Return the logits [V] of the last step of the first row.

    One vector times a float32 matrix on a CPU is NumPy's, two to three times as fast there as
    torch's for a large vocabulary; everything else, and a plan that asks for the reference, is
    `TokenReadout.logits` by torch's product. Both agree within float32 rounding.
    """
    readout, states_H = output.readout, output.states_BTH[0, -1]
    weight = readout.weight
    if plan.choice == "reference" or weight.device.type != "cpu" or weight.dtype != torch.float32:
        return readout.logits(states_H)
    return readout.logits(states_H, _vector_product)


def _vector_product(x_F: Tensor, weight_VF: Tensor, bias_V: Tensor | None) -> Tensor:
    product_V: npt.NDArray[np.float32] = weight_VF.numpy(force=True) @ x_F.numpy(force=True)
    if bias_V is not None:
        product_V += bias_V.numpy(force=True)
    return torch.from_numpy(product_V)


def reseed(state: GenerationState, seed: int) -> GenerationState:
    """Return `state` at the start of the sampling generator of another seed."""
    sampling = replace(state.sampling, seed=seed)
    position = new_generator(seed, "sampling").get_state()
    return replace(state, sampling=sampling, generator_state=position)


_SAMPLING_NAMES = ("temperature", "top_k", "top_p", "min_p", "seed")


def _part_names(cell_state: tuple[Tensor, ...]) -> tuple[str, ...]:
    """Return h, c and so on from the fields h_BH, c_BH of a cell's state."""
    fields: tuple[str, ...] = getattr(type(cell_state), "_fields", ())
    return tuple(field.partition("_")[0] for field in fields)


def _model_state(tensors: Mapping[str, Tensor], model: RecurrentLanguageModel) -> StackState:
    cells = []
    for place, zeros in enumerate(model.zero_state(1)):
        parts = []
        for name, zero in zip(_part_names(zeros), zeros, strict=True):
            part = tensors.get(f"cell.{place}.{name}")
            if part is None:
                raise _damaged(f"no cell.{place}.{name}")
            if part.shape != zero.shape:
                raise _damaged(
                    f"cell.{place}.{name} of sizes {list(part.shape)} where this model "
                    f"has {list(zero.shape)}"
                )
            parts.append(part.to(dtype=zero.dtype, device=zero.device, copy=True))
        cells.append(model.stack.cell(place).pack_state(parts))
    return tuple(cells)


def _whole(facts: Mapping[str, object], name: str, *, below: int) -> int:
    value = facts.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < below:
        raise _damaged(f"{name} {value!r}")
    return value


def _flag(facts: Mapping[str, object], name: str) -> bool:
    value = facts.get(name)
    if not isinstance(value, bool):
        raise _damaged(f"{name} {value!r}")
    return value


def _damaged(got: str) -> RunError:
    return RunError(
        "the saved generation does not fit this model",
        got=got,
        hint="use the run that it was saved with",
    )
