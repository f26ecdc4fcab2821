"""A small causal Transformer: the opponent of the recurrent models in cost and quality."""

import math
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.kernels.products import ProductPlan
from elman.layers.causal_attention import Turns, allowed_columns, attend, turned, turns_of
from elman.layers.dropout import drop
from elman.layers.embedding import Embedding, EmbeddingGradient
from elman.layers.readout import Product
from elman.layers.stack import StackState
from elman.models.language import LanguageModel, ModelOutput
from elman.models.reading_out import new_readout

INITIAL_STD = 0.02
WIDER = 4
"""Width of the inner layer of each block, times H."""


class LayerCache(NamedTuple):
    """Keys and values [B, L, H] of the last L steps, the newest last; L grows to N − 1."""

    keys_BLH: Tensor
    values_BLH: Tensor


class ReadCount(NamedTuple):
    """counts_B1: how many steps each row has read."""

    counts_B1: Tensor


class Sight(NamedTuple):
    """What the steps of one call may see, allowed_BTL, and how far rotary places turn them."""

    allowed_BTL: Tensor
    turns: Turns | None


class TransformerBlock(nn.Module):
    """x ← x + W_o attend(norm(x));  x ← x + W_2 gelu(W_1 norm(x)): layer norm before each part."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm, self.inner_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.weight_qkv = nn.Parameter(torch.zeros(3 * width, width))
        self.bias_qkv = nn.Parameter(torch.zeros(3 * width))
        self.weight_output = nn.Parameter(torch.zeros(width, width))
        self.bias_output = nn.Parameter(torch.zeros(width))
        self.weight_inner = nn.Parameter(torch.zeros(WIDER * width, width))
        self.bias_inner = nn.Parameter(torch.zeros(WIDER * width))
        self.weight_outer = nn.Parameter(torch.zeros(width, WIDER * width))
        self.bias_outer = nn.Parameter(torch.zeros(width))

    def forward(
        self,
        x_BTH: Tensor,
        cache: LayerCache,
        sight: Sight,
        settings: ModelSettings,
        generator: torch.Generator | None,
        product: Product,
    ) -> tuple[Tensor, LayerCache]:
        """Return the block's x and the keys and values of all columns, cached and new.

        Keys are kept as they are turned. `product` makes x Wᵀ + b.
        """
        s = settings
        qkv_BTG = product(self.attention_norm(x_BTH), self.weight_qkv, self.bias_qkv)
        q_BTH, k_BTH, v_BTH = qkv_BTG.chunk(3, dim=2)
        if sight.turns is not None:
            q_BTH = turned(q_BTH, sight.turns, s.num_heads)
            k_BTH = turned(k_BTH, sight.turns, s.num_heads)
        k_BLH = torch.cat((cache.keys_BLH.to(k_BTH.dtype), k_BTH), dim=1)
        v_BLH = torch.cat((cache.values_BLH.to(v_BTH.dtype), v_BTH), dim=1)
        found_BTH = attend(q_BTH, k_BLH, v_BLH, sight.allowed_BTL, num_heads=s.num_heads)
        found_BTH = product(found_BTH, self.weight_output, self.bias_output)
        x_BTH = x_BTH + drop(found_BTH, s.dropout, generator, kind=s.dropout_kind)
        inner_BTF = gelu(product(self.inner_norm(x_BTH), self.weight_inner, self.bias_inner))
        outer_BTH = product(inner_BTF, self.weight_outer, self.bias_outer)
        x_BTH = x_BTH + drop(outer_BTH, s.dropout, generator, kind=s.dropout_kind)
        return x_BTH, LayerCache(k_BLH, v_BLH)

    def initialise(self, generator: torch.Generator, num_layers: int) -> None:
        """Draw matrices from a deviation of 0.02, those that are added to x from less by √(2 L)."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if name.endswith("norm.weight"):
                    parameter.fill_(1.0)
                elif parameter.ndim == 1:
                    parameter.zero_()
                else:
                    added = name in ("weight_output", "weight_outer")
                    std = INITIAL_STD / math.sqrt(2 * num_layers) if added else INITIAL_STD
                    parameter.normal_(0.0, std, generator=generator)


