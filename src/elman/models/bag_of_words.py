"""A text as the bag of its tokens: the classifier that a model of order has to beat.

With single tokens (longest = 1) it is blind to order: every permutation of a text gets the same
probabilities. With n-grams up to `longest` it sees as far as those reach. Tokens are what the
caller cuts: words, or the characters of a string.

    naive_bayes   p(c | x) ∝ n_c · Π_f p(f | c)^{x_f},   p(f | c) ∝ n_{f,c} + a
    logistic      p(c | x) = softmax(W^T x + b)_c, the least of  Σ_rows −ln p(c | x) + l2/2 · Σ W²

x_f is 1 where the n-gram f occurs in the text and 0 elsewhere (`counting = "present"`), or how
often it occurs; n_c texts are of class c, and n_{f,c} is the sum of x_f over them. For the logistic
model x is divided by its length √Σ x_f², so that long texts do not weigh more than short ones.
n-grams that training did not have are left out. The first model is Wang and Manning, "Baselines and
Bigrams" (2012); the second is minimised by L-BFGS from zeros. Nothing is drawn: the same rows give
the same model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from elman.errors import DataError, SettingError, ShapeError

BagKind = Literal["naive_bayes", "logistic"]
Counting = Literal["present", "count"]
TokenRow = Sequence[str]
"""The tokens of one text; a string is the sequence of its characters."""
LongArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

SMOOTHING = 1.0
L2 = 0.1
MOST_UPDATES = 300
"""A bound on time: L-BFGS stops by itself at the minimum, after some 200 on 15,000 short texts."""
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class _SparseRows:
    """Rows of numbers without their zeros: row b has columns[offsets[b] : offsets[b + 1]]."""

    offsets_B: LongArray  # one more than rows
    columns_N: LongArray
    values_N: npt.NDArray[np.float32]

    def scaled_to_length_one(self) -> "_SparseRows":
        rows_N = np.repeat(np.arange(len(self.offsets_B) - 1), np.diff(self.offsets_B))
        squares_B = np.bincount(
            rows_N, self.values_N.astype(np.float64) ** 2, minlength=len(self.offsets_B) - 1
        )
        scales_N = 1.0 / np.sqrt(squares_B[rows_N])
        return _SparseRows(
            self.offsets_B, self.columns_N, (self.values_N * scales_N).astype(np.float32)
        )

    def transposed(self, num_columns: int) -> "_SparseRows":
        rows_N = np.repeat(np.arange(len(self.offsets_B) - 1), np.diff(self.offsets_B))
        order_N = np.argsort(self.columns_N, kind="stable")
        counts_F = np.bincount(self.columns_N, minlength=num_columns)
        offsets_F = np.concatenate([[0], np.cumsum(counts_F)])
        return _SparseRows(offsets_F, rows_N[order_N], self.values_N[order_N])

    def times(self, matrix: Tensor) -> Tensor:
        """Return rows @ matrix; each row is summed in one order, whatever the threads."""
        return embedding_bag(
            torch.from_numpy(self.columns_N),
            matrix,
            torch.from_numpy(self.offsets_B),
            mode="sum",
            per_sample_weights=torch.from_numpy(self.values_N).to(matrix.dtype),
            include_last_offset=True,
        )


class _Numbering:
    """Numbers of the n-grams of training, order by order; -1 for those it did not have.

    An n-gram of order k is keyed as (number of its first k - 1 tokens) · V + (number of the last).
    """

    def __init__(self, rows: Sequence[TokenRow], longest: int, least_rows: int) -> None:
        tokens = dict.fromkeys(token for row in rows for token in row)
        self._ids = {token: number for number, token in enumerate(tokens)}
        self._keys: list[LongArray] = []
        ids_N, lengths_B = self._flat(rows)
        row_N = np.repeat(np.arange(len(rows)), lengths_B)
        firsts: list[int] = []
        self.size = 0
        numbers_N, ends_N = ids_N, np.arange(len(ids_N))
        for order in range(1, longest + 1):
            if order > 1:
                numbers_N, ends_N = self._longer(numbers_N, ends_N, ids_N, row_N)
            keys_N, places_N = np.unique(numbers_N, return_inverse=True)
            pairs_N = np.unique(places_N * max(1, len(rows)) + row_N[ends_N])
            in_rows_N = np.bincount(pairs_N // max(1, len(rows)), minlength=len(keys_N))
            kept_N = in_rows_N >= least_rows
            self._keys.append(keys_N[kept_N])
            firsts.append(self.size)
            self.size += int(kept_N.sum())
            numbers_N, ends_N = self._known(order, numbers_N, ends_N)
        self._firsts = tuple(firsts)

    def features(self, rows: Sequence[TokenRow], counting: Counting) -> _SparseRows:
        """Return how often every known n-gram occurs in each row, or that it does."""
        ids_N, lengths_B = self._flat(rows)
        row_N = np.repeat(np.arange(len(rows)), lengths_B)
        numbers_N, ends_N = ids_N, np.arange(len(ids_N))
        found: list[LongArray] = []
        for order, first in enumerate(self._firsts, start=1):
            if order > 1:
                numbers_N, ends_N = self._longer(numbers_N, ends_N, ids_N, row_N)
            numbers_N, ends_N = self._known(order, numbers_N, ends_N)
            found.append(row_N[ends_N] * self.size + first + numbers_N)
        cells_N, times_N = np.unique(np.concatenate(found), return_counts=True)
        if counting == "present":
            times_N = np.ones_like(times_N)
        in_rows_B = np.bincount(cells_N // max(1, self.size), minlength=len(rows))
        offsets_B = np.concatenate([[0], np.cumsum(in_rows_B)])
        return _SparseRows(offsets_B, cells_N % max(1, self.size), times_N.astype(np.float32))

    def _flat(self, rows: Sequence[TokenRow]) -> tuple[LongArray, LongArray]:
        ids = self._ids
        flat = [ids.get(token, -1) for row in rows for token in row]
        return np.array(flat, dtype=np.int64), np.array([len(row) for row in rows], dtype=np.int64)

    def _longer(
        self, numbers_N: LongArray, ends_N: LongArray, ids_N: LongArray, row_N: LongArray
    ) -> tuple[LongArray, LongArray]:
        """Return the keys of the n-grams that are one token longer, and where they end."""
        ends_N = ends_N + 1
        inside_N = ends_N < len(ids_N)
        numbers_N, ends_N = numbers_N[inside_N], ends_N[inside_N]
        goes_on_N = (row_N[ends_N] == row_N[ends_N - 1]) & (ids_N[ends_N] >= 0)
        numbers_N, ends_N = numbers_N[goes_on_N], ends_N[goes_on_N]
        return numbers_N * len(self._ids) + ids_N[ends_N], ends_N

    def _known(
        self, order: int, keys_N: LongArray, ends_N: LongArray
    ) -> tuple[LongArray, LongArray]:
        """Return numbers and ends of those of the keys that are n-grams of training."""
        table_N = self._keys[order - 1]
        if not len(table_N):
            return keys_N[:0], ends_N[:0]
        places_N = np.minimum(np.searchsorted(table_N, keys_N), len(table_N) - 1)
        known_N = table_N[places_N] == keys_N
        return places_N[known_N], ends_N[known_N]


class BagOfWords:
    """p(class | the n-grams of a text), in the order of `classes`."""

    def __init__(
        self,
        numbering: _Numbering,
        weights: Tensor,
        bias: Tensor,
        *,
        classes: tuple[str, ...],
        kind: BagKind,
        counting: Counting,
        longest: int,
    ) -> None:
        self._numbering, self._weights, self._bias = numbering, weights, bias
        self.classes = classes
        self.kind = kind
        self.counting = counting
        self.longest = longest

    @classmethod
    def fit(
        cls,
        rows: Sequence[TokenRow],
        labels: Sequence[str],
        *,
        kind: BagKind = "logistic",
        longest: int = 1,
        counting: Counting = "present",
        least_rows: int = 1,
        smoothing: float = SMOOTHING,
        l2: float = L2,
    ) -> "BagOfWords":
        """Return the model of `rows` (tokens of each text) and the label of each.

        `longest` is the length of the longest n-grams, `least_rows` in how many texts one must
        occur; `smoothing` is a of naive Bayes, `l2` the penalty of the logistic model. Raises
        `ShapeError` for unequal numbers, `DataError` for no rows, `SettingError` for settings out
        of range.
        """
        _check_settings(longest, least_rows, smoothing, l2)
        if len(rows) != len(labels):
            raise ShapeError(
                "texts and labels must have one row for each other",
                got=f"{len(rows):,} and {len(labels):,} rows",
            )
        if not labels:
            raise DataError("there is no text to learn from", got="no rows", allowed="1 or more")
        classes = tuple(sorted(set(labels)))
        numbers = {label: number for number, label in enumerate(classes)}
        gold_B = np.array([numbers[label] for label in labels], dtype=np.int64)
        numbering = _Numbering(rows, longest, least_rows)
        features = numbering.features(rows, counting)
        if kind == "naive_bayes":
            weights, bias = _naive_bayes(features, gold_B, len(classes), numbering.size, smoothing)
        else:
            scaled = features.scaled_to_length_one()
            weights, bias = _logistic(scaled, gold_B, len(classes), numbering.size, l2)
        return cls(
            numbering,
            weights,
            bias,
            classes=classes,
            kind=kind,
            counting=counting,
            longest=longest,
        )

    @property
    def is_order_blind(self) -> bool:
        """Whether the order of the tokens can change nothing."""
        return self.longest == 1

    @property
    def num_features(self) -> int:
        """How many different n-grams there are weights for."""
        return self._numbering.size

    def log_probs(self, rows: Sequence[TokenRow]) -> FloatArray:
        """Return ln p of every class for every text: [B, C] float64.

        A text of which nothing is known gets what the model gives to an empty one.
        """
        parts = []
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            features = self._numbering.features(rows[start : start + _ROWS_AT_ONCE], self.counting)
            if self.kind == "logistic":
                features = features.scaled_to_length_one()
            logits_BC = features.times(self._weights).double() + self._bias
            parts.append(logits_BC.log_softmax(dim=1).numpy())
        log_probs_BC: FloatArray = np.concatenate([np.empty((0, len(self.classes))), *parts])
        return log_probs_BC

    def predict(self, rows: Sequence[TokenRow]) -> list[str]:
        """Return the likeliest class of every text, of several the first in sorted order."""
        return [self.classes[best] for best in self.log_probs(rows).argmax(axis=1)]


def _naive_bayes(
    features: _SparseRows, gold_B: LongArray, num_classes: int, size: int, smoothing: float
) -> tuple[Tensor, Tensor]:
    gold_N = np.repeat(gold_B, np.diff(features.offsets_B))
    cells_N = features.columns_N * num_classes + gold_N
    sums_N = np.bincount(cells_N, features.values_N, minlength=size * num_classes)
    counts_FC = sums_N.reshape(size, num_classes) + smoothing
    weights_FC = np.log(counts_FC / counts_FC.sum(axis=0))
    bias_C = np.log(np.bincount(gold_B, minlength=num_classes) / len(gold_B))
    return torch.from_numpy(weights_FC), torch.from_numpy(bias_C)


def _logistic(
    features: _SparseRows, gold_B: LongArray, num_classes: int, size: int, l2: float
) -> tuple[Tensor, Tensor]:
    """Return W [F, C] and b [C] by L-BFGS; the gradient is written out, no graph is built."""
    columns = features.transposed(size)
    targets_BC = torch.nn.functional.one_hot(torch.from_numpy(gold_B), num_classes).float()
    # The bias is the last row, so that the optimiser sees one matrix.
    joined = torch.zeros(size + 1, num_classes)
    optimiser = torch.optim.LBFGS(
        [joined],
        max_iter=MOST_UPDATES,
        history_size=6,
        tolerance_grad=1e-4,
        tolerance_change=1e-9,
        line_search_fn="strong_wolfe",
    )

    def objective() -> Tensor:
        weights_FC = joined[:-1]
        log_probs_BC = (features.times(weights_FC) + joined[-1]).log_softmax(dim=1)
        errors_BC = log_probs_BC.exp() - targets_BC
        gradient = torch.empty_like(joined)
        torch.add(columns.times(errors_BC), weights_FC, alpha=l2, out=gradient[:-1])
        gradient[-1] = errors_BC.sum(dim=0)
        joined.grad = gradient
        nats = -(log_probs_BC * targets_BC).sum(dtype=torch.float64)
        return nats + 0.5 * l2 * weights_FC.square().sum(dtype=torch.float64)

    optimiser.step(objective)  # type: ignore[no-untyped-call]
    return joined[:-1].contiguous(), joined[-1].double()


def _check_settings(longest: int, least_rows: int, smoothing: float, l2: float) -> None:
    for name, value in (("longest", longest), ("least_rows", least_rows)):
        if value < 1:
            raise SettingError(f"{name} must be an int >= 1", got=str(value))
    for name, size in (("smoothing", smoothing), ("l2", l2)):
        if not size > 0.0:
            raise SettingError(f"{name} must be a number above 0", got=f"{size:g}")
