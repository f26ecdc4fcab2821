"""A readout split into classes whose words are scored by the rows of the embedding."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from elman.layers.class_split import ClassSplit, ClassWords
from elman.layers.readout import Product, draw_projection, projected, projection_between

FEW_STRAYS = 16
"""As many ids as this may stand in a class that their counts do not put them in: special tokens
stand at the head of a vocabulary however rare they are, and gathering all rows anew costs more."""


class TiedClassSplitReadout(ClassSplit):
    """Classes that score their words by the embedding, and narrow nothing.

        f = P h
        p_head = softmax([W_0; C] f + [b_0; d]) over c_1 + k,  p_i = softmax(W_i f + b_i)

    W [V, E] is the very tensor of the embedding, W_0 its rows for the first c_1 words and W_i those
    for the words of class i; C [k, E] and d [k] score the classes, P [E, H] is there only when
    E ≠ H. `bias` [V] is by id, as W is.
    A row meets the frequent words and those of its own class, so that learning costs a fraction of
    the whole product, and rare words are learnt from both where they are read and written.

    Sources: S. Merity et al., arXiv:1803.08240, section 3 (a split softmax with tied weights).
    Raises `SettingError` as `ClassSplit` does.
    """

    def __init__(self, hidden_size: int, tied: nn.Parameter, *, cutoffs: Sequence[int]) -> None:
        super().__init__(len(tied), cutoffs)
        width = tied.shape[1]
        self.weight = tied
        self.bias = nn.Parameter(torch.zeros(len(tied)))
        self.class_weight = nn.Parameter(torch.zeros(len(cutoffs), width))
        self.class_bias = nn.Parameter(torch.zeros(len(cutoffs)))
        self.projection = projection_between(hidden_size, width)
        self._reset_biases()

    def order_by(self, counts_V: Tensor) -> None:
        """Give the places to ids by falling counts_V [V], unless almost all are in their class.

        Where all but `FEW_STRAYS` ids are in the class that their counts would put them in, every
        id stays its own place, so that a class is a part of the matrix as it lies in memory.
        """
        super().order_by(counts_V)
        ids_V = torch.arange(len(counts_V), device=self.place_of_id_V.device)
        strays = int((self._classes_of(self.place_of_id_V) != self._classes_of(ids_V)).sum())
        if strays <= FEW_STRAYS:
            self.place_of_id_V.copy_(ids_V)

    def features(self, states_BTH: Tensor) -> Tensor:
        """Return f [..., E]: the states themselves without P."""
        return projected(states_BTH, self.projection)

    def class_words(self) -> Sequence[ClassWords]:
        """Return the rows of each class, gathered only where places are not ids."""
        weight, bias = self.weight, self.bias
        by_place = self._ids_by_place()
        rows = weight if by_place is None else weight.index_select(0, by_place)
        biases = bias if by_place is None else bias.index_select(0, by_place)
        parts = [
            ClassWords(None, *part)
            for part in zip(
                rows.split_with_sizes(self.sizes), biases.split_with_sizes(self.sizes), strict=True
            )
        ]
        head = ClassWords(
            None,
            torch.cat([parts[0].weight, self.class_weight]),
            torch.cat([parts[0].bias, self.class_bias]),
        )
        return [head, *parts[1:]]

    def logits(self, states_BTH: Tensor, product: Product = linear) -> Tensor:
        """Return log p of every id, from one product with the whole matrix."""
        features = self.features(states_BTH)
        scores = product(features, self.weight, self.bias)
        by_place = self._ids_by_place()
        if by_place is not None:
            scores = scores.index_select(-1, by_place)
        words, *within = scores.split_with_sizes(self.sizes, dim=-1)
        classes = product(features, self.class_weight, self.class_bias)
        return self._by_id(torch.cat([words, classes], dim=-1), within)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw P uniformly from ±1/√(E · H), as a tied `Readout` does, and C becomes 0.

        Biases become 0, those of the classes ln of their number of words: with small embeddings a
        new model is near the uniform distribution.
        """
        draw_projection(self.projection, generator)
        with torch.no_grad():
            self.class_weight.zero_()
        self._reset_biases()

    def describe(self) -> str:
        """Return the number of frequent words and the sizes of the classes."""
        classes = " and ".join(f"{size:,}" for size in self.sizes[1:])
        return f"split by frequency: {self.cutoffs[0]:,} words, then classes of {classes}, tied"

    def _ids_by_place(self) -> Tensor | None:
        """Return the id at each place [V], or None where every id is its own place."""
        places_V = self.place_of_id_V
        if torch.equal(places_V, torch.arange(len(places_V), device=places_V.device)):
            return None
        return places_V.argsort()

    def _reset_biases(self) -> None:
        with torch.no_grad():
            self.bias.zero_()
            for number, size in enumerate(self.sizes[1:]):
                self.class_bias[number] = math.log(size)
