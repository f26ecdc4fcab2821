"""The acceptor: a whole sequence → one answer."""

import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.cells.initialising import draw_weights
from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.layers.dropout import drop
from elman.layers.pooling import Pooling
from elman.models.encoding import SequenceEncoder
from elman.models.learnt import LearntModel


class SequenceClassifier(LearntModel):
    """(inputs, lengths) → logits_BC: what is said of each row as a whole.

        states = encoder(inputs);  v = drop(pool(states));  logits = W v + b

    W [C, P], b [C], P the width of the encoder's states. The encoder reads ids or, with
    `model.input = "series"`, numbers; `model.pooling` says how the states of the valid steps become
    one vector. The C answers exclude each other where the objective takes a softmax over them, and
    do not where it takes a sigmoid of each. All parameters are drawn from `generator`.
    """

    def __init__(
        self,
        settings: ModelSettings,
        input_size: int,
        num_labels: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = SequenceEncoder(settings, input_size)
        width = self.encoder.output_size
        self.pooling = Pooling(
            settings.pooling, width, num_directions=self.encoder.stack.num_directions
        )
        self.weight = torch.nn.Parameter(torch.zeros(num_labels, width))
        self.bias = torch.nn.Parameter(torch.zeros(num_labels))
        self.initialise(generator)

    def forward(
        self,
        inputs: Tensor,
        lengths_B: Tensor,
        *,
        plan: KernelPlan,
        generator: torch.Generator | None = None,
        recompute: int = 0,
    ) -> Tensor:
        """Return logits_BC for ids [B, T] or series [B, T, F]; steps t ≥ lengths_B are padding.

        `recompute` is that of the stack.
        """
        states_BTH, _ = self.encoder(
            inputs, lengths_B, plan=plan, generator=generator, recompute=recompute
        )
        return self.read_out(states_BTH, lengths_B, generator)

    def read_out(
        self, states_BTH: Tensor, lengths_B: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return logits_BC of the encoder's states; steps t ≥ lengths_B are padding."""
        p, kind = self.settings.dropout, self.settings.dropout_kind
        pooled_BH = self.pooling(states_BTH, lengths_B)
        dropped_B1H = drop(pooled_BH.unsqueeze(1), p, generator, kind=kind)
        return linear(dropped_B1H.squeeze(1), self.weight, self.bias)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw every parameter: encoder, pooling, W from ±1/√P; b becomes 0."""
        self.encoder.initialise(generator)
        self.pooling.initialise(generator)
        draw_weights([("weight", self.weight)], self.weight.shape[1], "uniform", generator)
        with torch.no_grad():
            self.bias.zero_()

    def describe(self) -> dict[str, str]:
        """Return what the settings mean here."""
        return {
            **self.encoder.describe(),
            "pooling": self.settings.pooling,
            "answers": str(len(self.bias)),
            "parameters": str(self.parameter_count()),
        }
