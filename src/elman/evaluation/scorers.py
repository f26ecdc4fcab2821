"""What gives each token of a text its nats: a model alone, with a cache, or two of them mixed.

A scorer reads ids after a state, and is told the targets, as a cache can only be filled with what
has been read. Its state is a value like that of a model; None is the state before any token.
"""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import StackState
from elman.losses import token_nats
from elman.models.language import LanguageModel, ModelOutput

MOST_CACHED = 100_000
"""States of a cache at most: each step is compared with all of them."""


class TokenScorer(ABC):
    """(ids, targets, state) → (nats of each target, state)."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where ids are to be."""

    @abstractmethod
    def nats(
        self,
        ids_BT: Tensor,
        targets_BT: Tensor,
        state: StackState | None,
        lengths_B: Tensor | None = None,
    ) -> tuple[Tensor, StackState]:
        """Return nats_BT = −ln p(targets_BT) in float64 after reading ids_BT, and the state after.

        Steps t ≥ lengths_B are padding: their nats are 0 and they change no state.
        """


class ModelScorer(TokenScorer):
    """The model's own distribution."""

    def __init__(self, model: LanguageModel, plan: KernelPlan) -> None:
        self.model, self.plan = model, plan

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    def nats(
        self,
        ids_BT: Tensor,
        targets_BT: Tensor,
        state: StackState | None,
        lengths_B: Tensor | None = None,
    ) -> tuple[Tensor, StackState]:
        """Return −ln p of the model."""
        nats_BT, output = self.read(ids_BT, targets_BT, state, lengths_B)
        return nats_BT, output.state

    def read(
        self,
        ids_BT: Tensor,
        targets_BT: Tensor,
        state: StackState | None,
        lengths_B: Tensor | None = None,
    ) -> tuple[Tensor, ModelOutput]:
        """Return −ln p of the model in float64, and all that it said."""
        output = self.model(ids_BT, state, lengths_B, plan=self.plan)
        nats_BT = token_nats(
            output.states_BTH, output.readout, targets_BT, lengths_B, plan=self.plan
        )
        return nats_BT.double(), output

    def last_nats(self, ids_BT: Tensor, targets_B: Tensor) -> Tensor:
        """Return −ln p of one target after each row of ids, in float64."""
        output = self.model(ids_BT, plan=self.plan)
        last_B1H = output.states_BTH[:, -1:]
        nats_B1 = token_nats(last_B1H, output.readout, targets_B.unsqueeze(1), plan=self.plan)
        return nats_B1[:, 0].double()


class CacheState(NamedTuple):
    """The last C states read and the ids that came next, newest last; 0 where nothing stands.

    keys_BCH, next_BC: ids + 1.
    """

    keys_BCH: Tensor
    next_BC: Tensor


