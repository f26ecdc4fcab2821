"""Attention: a query retrieves a mixture of the source's states, by content.

    e_j = score(query, key_j);  α = softmax(e) over valid positions;  context = Σ_j α_j value_j

One family behind one small interface. `prepare` does once for a source what no query changes and
takes the mask; `attend` serves queries, one step of a decoder or all of them. Whether a query is
the previous or the current state of the decoder is the caller's matter. Nothing is kept on a
module: the memory of a source and the coverage are values.
"""

import math
from abc import ABC, abstractmethod
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from elman.cells.initialising import draw_weights
from elman.errors import DataError, SettingError
from elman.shapes import require_shape

AttentionKind = Literal["dot", "scaled_dot", "projected", "additive", "multi_head"]
Scale = Literal["none", "width"]
Coverage = Literal["none", "vector"]


class SourceMemory(NamedTuple):
    """What a source offers to every query, made by `Attention.prepare` and read-only after.

    keys_BSA: the keys as scores meet them; values_BSK: what is mixed; offsets_BS: a part of the
    score that depends on the position alone, or None; padding_BS: True where nothing stands.
    """

    keys_BSA: Tensor
    values_BSK: Tensor
    offsets_BS: Tensor | None
    padding_BS: Tensor

    def rows(self, rows_N: Tensor) -> "SourceMemory":
        """Return the memory of these rows, which may repeat: what a beam of hypotheses needs."""
        offsets_BS = self.offsets_BS
        return SourceMemory(
            self.keys_BSA.index_select(0, rows_N),
            self.values_BSK.index_select(0, rows_N),
            None if offsets_BS is None else offsets_BS.index_select(0, rows_N),
            self.padding_BS.index_select(0, rows_N),
        )


class Attended(NamedTuple):
    """What a query gets: context_BTC, weights_BTS, both without T where the query had none.

    Weights are at least 0, sum to 1 over the source and are exactly 0 on padding. coverage_BS is
    the sum of all weights so far, for attention with coverage, else None.
    """

    context_BTC: Tensor
    weights_BTS: Tensor
    coverage_BS: Tensor | None