class TransformerLanguageModel(LanguageModel):
    """x = drop(embedding(ids) [+ place]);  blocks;  y_t = readout(norm(x_t)), H wide throughout.

    Every step sees itself and at most N − 1 steps before it (`model.context_length`). With rotary
    places the window slides; with learnt ones a text is read in blocks of N, and a step sees its
    own block alone. The state holds keys and values, so that a token costs one step, and how a text
    is cut changes nothing. Source: A. Radford et al., "Language Models are Unsupervised Multitask
    Learners" (2019), section 2.3.
    """

    def __init__(
        self, settings: ModelSettings, vocabulary_size: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.settings, self.vocabulary_size = settings, vocabulary_size
        width = settings.hidden_size
        self.embedding = Embedding(vocabulary_size, width)
        self.places: nn.Parameter | None = None
        if settings.positions == "learned":
            self.places = nn.Parameter(torch.zeros(settings.context_length, width))
        self.blocks = nn.ModuleList(TransformerBlock(width) for _ in range(settings.num_layers))
        self.norm = nn.LayerNorm(width)
        self.readout = new_readout(settings, width, vocabulary_size, self.embedding.weight)
        self.initialise(generator)

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
        """Read ids_BT after `state`, all steps at once.

        With a plan of precision bfloat16, and while gradients are recorded, products are in
        bfloat16; without gradients they are made by the library that the plan finds fastest.
        """
        s = self.settings
        count, *caches = self.zero_state(len(ids_BT)) if state is None else state
        counts_B, num_steps = count[0][:, 0], ids_BT.shape[1]
        cached = caches[0][0].shape[1]
        places_BT = counts_B.unsqueeze(1) + torch.arange(num_steps, device=ids_BT.device)
        seen_BT = self._seen(places_BT)
        own_B = self._seen(counts_B).clamp(max=cached)
        turns = None
        if s.positions == "rotary":
            width = s.hidden_size // s.num_heads
            turns = turns_of(places_BT, width, self.norm.weight.dtype)
        sight = Sight(allowed_columns(own_B, cached, seen_BT), turns)
        x_BTH = self.embedding(ids_BT, s.token_dropout, generator, gradient=embedding_gradient)
        if self.places is not None:
            x_BTH = x_BTH + self.places[seen_BT]
        x_BTH = drop(x_BTH, s.embedding_dropout, generator, kind=s.dropout_kind)
        product = linear if torch.is_grad_enabled() else partial(_chosen_product, plan.products)
        half = plan.precision == "bfloat16" and torch.is_grad_enabled()
        columns = []
        with torch.autocast(ids_BT.device.type, torch.bfloat16, enabled=half):
            for block, cache in zip(self.blocks, caches, strict=True):
                x_BTH, every = block(x_BTH, LayerCache(*cache), sight, s, generator, product)
                columns.append(every)
            states_BTH = self.norm(x_BTH.to(self.norm.weight.dtype))
        after = self._after(columns, counts_B, cached, num_steps, lengths_B)
        return ModelOutput(states_BTH, self.readout, after)

    def zero_state(self, batch_size: int) -> StackState:
        """Return empty caches."""
        weight = self.norm.weight
        empty = weight.new_zeros(batch_size, 0, self.settings.hidden_size)
        counts_B1 = torch.zeros(batch_size, 1, dtype=torch.int64, device=weight.device)
        caches = (LayerCache(empty, empty) for _ in range(self.settings.num_layers))
        return (ReadCount(counts_B1), *caches)

    def state_of(self, parts: Mapping[str, Tensor]) -> StackState:
        """Return the state whose parts are named; all caches must be of one length below N."""
        state = super().state_of(parts)
        lengths = {part.shape[1] for cache in state[1:] for part in cache}
        if len(lengths) > 1 or max(lengths) >= self.settings.context_length:
            raise ValueError(f"caches of {sorted(lengths)} steps")
        return state

    @property
    def has_own_embedding(self) -> bool:
        """Whether the embedding is not the readout's matrix as well."""
        return not self.settings.tie_weights

    def initialise(self, generator: torch.Generator) -> None:
        """Draw embedding, places, blocks and readout, in this order, as GPT-2 does."""
        s = self.settings
        self.embedding.initialise(generator, std=s.embedding_std or INITIAL_STD)
        with torch.no_grad():
            if self.places is not None:
                self.places.normal_(0.0, INITIAL_STD, generator=generator)
            self.norm.weight.fill_(1.0)
            self.norm.bias.zero_()
        for block in self.blocks:
            assert isinstance(block, TransformerBlock)
            block.initialise(generator, s.num_layers)
        self.readout.initialise(generator)

    def describe(self) -> dict[str, str]:
        """Return layers, heads, and how far it sees."""
        s = self.settings
        return {
            "cell": "transformer",
            "layers": f"{s.num_layers} of {s.hidden_size} units, {s.num_heads} heads, "
            f"{s.positions} places, sees {s.context_length} tokens",
            "parameters": str(self.parameter_count()),
            "tied weights": "readout uses the embedding" if s.tie_weights else "none",
            "output": self.readout.describe(),
        }

    def _seen(self, counts: Tensor) -> Tensor:
        """Return how many steps before itself a step sees that comes after so many.

        With learnt places it is its place in its block.
        """
        length = self.settings.context_length
        if self.settings.positions == "learned":
            return counts % length
        return counts.clamp(max=length - 1)

    def _after(
        self,
        columns: list[LayerCache],
        counts_B: Tensor,
        cached: int,
        num_steps: int,
        lengths_B: Tensor | None,
    ) -> StackState:
        """Return the state after each row's own last step: its newest N − 1 columns."""
        length = self.settings.context_length
        kept = min(length - 1, cached + num_steps)
        read_B = torch.full_like(counts_B, num_steps)
        if lengths_B is not None:
            read_B = lengths_B.to(counts_B.device)
        counts_B1 = (counts_B + read_B).unsqueeze(1)
        first_B1 = (cached + read_B - kept).unsqueeze(1)
        places_BL = (first_B1 + torch.arange(kept, device=counts_B.device)).clamp(min=0)
        caches = []
        for every in columns:
            if lengths_B is None:
                parts = [part[:, cached + num_steps - kept :] for part in every]
            else:
                index_BLH = places_BL.unsqueeze(2).expand(-1, -1, self.settings.hidden_size)
                parts = [part.gather(1, index_BLH) for part in every]
            caches.append(LayerCache(*(part.to(self.norm.weight.dtype) for part in parts)))
        return (ReadCount(counts_B1), *caches)


def _chosen_product(
    plan: ProductPlan, x_BTF: Tensor, weight: Tensor, bias: Tensor | None
) -> Tensor:
    """Return x Wᵀ + b by the library that `plan` chooses, without recording gradients."""
    found = plan.project(x_BTF.flatten(0, 1), weight, bias)
    return found.view(*x_BTF.shape[:2], -1)