class CacheScorer(TokenScorer):
    """A model that remembers what it has read lately: the continuous cache.

        p_cache(w | h_t) ∝ Σ_{i < t} [x_{i+1} = w] · exp(θ h_t · h_i), over the last C of them
        p = (1 − λ) p_model + λ p_cache

    with h the states that the readout sees; before anything is in the cache p is the model's.
    Source: E. Grave et al., arXiv:1612.04426, equations 3 and 5. 1 ≤ C ≤ MOST_CACHED, θ ≥ 0 and
    finite, 0 ≤ λ ≤ 1, else `SettingError`; a count model has no states to compare.
    """

    def __init__(
        self, model: LanguageModel, plan: KernelPlan, *, size: int, flatness: float, weight: float
    ) -> None:
        if not (1 <= size <= MOST_CACHED and 0.0 <= flatness < math.inf and 0.0 <= weight <= 1.0):
            raise SettingError(
                f"a cache needs a size from 1 to {MOST_CACHED:,}, a flatness of 0 or more and a "
                "weight from 0 to 1",
                got=f"{size:,}, {flatness:g} and {weight:g}",
            )
        if not model.has_vectors:
            raise SettingError(
                "a cache compares states, which counts do not have", got=model.describe()["cell"]
            )
        self._own = ModelScorer(model, plan)
        self.size, self.flatness, self.weight = size, flatness, weight

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self._own.device

    def nats(
        self,
        ids_BT: Tensor,
        targets_BT: Tensor,
        state: StackState | None,
        lengths_B: Tensor | None = None,
    ) -> tuple[Tensor, StackState]:
        """Return −ln of the mixture, filling the cache with each target once it is scored."""
        before = None if state is None else state[:-1]
        own_BT, output = self._own.read(ids_BT, targets_BT, before, lengths_B)
        cached_BT, after = self._recalled(output, targets_BT, state, lengths_B)
        return mixed_nats(own_BT, cached_BT, self.weight), after

    def _recalled(
        self,
        output: ModelOutput,
        targets_BT: Tensor,
        state: StackState | None,
        lengths_B: Tensor | None,
    ) -> tuple[Tensor, StackState]:
        """Return −ln p_cache of each target, and the state of model and cache after.

        `output` is what the model made of the same steps after `state`.
        """
        cache = self._cache(state, output.states_BTH)
        cached_BT, after = self.recall(output.states_BTH, targets_BT, cache, lengths_B)
        return cached_BT, (*output.state, after)

    def recall(
        self,
        states_BTH: Tensor,
        targets_BT: Tensor,
        cache: CacheState,
        lengths_B: Tensor | None = None,
    ) -> tuple[Tensor, CacheState]:
        """Return −ln p_cache of each target, NaN where the cache is empty, and the cache after."""
        num_steps = targets_BT.shape[1]
        keys_BLH = torch.cat((cache.keys_BCH, states_BTH), dim=1)
        next_BL = torch.cat((cache.next_BC, targets_BT + 1), dim=1)
        places_L = torch.arange(next_BL.shape[1], device=targets_BT.device)
        steps_T1 = self.size + torch.arange(num_steps, device=targets_BT.device).unsqueeze(1)
        seen_TL = (places_L < steps_T1) & (places_L >= steps_T1 - self.size)
        seen_BTL = seen_TL & (next_BL > 0).unsqueeze(1)
        scores_BTL = self.flatness * (states_BTH @ keys_BLH.transpose(1, 2)).double()
        scores_BTL = scores_BTL.masked_fill(~seen_BTL, -torch.inf)
        same_BTL = next_BL.unsqueeze(1) == targets_BT.unsqueeze(2) + 1
        right_BTL = scores_BTL.masked_fill(~same_BTL, -torch.inf)
        # Where nothing is seen both are −∞, and their difference is NaN.
        cached_BT = scores_BTL.logsumexp(dim=2) - right_BTL.logsumexp(dim=2)
        return cached_BT, self._after(keys_BLH, next_BL, num_steps, lengths_B)

    def _cache(self, state: StackState | None, states_BTH: Tensor) -> CacheState:
        if state is not None:
            return CacheState(*state[-1])
        batch_size, _, width = states_BTH.shape
        return CacheState(
            states_BTH.new_zeros(batch_size, self.size, width),
            torch.zeros(batch_size, self.size, dtype=torch.int64, device=states_BTH.device),
        )

    def _after(
        self, keys_BLH: Tensor, next_BL: Tensor, num_steps: int, lengths_B: Tensor | None
    ) -> CacheState:
        if lengths_B is None:
            return CacheState(keys_BLH[:, num_steps:], next_BL[:, num_steps:])
        places_BC = lengths_B.unsqueeze(1) + torch.arange(self.size, device=next_BL.device)
        index_BCH = places_BC.unsqueeze(2).expand(-1, -1, keys_BLH.shape[2])
        return CacheState(keys_BLH.gather(1, index_BCH), next_BL.gather(1, places_BC))


class RecallScorer(CacheScorer):
    """−ln p_cache alone, NaN where the cache is empty: what the model says is not worked out."""

    def __init__(
        self, model: LanguageModel, plan: KernelPlan, *, size: int, flatness: float
    ) -> None:
        super().__init__(model, plan, size=size, flatness=flatness, weight=1.0)

    def nats(
        self,
        ids_BT: Tensor,
        targets_BT: Tensor,
        state: StackState | None,
        lengths_B: Tensor | None = None,
    ) -> tuple[Tensor, StackState]:
        """Return −ln p_cache, filling the cache with each target once it is scored."""
        before = None if state is None else state[:-1]
        output: ModelOutput = self._own.model(ids_BT, before, lengths_B, plan=self._own.plan)
        return self._recalled(output, targets_BT, state, lengths_B)


class MixtureScorer(TokenScorer):
    """p = (1 − λ) p_first + λ p_second, of two scorers that mean the same by their ids."""

    def __init__(self, first: TokenScorer, second: TokenScorer, weight: float) -> None:
        if not 0.0 <= weight <= 1.0:
            raise SettingError("the weight of a mixture must be from 0 to 1", got=f"{weight:g}")
        self.first, self.second, self.weight = first, second, weight

    @property
    def device(self) -> torch.device:
        """Where the first is."""
        return self.first.device

    def nats(
        self,
        ids_BT: Tensor,
        targets_BT: Tensor,
        state: StackState | None,
        lengths_B: Tensor | None = None,
    ) -> tuple[Tensor, StackState]:
        """Return −ln of the mixture."""
        one = two = None
        if state is not None:
            one, two = state[: self._cut(state)], state[self._cut(state) : -1]
        first_BT, after_one = self.first.nats(ids_BT, targets_BT, one, lengths_B)
        second_BT, after_two = self.second.nats(ids_BT, targets_BT, two, lengths_B)
        cut = (torch.tensor([[len(after_one)]]).expand(len(ids_BT), 1),)
        return mixed_nats(first_BT, second_BT, self.weight), (*after_one, *after_two, cut)

    def _cut(self, state: StackState) -> int:
        return int(state[-1][0][0, 0])


def mixed_nats(first_BT: Tensor, second_BT: Tensor, weight: float) -> Tensor:
    """Return −ln((1 − λ) e^−first + λ e^−second); of a second that is NaN the first alone."""
    log_weights = torch.tensor([1.0 - weight, weight], dtype=torch.float64).log()
    pair_BT2 = torch.stack((-first_BT + log_weights[0], -second_BT + log_weights[1]), dim=2)
    return torch.where(second_BT.isnan(), first_BT, -pair_BT2.logsumexp(dim=2))
