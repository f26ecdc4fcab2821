"""A model that goes on learning from what it scores: dynamic evaluation.

After each segment of a stream is scored, and not before, the weights move by its gradient and are
drawn back to those that were learnt:

    θ ← θ − η · g / (√m + ε) + min(λ √m / mean √m, 1) · (θ_learnt − θ)

with g the gradient of the segment's mean nats and m the mean of the squares of such gradients over
batches of the training text. Source: B. Krause et al., "Dynamic Evaluation of Neural Sequence
Models" (2018), equations 5 to 8.
"""

import copy
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from elman.data.streams import StreamBatches, fit_stream
from elman.data.token_array import TokenArray
from elman.errors import SettingError
from elman.evaluation.scorers import TokenScorer
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import StackState
from elman.losses import token_nats
from elman.models.language import LanguageModel
from elman.recipes.held_out import parts_of_run
from elman.recipes.trained import TrainedModel
from elman.training.truncation import detach

SEGMENT: Mapping[str, int] = MappingProxyType({"char": 20, "byte": 20, "word": 5, "bpe": 5})
"""Tokens of a segment, by the level of the text."""
EPSILON = 1e-5
DECAY = 0.02
"""λ, where none is given."""
RATES = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3)
"""Values of η that are tried."""
STATISTICS_BATCHES = 100


class _Pending(NamedTuple):
    """Ids and targets [1, N] of a segment that is not complete; they are read again with its end.

    So a segment is the same whatever the pieces that a text is read in.
    """

    ids_BN: Tensor
    targets_BN: Tensor


def _nothing_pending(ids_BT: Tensor) -> _Pending:
    return _Pending(ids_BT[:, :0], ids_BT[:, :0])


class DynamicScorer(TokenScorer):
    """The model's distribution, of weights that follow the text; a new stream begins anew.

    It scores one stream at a time. `mean_squares` are m by the name of the parameter. Raises
    `SettingError` for several rows at once, and for a rate that is no number of 0 or more.
    """

    def __init__(
        self,
        model: LanguageModel,
        plan: KernelPlan,
        mean_squares: Mapping[str, Tensor],
        *,
        rate: float,
        decay: float = DECAY,
        segment: int = 5,
    ) -> None:
        if not 0.0 <= rate < math.inf:
            raise SettingError("the rate of weights that follow must be 0 or more", got=f"{rate:g}")
        self.rate, self.decay, self.segment = rate, decay, segment
        self._learnt, self._plan = model, plan
        self._model = copy.deepcopy(model)
        self._scales = _scales(mean_squares)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self._learnt.device

    def nats(
        self,
        ids_BT: Tensor,
        targets_BT: Tensor,
        state: StackState | None,
        lengths_B: Tensor | None = None,
    ) -> tuple[Tensor, StackState]:
        """Return −ln p of each target under the weights as they are when it is read."""
        if len(ids_BT) != 1 or lengths_B is not None:
            raise SettingError(
                "weights follow one stream at a time", got="lines", hint="leave --dynamic out"
            )
        found, new = [], 0
        with torch.inference_mode(False), torch.enable_grad():
            if state is None:
                self._model.load_state_dict(self._learnt.state_dict())
                state = (*self._model.zero_state(1), _nothing_pending(ids_BT))
            while new < ids_BT.shape[1]:
                *before, held = state
                known = held[0].shape[1]
                part = slice(new, new + self.segment - known)
                ids, targets = (
                    torch.cat((old, one[:, part]), dim=1)
                    for old, one in zip(held, (ids_BT, targets_BT), strict=True)
                )
                output = self._model(ids, tuple(before), plan=self._plan)
                nats_BT = token_nats(output.states_BTH, output.readout, targets, plan=self._plan)
                found.append(detach(nats_BT[:, known:]).double())
                new = part.stop
                if ids.shape[1] < self.segment:
                    state = (*before, _Pending(ids, targets))
                else:
                    self._follow(nats_BT.mean())
                    state = (*detach(output.state), _nothing_pending(ids_BT))
        return torch.cat(found, dim=1), state

    def _follow(self, loss: Tensor) -> None:
        """Move the weights by the gradient of what was just scored."""
        names, weights = zip(*self._model.named_parameters(), strict=True)
        gradients = torch.autograd.grad(loss, weights, allow_unused=True)
        learnt = dict(self._learnt.named_parameters())
        with torch.no_grad():
            for name, weight, gradient in zip(names, weights, gradients, strict=True):
                if gradient is None:
                    continue
                root, drawn = self._scales[name]
                back = (self.decay * drawn).clamp(max=1.0) * (learnt[name] - weight)
                weight.add_(back - self.rate * gradient / (root + EPSILON))


def mean_squares(
    trained: TrainedModel, *, on_read: Callable[[int], None] = lambda num_tokens: None
) -> dict[str, Tensor]:
    """Return the mean of the squares of gradients over the first batches of the training text.

    `on_read` is told how many tokens of it are read by now. Raises `SettingError` where that is no
    stream, and what `parts_of_run` raises.
    """
    model = trained.model
    totals = {name: torch.zeros_like(weight) for name, weight in model.named_parameters()}
    if not totals:
        raise SettingError(
            "a count model has no weights that could follow a text",
            got=f"--dynamic with {trained.path}",
            hint="score it without --dynamic, or mix it into a recurrent run with --mix",
        )
    count = num_tokens = 0
    on_read(num_tokens)
    for ids_BT, targets_BT in _training_batches(trained):
        output = model(ids_BT, plan=trained.plan)
        nats = token_nats(output.states_BTH, output.readout, targets_BT, plan=trained.plan).mean()
        weights = list(model.parameters())
        gradients = torch.autograd.grad(nats, weights, allow_unused=True)
        for total, gradient in zip(totals.values(), gradients, strict=True):
            if gradient is not None:
                total += gradient.square()
        count += 1
        num_tokens += targets_BT.numel()
        on_read(num_tokens)
    return {name: total / count for name, total in totals.items()}


def _training_batches(trained: TrainedModel) -> Iterator[tuple[Tensor, Tensor]]:
    settings = trained.settings
    if settings.text.unit != "stream":
        raise SettingError(
            "weights follow one stream at a time", got="a run of lines", hint="leave --dynamic out"
        )
    with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
        part = parts_of_run(trained, Path(scratch)).parts["train"]
        sizes = fit_stream(
            len(part.ids), batch_size=settings.training.batch_size, window=settings.training.window
        )
        assert isinstance(part.ids, TokenArray)  # of a stream
        source = StreamBatches(part.ids, batch_size=sizes.batch_size, window=sizes.window)
        for index in range(min(STATISTICS_BATCHES, source.batches_per_epoch(0))):
            batch = source.batch(0, index)
            if int(batch.lengths_B.min()) == batch.ids_BT.shape[1]:
                yield batch.ids_BT, batch.targets_BT


def _scales(squares: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    """Return √m and √m / mean √m of each parameter, the mean over all of them."""
    roots = {name: square.sqrt() for name, square in squares.items()}
    total = sum(float(root.double().sum()) for root in roots.values())
    mean = total / max(sum(root.numel() for root in roots.values()), 1)
    return {name: (root, root / max(mean, 1e-30)) for name, root in roots.items()}
