"""A generation: ids after a prompt, one at a time, whose whole state is a value.

The model keeps nothing of a request, so any number of generations share one model and none of
them can see another. A prompt of P ids and n generated ones take P + n - 1 steps of the recurrence
in all: the prompt is read once, in pieces, and each further token costs one step, whatever came
before. With a packed model the steps run natively; the loop over the model's own step, which is
their readable twin, gives the same ids for the same seed, unless a draw falls within rounding of
the boundary between two ids.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

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
from elman.models.language import LanguageModel, ModelOutput

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
        model: LanguageModel,
        sampling: SamplingSettings,
        *,
        plan: KernelPlan,
        forbidden_ids: Collection[int] = (),
        stop_ids: Collection[int] = (),
        packed: NativeGenerator | None = None,
    ) -> None:
        self._model, self._plan, self._sampling = model, plan, sampling
        self._device, self._packed = model.device, packed
        self._forbidden_ids = tuple(sorted(forbidden_ids))
        self._stop_ids = frozenset(stop_ids)
        self._require_ids(self._forbidden_ids, "forbidden_ids")
        self._require_ids(sorted(self._stop_ids), "stop_ids")
        if len(set(self._forbidden_ids)) == model.vocabulary_size:
            raise SettingError("every token is forbidden", hint="allow at least one")
        self._model_state: StackState | None = None
        self._last_id: int | None = None
        self._position, self._num_generated, self._ended = 0, 0, False
        self._running: _RunningRow | None = None

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
        self._catch_up()
        return self._ended

    def feed(self, ids: Sequence[int]) -> None:
        """Read ids that are given, not generated: a prompt, or more of it. No ids change nothing.

        A request begins with at least one id: the start mark, the prompt, or, where there is
        neither, an id of the caller's choice that is context only. Feeding after the end goes on.
        """
        if len(ids) == 0:
            return
        self._require_ids(ids, "a prompt")
        self._leave_call()
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
        if self.ended:
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
            if self.ended:
                return
            token = self.step()
            if not self._ended:
                yield token

    def run(self, max_tokens: int, on_token: Callable[[int], bool]) -> None:
        """Tell `on_token` up to `max_tokens` new ids, as `tokens` yields them; True ends them.

        With a packed model this is one native call. At each token the generation is as that token
        left it: `on_token` may take its state, or change it, and what follows goes on from there.
        So it is where `on_token` raises, or a signal's handler does.
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
        self._catch_up()
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
        self._leave_call()
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

    def _catch_up(self) -> None:
        """Take over what the row of a native call that runs has become."""
        if self._running is None:
            return
        rows, row = self._running.rows, self._running.row
        self._model_state = cells_of(rows.state[row : row + 1], self._model)
        self._last_id, self._position = int(rows.last_ids[row]), int(rows.positions[row])
        self._ended = bool(rows.ended[row]) and not self._running.is_halted

    def _leave_call(self) -> None:
        """Take over the row for good, before anything else changes the generation."""
        self._catch_up()
        if self._running is not None:
            self._running.left.append(self._running.row)
            self._running = None

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
    memory. Where `on_token` raises, they are as the ids generated so far left them. No generations
    write nothing. Raises `SettingError` where one differs in what they must share, or comes twice.
    """
    _require_alike(generations)
    packed = generations[0]._packed if generations else None
    if packed is None:
        for number, generation in enumerate(generations):
            generation.run(max_tokens, lambda token, number=number: on_token(number, token))  # type: ignore[misc]
        return
    going, left = list(enumerate(generations)), max_tokens
    while left > 0:
        going = [(number, one) for number, one in going if not one.ended]
        if not going:
            return
        written, halted = _run_rows(packed, going, min(TOKENS_AT_ONCE, left), on_token)
        left -= written
        going = [(number, one) for number, one in going if number not in halted]


def _require_alike(generations: Sequence[Generation]) -> None:
    for number, one in enumerate(generations):
        first = generations[0]
        if one in generations[:number]:
            what = "the same generation again"
        elif one._model is not first._model or one._packed is not first._packed:
            what = "another model, or another packing of it"
        elif one._stop_ids != first._stop_ids or one._forbidden_ids != first._forbidden_ids:
            what = "other stop or forbidden ids"
        else:
            continue
        raise SettingError(
            "generations that run together share model, packing, stop ids and forbidden ids",
            got=f"{what} as number {number}",
            hint="run it by itself",
        )


@dataclass
class _RunningRow:
    """The row of a native call that a generation is, as long as nothing else changes it."""

    rows: GeneratorRows
    row: int
    left: list[int]
    """The rows of the call that are no generation's any more; shared by all of them."""
    is_halted: bool = False
    """Whether the listener wants no more of it, which is no stop mark."""


def _run_rows(
    packed: NativeGenerator,
    going: Sequence[tuple[int, Generation]],
    max_tokens: int,
    on_token: Callable[[int, int], bool],
) -> tuple[int, set[int]]:
    """Generate natively; return how many tokens each going on has, and the numbers ended.

    They are fewer than `max_tokens` where a listener has changed a generation: its row is then not
    what follows any more.
    """
    generations = [generation for _, generation in going]
    for generation in generations:
        generation._leave_call()
    rows = GeneratorRows(
        np.concatenate([generation._rows(packed) for generation in generations]),
        [generation._require_start() for generation in generations],
        [generation._position for generation in generations],
    )
    tokens_BN = np.empty((len(going), max_tokens), dtype=np.int32)
    before = [generation._num_generated for generation in generations]
    left = list[int]()
    running = [_RunningRow(rows, row, left) for row in range(len(going))]
    written, halted = 0, set[int]()

    def tell(first: int, stop: int) -> bool:
        nonlocal written
        written = stop
        tokens_B = tokens_BN[:, first].tolist()
        for row, token in enumerate(tokens_B):
            if token >= 0:
                generations[row]._num_generated = before[row] + stop
        for row, token in enumerate(tokens_B):
            number = going[row][0]
            if token >= 0 and not rows.ended[row] and on_token(number, token):
                halted.add(number)
                rows.ended[row] = running[row].is_halted = True
        return bool(left)

    for generation, its_row in zip(generations, running, strict=True):
        generation._running = its_row
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
        for row, generation in enumerate(generations):
            if row not in left:
                generation._leave_call()
                generation._num_generated = before[row] + int((tokens_BN[row] >= 0).sum())
    return written, halted


def last_logits(output: ModelOutput, plan: KernelPlan) -> Tensor:
    """Return the logits [V] of the last step of the first row.

    One vector times a float32 matrix on a CPU is NumPy's, two to three times as fast there as
    torch's for a large vocabulary; everything else, and a plan that asks for the reference, is
    `TokenReadout.logits` by torch's product. Both agree within float32 rounding.
    """
    readout, states_H = output.readout, output.states_BTH[0, -1]
    of_kind = states_H.device.type == "cpu" and states_H.dtype == torch.float32
    if plan.choice == "reference" or not of_kind:
        return readout.logits(states_H)
    return readout.logits(states_H, _vector_product)


def _vector_product(x_F: Tensor, weight_VF: Tensor, bias_V: Tensor | None) -> Tensor:
    # A BLAS kernel may raise a flag for lanes of a register that are no part of the result; what is
    # not finite in the result itself is found by whoever chooses from it.
    with np.errstate(invalid="ignore"):
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
