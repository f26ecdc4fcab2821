"""A generation: ids after a prompt, one at a time, whose whole state is a value.

The model keeps nothing of a request, so any number of generations share one model and none of
them can see another. A prompt of P ids and n generated ones take P + n - 1 steps of the recurrence
in all: the prompt is read once, in pieces, and each further token costs one step, whatever came
before. With a packed model the steps run natively; the loop over the model's own step, which is
their readable twin, gives the same ids for the same seed, unless a draw falls within rounding of
the boundary between two ids.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.decoding.filters import SamplingSettings
from elman.decoding.generation_state import GenerationState
from elman.decoding.packing import cells_of, rows_of
from elman.decoding.sampling import draw, numbers_drawn, sampling_key
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_generation import GeneratorRows, NativeGenerator, RowChoices, States
from elman.layers.stack import StackState
from elman.models.recurrent import ModelOutput, RecurrentLanguageModel

PROMPT_CHUNK = 512
"""Ids of a prompt read at once; memory does not grow with its length."""
TOKENS_AT_ONCE = 1024
"""Ids that one native call writes at most, for the same reason."""


class Generation:
    """Generates ids with `model` under `sampling`: `feed` a prompt, then `step`, `tokens` or `run`.

    `forbidden_ids` are never generated; after an id of `stop_ids` it has ended. Dropout is off and
    no gradient graph is built. The same model, kernels, calls of `feed` and seed give the same ids,
    whatever else the model does in between. `packed` is the model packed for native generation
    (`elman.decoding.packing`); None: the readable loop.

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
        packed: NativeGenerator | None = None,
    ) -> None:
        self._model, self._plan, self._sampling = model, plan, sampling
        self._device, self._packed = model.readout.weight.device, packed
        self._forbidden_ids = tuple(sorted(forbidden_ids))
        self._stop_ids = frozenset(stop_ids)
        self._require_ids(self._forbidden_ids, "forbidden_ids")
        self._require_ids(sorted(self._stop_ids), "stop_ids")
        if len(set(self._forbidden_ids)) == model.vocabulary_size:
            raise SettingError("every token is forbidden", hint="allow at least one")
        self._model_state: StackState | None = None
        self._last_id: int | None = None
        self._position, self._num_generated, self._ended = 0, 0, False

    @property
    def num_generated(self) -> int:
        """Ids generated so far, a stop mark included."""
        return self._num_generated

    @property
    def seed(self) -> int:
        """The seed of the numbers in use: that of the state, where one was restored."""
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
        for start in range(0, len(unread) - 1, PROMPT_CHUNK):
            self._read(unread[start : min(start + PROMPT_CHUNK, len(unread) - 1)])
        self._last_id, self._ended = unread[-1], False

    def step(self) -> int:
        """Generate one id, a stop mark included, for one step of the recurrence.

        Raises `SettingError` where nothing was fed or the generation has ended.
        """
        last_id = self._require_start()
        if self._ended:
            raise SettingError("the generation has ended with a stop mark", hint="feed more ids")
        if self._packed is not None:
            self.run(1, lambda token: True)
            assert self._last_id is not None
            return self._last_id
        with torch.inference_mode():
            ids_BT = torch.tensor([[last_id]], device=self._device)
            output = self._model(ids_BT, self._model_state, plan=self._plan)
            token = draw(
                last_logits(output, self._plan),
                self._sampling,
                self._position,
                forbidden_ids=self._forbidden_ids,
            )
        self._model_state, self._last_id = output.state, token
        self._position += numbers_drawn(self._sampling)
        self._num_generated += 1
        self._ended = token in self._stop_ids
        return token

    def tokens(self, max_tokens: int) -> Iterator[int]:
        """Yield up to `max_tokens` new ids one by one; a stop mark ends them and is not yielded.

        Nothing is computed ahead: a caller who stops asking stops the work. `run` is faster.
        """
        for _ in range(max_tokens):
            if self._ended:
                return
            token = self.step()
            if not self._ended:
                yield token

    def run(self, max_tokens: int, on_token: Callable[[int], bool]) -> None:
        """Tell `on_token` up to `max_tokens` new ids, as `tokens` yields them; True ends them.

        With a packed model this is one native call. Where `on_token` raises, or a signal's handler
        does, the generation is as the tokens generated so far left it.
        """
        if self._packed is None:
            for token in self.tokens(max_tokens):
                if on_token(token):
                    return
        else:
            run_together([self], max_tokens, lambda _, token: on_token(token))

    def state(self) -> GenerationState:
        """Return the state as a value that later steps do not change.

        Raises `SettingError` where nothing was fed.
        """
        if self._last_id is None:
            raise SettingError("a generation has no state before its first id", hint="feed an id")
        return GenerationState(
            model_state=self._model_state,
            last_id=self._last_id,
            position=self._position,
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
        self._position = state.position
        self._num_generated, self._ended = state.num_generated, state.ended
        self._sampling = state.sampling

    def _read(self, ids: Sequence[int]) -> None:
        if self._packed is not None:
            rows_BS = self._rows(self._packed)
            self._packed.read(rows_BS, np.array([ids]))
            self._model_state = cells_of(rows_BS, self._model)
            return
        with torch.inference_mode():
            ids_BT = torch.tensor([ids], device=self._device)
            self._model_state = self._model(ids_BT, self._model_state, plan=self._plan).state

    def _take(self, rows: GeneratorRows, row: int, *, ended: bool) -> None:
        self._model_state = cells_of(rows.state[row : row + 1], self._model)
        self._last_id, self._position = int(rows.last_ids[row]), int(rows.positions[row])
        self._ended = ended

    def _rows(self, packed: NativeGenerator) -> States:
        return packed.zero_rows(1) if self._model_state is None else rows_of(self._model_state)

    def _require_start(self) -> int:
        if self._last_id is None:
            raise SettingError(
                "a generation needs something to follow",
                got="no ids",
                hint="feed the start mark, a prompt, or a first id as context",
            )
        return self._last_id

    def _require_ids(self, ids: Sequence[int], what: str) -> None:
        if len(ids) and (min(ids) < 0 or max(ids) >= self._model.vocabulary_size):
            raise SettingError(
                f"{what} holds an id outside the vocabulary",
                got=str(min(ids) if min(ids) < 0 else max(ids)),
                allowed=f"0 to {self._model.vocabulary_size - 1}",
            )


def run_together(
    generations: Sequence[Generation], max_tokens: int, on_token: Callable[[int, int], bool]
) -> None:
    """Run generations of one model and the same stop and forbidden ids, each as if by itself.

    `on_token` is told (number, id) of each new id, as `Generation.run` tells it; True ends that
    generation alone. With packed weights all of them step together, and share what is read of
    memory. Where `on_token` raises, they are as the ids generated so far left them.
    """
    packed = generations[0]._packed
    if packed is None:
        for number, generation in enumerate(generations):
            generation.run(max_tokens, lambda token, number=number: on_token(number, token))  # type: ignore[misc]
        return
    going = list(enumerate(generations))
    for start in range(0, max_tokens, TOKENS_AT_ONCE):
        going = [(number, one) for number, one in going if not one.ended]
        if not going:
            return
        count = min(TOKENS_AT_ONCE, max_tokens - start)
        halted = _run_rows(packed, going, count, on_token)
        going = [(number, one) for number, one in going if number not in halted]


def _run_rows(
    packed: NativeGenerator,
    going: Sequence[tuple[int, Generation]],
    max_tokens: int,
    on_token: Callable[[int, int], bool],
) -> set[int]:
    """Generate natively, take over what the rows have become; return the numbers ended."""
    generations = [generation for _, generation in going]
    rows = GeneratorRows(
        np.concatenate([generation._rows(packed) for generation in generations]),
        [generation._require_start() for generation in generations],
        [generation._position for generation in generations],
    )
    tokens_BN = np.empty((len(going), max_tokens), dtype=np.int32)
    before = [generation._num_generated for generation in generations]
    halted = set[int]()

    def tell(first: int, stop: int) -> bool:
        for row, token in enumerate(tokens_BN[:, first].tolist()):
            if token < 0:
                continue
            number, generation = going[row]
            generation._num_generated = before[row] + stop
            if not rows.ended[row] and on_token(number, token):
                halted.add(number)
                rows.ended[row] = True
        return False

    try:
        packed.generate(
            rows,
            row_choices([generation._sampling for generation in generations]),
            max_tokens,
            forbidden_ids=generations[0]._forbidden_ids,
            stop_ids=tuple(generations[0]._stop_ids),
            on_tokens=tell,
            out=tokens_BN,
        )
    finally:
        for row, (number, generation) in enumerate(going):
            generation._take(rows, row, ended=bool(rows.ended[row]) and number not in halted)
            generation._num_generated = before[row] + int(np.count_nonzero(tokens_BN[row] >= 0))
    return halted


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


def row_choices(samplings: Sequence[SamplingSettings]) -> RowChoices:
    """Return how rows choose, one for each request, as native generation takes it."""
    return RowChoices(
        temperatures=[sampling.temperature for sampling in samplings],
        top_ks=[sampling.top_k for sampling in samplings],
        top_ps=[sampling.top_p for sampling in samplings],
        min_ps=[sampling.min_p for sampling in samplings],
        keys=[sampling_key(sampling.seed) for sampling in samplings],
    )
