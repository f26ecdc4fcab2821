"""A count model as a language model: it reads ids, carries a context, and knows ln p directly."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.config.model_settings import ModelSettings
from elman.errors import ShapeError
from elman.kernels.dispatch import KernelPlan
from elman.layers.embedding import EmbeddingGradient
from elman.layers.readout import Product, RowNats, TokenReadout
from elman.layers.stack import StackState
from elman.models.language import LanguageModel, ModelOutput
from elman.models.ngram.tables import GramTable, Lower, NgramTables


class NgramState(NamedTuple):
    """contexts_BK of `NgramTables`: the grams that end where the reading stands."""

    contexts_BK: Tensor


class NgramReadout(TokenReadout):
    """Contexts → ln p of every id, from tables; nothing is a softmax and nothing is learnt."""

    def __init__(self, tables: NgramTables) -> None:
        super().__init__()
        self._tables = tables

    def nats(self, states_NH: Tensor, targets_N: Tensor, of_softmax: RowNats) -> Tensor:
        """Return −ln p(target) of each row, float64; +inf where no count allows it."""
        found_N = self._tables.target_log_probs(states_NH.numpy(), targets_N.numpy())
        return torch.from_numpy(-found_N)

    def logits(self, states_BTH: Tensor, product: Product = linear) -> Tensor:
        """Return ln p of every id, float64, for contexts of any leading axes."""
        *leading, width = states_BTH.shape
        rows_NK = states_BTH.reshape(math.prod(leading), width).numpy()
        found_NV = np.empty((len(rows_NK), self._tables.vocabulary_size))
        for row, row_K in enumerate(rows_NK):
            found_NV[row] = self._tables.log_distribution(row_K)
        return torch.from_numpy(found_NV).reshape(*leading, -1)

    def initialise(self, generator: torch.Generator) -> None:
        """Do nothing: counts are no parameters."""

    def describe(self) -> str:
        """Return that the tables know the probabilities."""
        return "probabilities from tables of counts"


class NgramLanguageModel(LanguageModel):
    """p(w | the last order − 1 ids) from tables; exact in float64, summing to 1.

    `states_BTH` are contexts, H = order − 1. Its tensors are the arrays of the tables, by the
    length of their grams: `keys_2` and so on, `log_probs_1`, `back_off_1`; all on the CPU. They may
    be memory-mapped: reading a text touches what it needs.
    """

    def __init__(self, settings: ModelSettings, tables: NgramTables) -> None:
        super().__init__()
        self.settings, self.tables = settings, tables
        self.vocabulary_size = tables.vocabulary_size
        self.readout = NgramReadout(tables)
        for name, array in _arrays(tables).items():
            self.register_buffer(name, torch.from_numpy(array))

    @classmethod
    def from_tensors(
        cls, settings: ModelSettings, tensors: Mapping[str, Tensor], vocabulary_size: int
    ) -> "NgramLanguageModel":
        """Return the model whose `state_dict` is `tensors`, without copying them.

        Raises `ShapeError` where arrays are missing, of another type or do not fit each other.
        """
        tables = _tables(tensors, vocabulary_size, settings)
        return cls(settings, tables)

    def forward(
        self,
        ids_BT: Tensor,
        state: StackState | None = None,
        lengths_B: Tensor | None = None,
        *,
        plan: KernelPlan,
        generator: torch.Generator | None = None,
        recompute: int = 0,
        embedding_gradient: EmbeddingGradient = "dense",
    ) -> ModelOutput:
        """Read ids_BT after `state`. There is no noise and no gradient, and no kernel to choose."""
        (before,) = self.zero_state(len(ids_BT)) if state is None else state
        before_BK = before[0]
        found_BTK = torch.from_numpy(self.tables.contexts(ids_BT.numpy(), before_BK.numpy()))
        if lengths_B is None:
            after_BK = found_BTK[:, -1] if ids_BT.shape[1] else before_BK
        else:
            every_BTK = torch.cat((before_BK.unsqueeze(1), found_BTK), dim=1)
            after_BK = every_BTK[torch.arange(len(ids_BT)), lengths_B]
        return ModelOutput(found_BTK, self.readout, (NgramState(after_BK.contiguous()),))

    @property
    def has_vectors(self) -> bool:
        """Whether its states_BTH are vectors: they are the last ids."""
        return False

    def zero_state(self, batch_size: int) -> StackState:
        """Return the contexts in which nothing stands."""
        return (NgramState(torch.zeros(batch_size, self.tables.order - 1, dtype=torch.int64)),)

    def parameter_count(self) -> int:
        """Return how many probabilities and weights of histories are kept."""
        levels = self.tables.levels
        return sum(len(level.log_probs_N) + len(level.back_off_N) for level in levels)

    def describe(self) -> dict[str, str]:
        """Return order, smoothing, and the grams of each length."""
        counts = ", ".join(f"{count:,}" for count in self.tables.num_grams)
        return {
            "cell": f"{self.tables.order}-gram counts",
            "layers": f"{self.settings.smoothing.replace('_', ' ')}; grams of length 1 to "
            f"{self.tables.order}: {counts}",
            "parameters": str(self.parameter_count()),
            "output": self.readout.describe(),
        }


def _arrays(tables: NgramTables) -> dict[str, np.ndarray]:
    """Return the arrays of the tables by name; keys of length 1 are the ids themselves."""
    named: dict[str, np.ndarray] = {}
    for length, level in enumerate(tables.levels, 1):
        if length > 1:
            named[f"keys_{length}"] = level.keys_N
        named[f"log_probs_{length}"] = level.log_probs_N
        if length < tables.order:
            named[f"back_off_{length}"] = level.back_off_N
    return named


def _require_usable(keys_N: np.ndarray, logarithms: tuple[np.ndarray, ...], num_keys: int) -> None:
    """Raise `ShapeError` unless keys ascend below `num_keys` and logarithms are below infinity."""
    ascends = len(keys_N) < 2 or bool((keys_N[1:] > keys_N[:-1]).all())
    if len(keys_N) and not (ascends and keys_N[0] >= 0 and keys_N[-1] < num_keys):
        raise ShapeError("keys of a count model must ascend within those of its histories")
    if not all(bool((array_N < np.inf).all()) for array_N in logarithms):  # NaN is not below
        raise ShapeError("ln p and ln b of a count model must be numbers below infinity")


def _tables(
    tensors: Mapping[str, Tensor], vocabulary_size: int, settings: ModelSettings
) -> NgramTables:
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    order = sum(name.startswith("log_probs_") for name in arrays)
    levels: list[GramTable] = []
    try:
        for length in range(1, order + 1):
            keys_N = arrays[f"keys_{length}"] if length > 1 else np.arange(vocabulary_size)
            log_probs_N = arrays[f"log_probs_{length}"]
            back_off_N = arrays[f"back_off_{length}"] if length < order else np.empty(0)
            for array_N, kind in ((keys_N, np.int64), (log_probs_N, np.float64)):
                if array_N.dtype != kind or array_N.shape != keys_N.shape:
                    raise ShapeError("arrays of a count model must be of one length and type")
            kinds = (log_probs_N.dtype, keys_N.shape)
            if length < order and (back_off_N.dtype, back_off_N.shape) != kinds:
                raise ShapeError("arrays of a count model must be of one length and type")
            histories = len(levels[-1].keys_N) if levels else 1
            _require_usable(keys_N, (log_probs_N, back_off_N), histories * vocabulary_size)
            levels.append(GramTable(keys_N, log_probs_N, back_off_N))
    except KeyError as missing:
        raise ShapeError(f"the tables of a count model lack {missing.args[0]}") from None
    if not levels:
        raise ShapeError("the tables of a count model lack log_probs_1")
    lower: Lower = "uniform" if settings.smoothing == "add_k" else "shorter"
    return NgramTables(vocabulary_size, tuple(levels), lower)