class Attention(nn.Module, ABC):
    """Anything that retrieves from a source: queries of width H, keys of width K, contexts of C.

    Parameters are zero until `initialise` draws them or a state dict is loaded. Float32 and
    float64; outputs have the type of the parameters and the keys.
    """

    has_coverage = False
    """Whether earlier weights enter the scores."""

    def __init__(self, query_size: int, key_size: int, context_size: int | None = None) -> None:
        super().__init__()
        self.query_size, self.key_size = query_size, key_size
        self.context_size = key_size if context_size is None else context_size

    def prepare(self, keys_BSK: Tensor, valid_BS: Tensor) -> SourceMemory:
        """Return the memory of a source: its states keys_BSK [B, S, K], real where valid_BS.

        What stands at padding has no influence, be it NaN. Raises `ShapeError` where the axes do
        not fit, and `DataError` where a row has no valid position, as nothing can be retrieved
        from it: decide about empty sources before the model.
        """
        require_shape("keys_BSK", keys_BSK, (None, None, self.key_size))
        require_shape("valid_BS", valid_BS, keys_BSK.shape[:2])
        padding_BS = ~valid_BS.bool()
        _require_sources(padding_BS)
        clean_BSK = keys_BSK.masked_fill(padding_BS.unsqueeze(2), 0.0)
        return self._prepared(clean_BSK, padding_BS)

    def attend(
        self, query_BTH: Tensor, memory: SourceMemory, coverage_BS: Tensor | None = None
    ) -> Attended:
        """Return contexts and weights for query_BTH [B, T, H], or [B, H] for a single step.

        `coverage_BS` is the coverage that the step before returned, None: zeros. Only attention
        with coverage takes it, and it then takes its T queries one after the other. Raises
        `ShapeError` where the axes do not fit, `SettingError` for a coverage that has no use.
        """
        batch_size, num_positions = memory.padding_BS.shape
        single = query_BTH.ndim == 2
        queries_BTH = query_BTH.unsqueeze(1) if single else query_BTH
        require_shape("query_BTH", queries_BTH, (batch_size, None, self.query_size))
        if coverage_BS is not None:
            if not self.has_coverage:
                raise SettingError(f"{type(self).__name__} here has no coverage", got="a coverage")
            require_shape("coverage_BS", coverage_BS, (batch_size, num_positions))
        context_BTC, weights_BTS, coverage_BS = self._read(queries_BTH, memory, coverage_BS)
        if single:
            return Attended(context_BTC.squeeze(1), weights_BTS.squeeze(1), coverage_BS)
        return Attended(context_BTC, weights_BTS, coverage_BS)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw matrices, and the vector v, from ±1/√(numbers summed over); the rest becomes 0."""
        for name, parameter in self.named_parameters():
            if name.startswith("bias") or name == "weight_coverage":
                with torch.no_grad():
                    parameter.zero_()
            else:
                draw_weights([(name, parameter)], parameter.shape[-1], "uniform", generator)

    @abstractmethod
    def _prepared(self, keys_BSK: Tensor, padding_BS: Tensor) -> SourceMemory:
        """Return the memory of keys that are 0 at padding."""

    @abstractmethod
    def _read(
        self, query_BTH: Tensor, memory: SourceMemory, coverage_BS: Tensor | None
    ) -> Attended:
        """Return contexts, weights and coverage for queries with a time axis."""


class DotAttention(Attention):
    """e_j = q · k_j, or with `scale` "width" q · k_j / √K; queries and keys of one width.

    Sources: M.-T. Luong et al., arXiv:1508.04025, eq. 8, "dot"; A. Vaswani et al.,
    arXiv:1706.03762, eq. 1. No parameters. Raises `SettingError` where the widths differ.
    """

    def __init__(self, query_size: int, key_size: int, *, scale: Scale = "none") -> None:
        super().__init__(query_size, key_size)
        if query_size != key_size:
            raise SettingError(
                "dot attention needs queries and keys of one width",
                got=f"{query_size} and {key_size}",
                hint="projected attention fits any widths",
            )
        self.factor = 1.0 if scale == "none" else 1.0 / math.sqrt(key_size)

    def _prepared(self, keys_BSK: Tensor, padding_BS: Tensor) -> SourceMemory:
        return SourceMemory(keys_BSK, keys_BSK, None, padding_BS)

    def _read(
        self, query_BTH: Tensor, memory: SourceMemory, coverage_BS: Tensor | None
    ) -> Attended:
        query_BTH = query_BTH if self.factor == 1.0 else query_BTH * self.factor
        return _retrieved(query_BTH @ memory.keys_BSA.transpose(1, 2), memory)


class ProjectedAttention(Attention):
    """e_j = (W q + b) · k_j, with W [K, H] and, with `bias` "query", b [K].

    Source: M.-T. Luong et al., arXiv:1508.04025, eq. 8, "general", which has no b. W is applied to
    the keys, once for a source: q · (Wᵀ k_j) + b · k_j is the same number.
    """

    def __init__(
        self, query_size: int, key_size: int, *, bias: Literal["none", "query"] = "none"
    ) -> None:
        super().__init__(query_size, key_size)
        self.weight = nn.Parameter(torch.zeros(key_size, query_size))
        self.bias = nn.Parameter(torch.zeros(key_size)) if bias == "query" else None

    def _prepared(self, keys_BSK: Tensor, padding_BS: Tensor) -> SourceMemory:
        offsets_BS = None if self.bias is None else keys_BSK @ self.bias
        return SourceMemory(keys_BSK @ self.weight, keys_BSK, offsets_BS, padding_BS)

    def _read(
        self, query_BTH: Tensor, memory: SourceMemory, coverage_BS: Tensor | None
    ) -> Attended:
        scores_BTS = query_BTH @ memory.keys_BSA.transpose(1, 2)
        if memory.offsets_BS is not None:
            scores_BTS = scores_BTS + memory.offsets_BS.unsqueeze(1)
        return _retrieved(scores_BTS, memory)


class AdditiveAttention(Attention):
    """e_j = v · tanh(W_q q + W_k k_j + w_c ĉ_j + b), of width A; ĉ is the coverage.

    W_q [A, H], W_k [A, K], b [A], v [A]; with `coverage` "vector" also w_c [A], and ĉ is the sum of
    the weights of all earlier steps. Sources: D. Bahdanau et al., arXiv:1409.0473, section 3.1 and
    A.1.2, which has no b; A. See et al., arXiv:1704.04368, eqs. 1, 10 and 11. W_k k_j + b is made
    once for a source.
    """

    def __init__(
        self, query_size: int, key_size: int, attention_size: int, *, coverage: Coverage = "none"
    ) -> None:
        super().__init__(query_size, key_size)
        self.has_coverage = coverage == "vector"
        self.weight_query = nn.Parameter(torch.zeros(attention_size, query_size))
        self.weight_key = nn.Parameter(torch.zeros(attention_size, key_size))
        self.bias = nn.Parameter(torch.zeros(attention_size))
        self.v = nn.Parameter(torch.zeros(attention_size))
        self.weight_coverage: nn.Parameter | None = None
        if self.has_coverage:
            self.weight_coverage = nn.Parameter(torch.zeros(attention_size))

    def _prepared(self, keys_BSK: Tensor, padding_BS: Tensor) -> SourceMemory:
        return SourceMemory(
            linear(keys_BSK, self.weight_key, self.bias), keys_BSK, None, padding_BS
        )

    def _read(
        self, query_BTH: Tensor, memory: SourceMemory, coverage_BS: Tensor | None
    ) -> Attended:
        if self.has_coverage and coverage_BS is None:
            coverage_BS = memory.values_BSK.new_zeros(memory.padding_BS.shape)
        contexts, weights = [], []
        # One query after the other, with or without coverage: B · S · A numbers stay in a cache
        # where B · T · S · A do not, which costs more than the loop.
        for query_BA in linear(query_BTH, self.weight_query).unbind(1):
            inner_BSA = query_BA.unsqueeze(1) + memory.keys_BSA
            if self.weight_coverage is not None and coverage_BS is not None:
                inner_BSA = inner_BSA + coverage_BS.unsqueeze(2) * self.weight_coverage
            scores_BS = inner_BSA.tanh_() @ self.v
            step = _retrieved(scores_BS.unsqueeze(1), memory)
            if coverage_BS is not None:
                coverage_BS = coverage_BS + step.weights_BTS.squeeze(1)
            contexts.append(step.context_BTC)
            weights.append(step.weights_BTS)
        return Attended(torch.cat(contexts, dim=1), torch.cat(weights, dim=1), coverage_BS)


class MultiHeadAttention(Attention):
    """Scaled dot products of N heads on parts of projections, joined and projected to width C.

        Q = W_q q + b_q;  K = W_k k + b_k;  U = W_v k + b_v, each cut into N heads of A / N
        head_n = softmax(Q_n K_nᵀ / √(A/N)) U_n;  context = W_o [head_1 … head_N] + b_o

    W_q [A, H], W_k and W_v [A, K], W_o [C, A]; C is K unless given. The weights handed out are the
    mean over the heads. Source: A. Vaswani et al., arXiv:1706.03762, section 3.2.2. As
    `torch.nn.MultiheadAttention` in evaluation. Raises `SettingError` where N does not divide A.
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        attention_size: int,
        num_heads: int,
        *,
        context_size: int | None = None,
    ) -> None:
        super().__init__(query_size, key_size, context_size)
        if num_heads < 1 or attention_size % num_heads:
            raise SettingError(
                "the attention's width must be a multiple of the number of heads",
                got=f"{attention_size} and {num_heads}",
            )
        self.num_heads = num_heads
        self.weight_query = nn.Parameter(torch.zeros(attention_size, query_size))
        self.weight_key = nn.Parameter(torch.zeros(attention_size, key_size))
        self.weight_value = nn.Parameter(torch.zeros(attention_size, key_size))
        self.weight_output = nn.Parameter(torch.zeros(self.context_size, attention_size))
        self.bias_query = nn.Parameter(torch.zeros(attention_size))
        self.bias_key = nn.Parameter(torch.zeros(attention_size))
        self.bias_value = nn.Parameter(torch.zeros(attention_size))
        self.bias_output = nn.Parameter(torch.zeros(self.context_size))

    def _prepared(self, keys_BSK: Tensor, padding_BS: Tensor) -> SourceMemory:
        keys_BSA = linear(keys_BSK, self.weight_key, self.bias_key)
        values_BSA = linear(keys_BSK, self.weight_value, self.bias_value)
        return SourceMemory(keys_BSA, values_BSA, None, padding_BS)

    def _read(
        self, query_BTH: Tensor, memory: SourceMemory, coverage_BS: Tensor | None
    ) -> Attended:
        query_BNTA = self._heads(linear(query_BTH, self.weight_query, self.bias_query))
        keys_BNSA, values_BNSA = self._heads(memory.keys_BSA), self._heads(memory.values_BSK)
        scale = 1.0 / math.sqrt(query_BNTA.shape[3])
        scores_BNTS = (query_BNTA * scale) @ keys_BNSA.transpose(2, 3)
        padding_B11S = memory.padding_BS.unsqueeze(1).unsqueeze(1)
        weights_BNTS = scores_BNTS.masked_fill(padding_B11S, -math.inf).softmax(dim=3)
        heads_BTA = (weights_BNTS @ values_BNSA).transpose(1, 2).flatten(2)
        context_BTC = linear(heads_BTA, self.weight_output, self.bias_output)
        return Attended(context_BTC, weights_BNTS.mean(dim=1), None)

    def _heads(self, x_BTA: Tensor) -> Tensor:
        batch_size, num_steps, width = x_BTA.shape
        shape = (batch_size, num_steps, self.num_heads, width // self.num_heads)
        return x_BTA.reshape(shape).transpose(1, 2)


def build_attention(
    kind: AttentionKind,
    query_size: int,
    key_size: int,
    *,
    attention_size: int = 0,
    num_heads: int = 1,
    coverage: Coverage = "none",
) -> Attention:
    """Return the attention named `kind`; sizes that it has no use for are ignored.

    `attention_size` 0: the width of the queries. Raises `SettingError` for an unknown kind and for
    coverage with any kind but "additive".
    """
    if kind not in get_args(AttentionKind):
        allowed = ", ".join(get_args(AttentionKind))
        raise SettingError("the kind of attention is unknown", got=repr(kind), allowed=allowed)
    if coverage != "none" and kind != "additive":
        raise SettingError("coverage needs additive attention", got=repr(kind), allowed="additive")
    width = attention_size or query_size
    if kind == "additive":
        return AdditiveAttention(query_size, key_size, width, coverage=coverage)
    if kind == "multi_head":
        return MultiHeadAttention(query_size, key_size, width, num_heads)
    if kind == "projected":
        return ProjectedAttention(query_size, key_size)
    return DotAttention(query_size, key_size, scale="none" if kind == "dot" else "width")


def repeated_attention(weights_BTS: Tensor, lengths_B: Tensor) -> Tensor:
    """Return Σ_t Σ_j min(α_tj, Σ_{t' < t} α_t'j) over valid target steps, a float64 scalar.

    The coverage loss of A. See et al., arXiv:1704.04368, eq. 12: 0 when no position is read twice.
    Steps t ≥ lengths_B are padding and count for nothing.
    """
    steps_T = torch.arange(weights_BTS.shape[1], device=weights_BTS.device)
    valid_BT1 = (steps_T < lengths_B.unsqueeze(1)).unsqueeze(2)
    valid_BTS = weights_BTS.masked_fill(~valid_BT1, 0.0)
    before_BTS = valid_BTS.cumsum(dim=1) - valid_BTS
    return torch.minimum(valid_BTS, before_BTS).double().sum()


def _retrieved(scores_BTS: Tensor, memory: SourceMemory) -> Attended:
    """Return the softmax of the scores over valid positions, and the mixture of the values."""
    masked_BTS = scores_BTS.masked_fill(memory.padding_BS.unsqueeze(1), -math.inf)
    weights_BTS = masked_BTS.softmax(dim=2)
    return Attended(weights_BTS @ memory.values_BSK, weights_BTS, None)


def _require_sources(padding_BS: Tensor) -> None:
    empty_B = padding_BS.all(dim=1)
    if bool(empty_B.any()):
        rows = empty_B.nonzero().flatten().tolist()
        raise DataError(
            "attention needs at least one valid position in every source",
            got=f"none in row {', '.join(map(str, rows))}",
            hint="leave empty sources out before the model",
        )
