"""A readout split into classes by frequency: most rows never meet the rare words."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, log_softmax

from elman.errors import SettingError
from elman.layers.readout import Product, Softmax, SoftmaxReadout


class ClassWords(NamedTuple):
    """What scores the words of one class, by place: W (P f) + b, or W f + b without P."""

    projection: Tensor | None
    weight: Tensor
    bias: Tensor


class ClassSplit(SoftmaxReadout):
    """A softmax over the frequent words and one entry for each class of rarer ones.

        p(w) = p_head(w)                           for the first c_1 words
        p(w) = p_head(class i) · p_i(w | class i)  for the words c_i … c_{i+1} − 1, c_{k+1} = V

    A true distribution: it sums to 1 and its losses are exact. Words are counted by their *place*,
    the most frequent first; `place_of_id_V` [V] says the place of each id and is kept with the
    weights. Ids are their own places until `order_by` is given counts.

    Source: E. Grave et al., arXiv:1609.04309. Raises `SettingError` unless the cutoffs c_1 … c_k
    rise strictly within 1 … V − 1.
    """

    place_of_id_V: Tensor

    def __init__(self, vocabulary_size: int, cutoffs: Sequence[int]) -> None:
        super().__init__()
        borders = [0, *cutoffs, vocabulary_size]
        if not cutoffs or any(left >= right for left, right in pairwise(borders)):
            raise SettingError(
                "model.cutoffs must be ids that rise strictly within the vocabulary",
                got=str(list(cutoffs)),
                allowed=f"at least one, from 1 to {vocabulary_size - 1}",
                hint="leave it empty to have them chosen",
            )
        self.cutoffs = tuple(cutoffs)
        self.sizes = tuple(right - left for left, right in pairwise(borders))
        """Words of the head, then of each class."""
        self.register_buffer("place_of_id_V", torch.arange(vocabulary_size))

    @abstractmethod
    def class_words(self) -> Sequence[ClassWords]:
        """Return the head, its words and then its k entries for classes, and the k classes."""

    def features(self, states_BTH: Tensor) -> Tensor:
        """Return what every class reads of the states: the states themselves."""
        return states_BTH

    def order_by(self, counts_V: Tensor) -> None:
        """Give the places to ids by falling counts_V [V]; equally frequent ones keep their order.

        It changes what the weights mean, so that it is for a model that has learnt nothing yet.
        """
        order_V = counts_V.argsort(descending=True, stable=True)
        self.place_of_id_V[order_V] = torch.arange(len(order_V), device=self.place_of_id_V.device)

    def softmaxes(self, states_NH: Tensor, targets_N: Tensor) -> Sequence[Softmax]:
        """Return the head, in which every row takes part, and each class with its own rows."""
        features_NF = self.features(states_NH)
        head, *classes = self.class_words()
        places_N = self.place_of_id_V.index_select(0, targets_N)
        class_N = self._classes_of(places_N)
        head_N = torch.where(class_N == 0, places_N, self.cutoffs[0] - 1 + class_N)
        parts = [Softmax(features_NF, head.weight, head.bias, head_N, None)]
        for number, words in enumerate(classes):
            rows_N = (class_N == number + 1).nonzero().squeeze(1)
            own_NF = features_NF.index_select(0, rows_N)
            if words.projection is not None:
                own_NF = linear(own_NF, words.projection)
            within_N = places_N.index_select(0, rows_N) - self.cutoffs[number]
            parts.append(Softmax(own_NF, words.weight, words.bias, within_N, rows_N))
        return parts

    def _classes_of(self, places_N: Tensor) -> Tensor:
        """Return the class that each place is in, 0 for the head."""
        borders = torch.tensor(self.cutoffs, device=places_N.device)
        return torch.bucketize(places_N, borders, right=True)

    def _by_id(self, head_BTV: Tensor, classes_BTV: Sequence[Tensor]) -> Tensor:
        """Return log p of every id from the scores of the head and of the words in each class."""
        first = self.cutoffs[0]
        head = log_softmax(head_BTV, dim=-1)
        pieces = [head[..., :first]]
        for number, scores_BTV in enumerate(classes_BTV):
            pieces.append(log_softmax(scores_BTV, dim=-1) + head[..., first + number, None])
        return torch.cat(pieces, dim=-1).index_select(-1, self.place_of_id_V)


class ClassTail(nn.Module):
    """The words of one class: logits W (P states) + b, with P [F, H], W [N, F], b [N]."""

    def __init__(self, hidden_size: int, width: int, num_words: int) -> None:
        super().__init__()
        self.projection = nn.Parameter(torch.zeros(width, hidden_size))
        self.weight = nn.Parameter(torch.zeros(num_words, width))
        self.bias = nn.Parameter(torch.zeros(num_words))


class ClassSplitReadout(ClassSplit):
    """Classes with matrices of their own, each seen through fewer units than the one before.

        p_head = softmax(W h + b) over c_1 + k,  p_i = softmax(W_i (P_i h) + b_i), P_i [F_i, H]
        F_i = max(1, ⌊H / divisor^i⌋)

    With all weights at 0 the distribution is uniform, as the bias of class i is ln of its number of
    words. torch's twin is `nn.AdaptiveLogSoftmaxWithLoss` with `head_bias`; it has no bias in its
    tails, and its ids must be places.

    Raises `SettingError` as `ClassSplit` does, and unless the divisor is at least 1.
    """

    def __init__(
        self, hidden_size: int, vocabulary_size: int, *, cutoffs: Sequence[int], divisor: float
    ) -> None:
        super().__init__(vocabulary_size, cutoffs)
        if not divisor >= 1.0:
            raise SettingError("model.tail_divisor must be at least 1", got=repr(divisor))
        num_entries = cutoffs[0] + len(cutoffs)
        self.weight = nn.Parameter(torch.zeros(num_entries, hidden_size))
        self.bias = nn.Parameter(torch.zeros(num_entries))
        self.tails = nn.ModuleList(
            ClassTail(hidden_size, max(1, int(hidden_size / divisor**place)), size)
            for place, size in enumerate(self.sizes[1:], start=1)
        )
        self._reset_biases()

    def class_words(self) -> Sequence[ClassWords]:
        """Return the head and its tails."""
        tails = [ClassWords(tail.projection, tail.weight, tail.bias) for tail in self._tails()]
        return [ClassWords(None, self.weight, self.bias), *tails]

    def logits(self, states_BTH: Tensor, product: Product = linear) -> Tensor:
        """Return log p of every id, which are logits whose softmax is p itself."""
        within = [
            product(product(states_BTH, tail.projection, None), tail.weight, tail.bias)
            for tail in self._tails()
        ]
        return self._by_id(product(states_BTH, self.weight, self.bias), within)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw matrices uniformly from ±1/√(their columns): the head, then each tail's P and W.

        Biases become 0, those of the classes ln of their number of words.
        """
        matrices = [self.weight]
        for tail in self._tails():
            matrices += [tail.projection, tail.weight]
        with torch.no_grad():
            for matrix in matrices:
                bound = 1.0 / math.sqrt(matrix.shape[1])
                matrix.uniform_(-bound, bound, generator=generator)
        self._reset_biases()

    def describe(self) -> str:
        """Return the number of frequent words and the sizes of the classes."""
        tails = " and ".join(
            f"{tail.weight.shape[0]:,} through {tail.weight.shape[1]}" for tail in self._tails()
        )
        return f"split by frequency: {self.cutoffs[0]:,} words, then classes of {tails}"

    def _tails(self) -> list[ClassTail]:
        tails = [tail for tail in self.tails if isinstance(tail, ClassTail)]
        assert len(tails) == len(self.cutoffs)
        return tails

    def _reset_biases(self) -> None:
        with torch.no_grad():
            self.bias.zero_()
            for number, tail in enumerate(self._tails()):
                tail.bias.zero_()
                self.bias[self.cutoffs[0] + number] = math.log(tail.bias.numel())
