"""What reads a whole sequence before anything is answered: embed, run the stack."""

import torch
from torch import Tensor, nn

from elman.cells.registry import build_cell
from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.layers.dropout import drop
from elman.layers.embedding import Embedding, one_hot_inputs
from elman.layers.stack import RecurrentStack, StackState
from elman.models.stacking import describe_noise, stack_options


class SequenceEncoder(nn.Module):
    """(inputs, lengths) → (states_BTH, state): one state for each step, in one or two directions.

        x_t = drop([embedding(ids_t), extra_t]);  states, state = stack(x)

    `input_size` is the number of symbols, or with `model.input = "series"` the numbers at a step;
    `extra_size` the width of vectors that are given beside the ids, 0: none. With
    `model.bidirectional` each layer reads forward and backward, and H is twice the hidden size.
    """

    def __init__(self, settings: ModelSettings, input_size: int, *, extra_size: int = 0) -> None:
        super().__init__()
        self.settings, self.input_size = settings, input_size
        self.embedding: Embedding | None = None
        read = input_size
        if settings.input == "embedding":
            self.embedding = Embedding(input_size, settings.embedding_size)
            read = settings.embedding_size
        directions = 2 if settings.bidirectional else 1
        written = (settings.projection_size or settings.hidden_size) * directions
        self.stack = RecurrentStack(
            [
                build_cell(settings, written if layer else read + extra_size, layer)
                for layer in range(settings.num_layers)
                for _ in range(directions)
            ],
            num_directions=directions,
            options=stack_options(settings),
        )
        self.output_size = self.stack.output_size

    def forward(
        self,
        inputs: Tensor,
        lengths_B: Tensor,
        extra_BTE: Tensor | None = None,
        *,
        plan: KernelPlan,
        generator: torch.Generator | None = None,
        recompute: int = 0,
    ) -> tuple[Tensor, StackState]:
        """Return states_BTH, 0 at padding, and each reader's state after its last valid step.

        `inputs` is ids [B, T], or numbers [B, T, F]. The states are not dropped yet. `recompute` is
        that of the stack.
        """
        kind = self.settings.dropout_kind
        x_BTE = self.inputs(inputs, extra_BTE, generator)
        x_BTE = drop(x_BTE, self.settings.embedding_dropout, generator, kind=kind)
        states_BTH, state = self.stack(
            x_BTE, None, lengths_B, plan=plan, generator=generator, recompute=recompute
        )
        return states_BTH, state

    def inputs(
        self,
        inputs: Tensor,
        extra_BTE: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return x_BTE, what the first layer reads of `inputs` and extra_BTE, before dropout."""
        x_BTE = self._own_inputs(inputs, generator)
        return x_BTE if extra_BTE is None else torch.cat((x_BTE, extra_BTE), dim=2)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the embedding from N(0, 1), or N(0, `embedding_std`²), then every cell."""
        if self.embedding is not None:
            self.embedding.initialise(generator, std=self.settings.embedding_std or 1.0)
        self.stack.initialise(generator, self.settings.initialisation)

    def describe(self) -> dict[str, str]:
        """Return what the settings mean here."""
        s = self.settings
        read = {
            "embedding": f"embeddings of {s.embedding_size}",
            "one-hot": "one-hot inputs",
            "series": f"{self.input_size} number{'s' * (self.input_size != 1)} a step",
        }[s.input]
        ways = "in both directions, " if s.bidirectional else ""
        return {
            "cell": self.stack.cell(0).key,
            "layers": f"{s.num_layers} of {s.hidden_size} units, {ways}{read}",
            **describe_noise(s),
        }

    def _own_inputs(self, inputs: Tensor, generator: torch.Generator | None) -> Tensor:
        if self.embedding is not None:
            embedded_BTE: Tensor = self.embedding(inputs, self.settings.token_dropout, generator)
            return embedded_BTE
        weight = self.stack.cell(0).weight_ih
        if self.settings.input == "one-hot":
            return one_hot_inputs(inputs, self.input_size, weight.dtype)
        return inputs.to(weight.dtype)
