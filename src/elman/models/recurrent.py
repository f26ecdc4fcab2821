"""The recurrent language model: embed, run the stack, read out."""

import math

import torch
from torch import Tensor

from elman.cells.registry import build_cell
from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.layers.dropout import drop
from elman.layers.embedding import Embedding, EmbeddingGradient, one_hot_inputs
from elman.layers.readout import SoftmaxReadout
from elman.layers.stack import RecurrentStack, StackState
from elman.models.language import LanguageModel, ModelOutput
from elman.models.reading_out import new_readout
from elman.models.stacking import describe_noise, stack_options

EMBEDDING_STD = 1.0
"""Deviation of new embeddings that meet the states through weights of their own."""
TIED_STD_SCALE = 2.0
"""Times 1 / √E, the deviation of new embeddings whose products with the states are the logits."""


class RecurrentLanguageModel(LanguageModel):
    """(ids, state) → (states, readout, state): a distribution over the next token at every step.

        x_t = drop(embedding(ids_t));  h_t, state = stack(x_t, state);  y_t = readout(drop(h_t))

    `dropout` acts on what every layer hands on, the last one too, so that a model of one layer is
    regularised as well; `embedding_dropout` on what the embedding hands on. Both act if and only if
    a generator is passed. y_t are the logits of token t + 1. With `tie_weights` the readout's
    matrix is the embedding's very tensor, with a projection from H to E when the sizes differ. All
    parameters are drawn from `generator`. With `softmax` "adaptive" the readout is split into
    classes by `cutoffs`, which must be given (`elman.layers.class_split`, `tied_classes`).
    """

    def __init__(
        self, settings: ModelSettings, vocabulary_size: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.settings, self.vocabulary_size = settings, vocabulary_size
        read = settings.embedding_size if settings.input == "embedding" else vocabulary_size
        written = settings.projection_size or settings.hidden_size
        self.embedding: Embedding | None = None
        if settings.input == "embedding":
            self.embedding = Embedding(vocabulary_size, read)
        self.stack = RecurrentStack(
            [
                build_cell(settings, written if layer else read, layer)
                for layer in range(settings.num_layers)
            ],
            options=stack_options(settings),
        )
        tied = None if self.embedding is None else self.embedding.weight
        self.readout: SoftmaxReadout = new_readout(settings, written, vocabulary_size, tied)
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
        """Read ids_BT after `state` (None: zeros); steps t ≥ lengths_B are padding, change nothing.

        `states_BTH` are the readout's inputs, dropped already when a generator is passed.
        `recompute` is that of the stack, `embedding_gradient` that of the embedding.
        """
        p, kind = self.settings.dropout, self.settings.dropout_kind
        x_BTE = drop(
            self.inputs(ids_BT, generator, embedding_gradient),
            self.settings.embedding_dropout,
            generator,
            kind=kind,
        )
        states_BTH, state = self.stack(
            x_BTE, state, lengths_B, plan=plan, generator=generator, recompute=recompute
        )
        kept_BTH = drop(states_BTH, p, generator, kind=kind)
        return ModelOutput(kept_BTH, self.readout, state, states_BTH)

    @property
    def has_own_embedding(self) -> bool:
        """Whether the embedding is there, and is not the readout's matrix as well."""
        return self.embedding is not None and not self.settings.tie_weights

    def inputs(
        self,
        ids_BT: Tensor,
        generator: torch.Generator | None = None,
        gradient: EmbeddingGradient = "dense",
    ) -> Tensor:
        """Return x_BTE, what the first layer reads of ids_BT, before dropout."""
        if self.embedding is None:
            return one_hot_inputs(ids_BT, self.vocabulary_size, self.readout.weight.dtype)
        x_BTE: Tensor = self.embedding(
            ids_BT, self.settings.token_dropout, generator, gradient=gradient
        )
        return x_BTE

    def zero_state(self, batch_size: int) -> StackState:
        """Return the state before any token, which is what None stands for."""
        return self.stack.zero_state(batch_size)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw every parameter from `generator`: embedding, cells, readout, in this order.

        Embeddings start at a deviation of 1, torch's own: cells shrink their inputs by 1/√H, and
        smaller vectors leave the first updates nearly blind to the token. When the embedding is
        also the readout's matrix, with no projection between, its deviation is 2 / √E, the largest
        whole number over √E that starts every cell within 0.2 nats of the uniform distribution.
        `embedding_std` in the settings, where it is not 0, takes the place of both.
        """
        std = EMBEDDING_STD
        if self.settings.tie_weights and self.settings.embedding_size == self.stack.output_size:
            std = TIED_STD_SCALE / math.sqrt(self.settings.embedding_size)
        std = self.settings.embedding_std or std
        if self.embedding is not None:
            self.embedding.initialise(generator, std=std)
        self.stack.initialise(generator, self.settings.initialisation)
        self.readout.initialise(generator)

    def describe(self) -> dict[str, str]:
        """Return what the settings mean here: cell, sizes, where dropout acts, tying."""
        s = self.settings
        if s.tie_weights:
            how = "" if s.embedding_size == s.hidden_size else " through a projection"
            tying = f"readout uses the embedding{how}"
        else:
            tying = "none"
        return {
            "cell": self.stack.cell(0).key,
            "layers": f"{s.num_layers} of {s.hidden_size} units, "
            + ("one-hot inputs" if self.embedding is None else f"embeddings of {s.embedding_size}"),
            **describe_noise(s),
            "parameters": str(self.parameter_count()),
            "tied weights": tying,
            "output": self.readout.describe(),
        }
