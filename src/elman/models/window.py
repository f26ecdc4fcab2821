"""The fixed window: the last N tokens side by side, one hidden layer, and nothing before them."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.layers.dropout import drop
from elman.layers.embedding import Embedding, EmbeddingGradient
from elman.layers.stack import StackState
from elman.models.language import LanguageModel, ModelOutput
from elman.models.reading_out import new_readout


class WindowState(NamedTuple):
    """before_BN: the last N − 1 ids, each + 1, the newest last; 0 where nothing stands."""

    before_BN: Tensor


class WindowLanguageModel(LanguageModel):
    """h_t = tanh(Σ_d W_d x_{t−d} + b), d = 0 … N − 1;  y_t = readout(drop(h_t))

    x is the embedding, 0 where the text has not begun; W_d [H, E] is a block of its own for each
    distance, so that parameters grow with N by E · H each. With `direct_connections` the readout
    sees [h_t, x_t, … x_{t−N+1}]. Source: Y. Bengio et al., JMLR 3 (2003), equation 1; N = 2 is the
    smallest model that sees more than the last token. Dropout acts as in the recurrent model.
    """

    def __init__(
        self, settings: ModelSettings, vocabulary_size: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.settings, self.vocabulary_size = settings, vocabulary_size
        width, hidden = settings.embedding_size, settings.hidden_size
        self.embedding = Embedding(vocabulary_size, width)
        self.weight = nn.Parameter(torch.zeros(settings.context_length, hidden, width))
        self.bias = nn.Parameter(torch.zeros(hidden))
        shown = hidden
        if settings.direct_connections:
            shown += settings.context_length * width
        self.readout = new_readout(settings, shown, vocabulary_size, self.embedding.weight)
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
        """Read ids_BT after `state`: a window for each position, all of them at once."""
        s, (before,) = self.settings, self.zero_state(len(ids_BT)) if state is None else state
        before_BN = before[0]
        past = before_BN.shape[1]
        shifted_BT = torch.cat((before_BN, ids_BT.long() + 1), dim=1)
        x_BTE = self.embedding(
            (shifted_BT - 1).clamp(min=0), s.token_dropout, generator, gradient=embedding_gradient
        )
        x_BTE = x_BTE * (shifted_BT > 0).unsqueeze(2).to(x_BTE.dtype)
        x_BTE = drop(x_BTE, s.embedding_dropout, generator, kind=s.dropout_kind)
        num_steps = ids_BT.shape[1]
        seen_BTF = torch.cat(
            [x_BTE[:, past - d : past - d + num_steps] for d in range(s.context_length)], dim=2
        )
        blocks_HF = self.weight.transpose(0, 1).flatten(1)
        h_BTH = torch.tanh(linear(seen_BTF, blocks_HF, self.bias))
        h_BTH = drop(h_BTH, s.dropout, generator, kind=s.dropout_kind)
        states_BTH = torch.cat((h_BTH, seen_BTF), dim=2) if s.direct_connections else h_BTH
        after_BN = shifted_BT[:, num_steps:]
        if lengths_B is not None:
            places_BN = lengths_B.to(ids_BT.device).unsqueeze(1) + torch.arange(
                past, device=ids_BT.device
            )
            after_BN = shifted_BT.gather(1, places_BN)
        return ModelOutput(states_BTH, self.readout, (WindowState(after_BN),))

    def zero_state(self, batch_size: int) -> StackState:
        """Return windows in which nothing stands."""
        before = self.settings.context_length - 1
        device = self.bias.device
        return (WindowState(torch.zeros(batch_size, before, dtype=torch.int64, device=device)),)

    @property
    def has_own_embedding(self) -> bool:
        """Whether nothing but the window reads the embedding."""
        return not self.settings.tie_weights

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the embedding from a deviation of 1, W_d from ±1/√(N · E), and the readout."""
        s = self.settings
        std = 2.0 / math.sqrt(s.embedding_size) if s.tie_weights else 1.0
        self.embedding.initialise(generator, std=s.embedding_std or std)
        bound = 1.0 / math.sqrt(s.context_length * s.embedding_size)
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.zero_()
        self.readout.initialise(generator)

    def describe(self) -> dict[str, str]:
        """Return how many tokens are seen, and through what."""
        s = self.settings
        direct = ", seen by the output as well" if s.direct_connections else ""
        return {
            "cell": f"window of {s.context_length}",
            "layers": f"one of {s.hidden_size} units, embeddings of {s.embedding_size}{direct}",
            "parameters": str(self.parameter_count()),
            "tied weights": "readout uses the embedding" if s.tie_weights else "none",
            "output": self.readout.describe(),
        }
