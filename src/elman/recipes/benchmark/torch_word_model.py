"""The word language model of the PyTorch examples in plain torch, and one step of its training.

Written after pytorch/examples, word_language_model: embedding, LSTM, linear, log_softmax, nll_loss,
clip_grad_norm_, SGD. Time comes first, as there.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, nll_loss

from elman.data.batches import BatchSource, TokenBatch
from elman.models.recurrent import RecurrentLanguageModel
from elman.training.truncation import detach

TorchState = tuple[Tensor, Tensor]


class TorchWordModel(nn.Module):
    """Embedding, LSTM layers, linear output; its weights are copies of those of Elman's model."""

    def __init__(self, model: RecurrentLanguageModel, dropout: float) -> None:
        super().__init__()
        assert model.embedding is not None
        vocabulary_size, width = model.embedding.weight.shape
        units, num_layers = model.stack.output_size, model.stack.num_layers
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.lstm = nn.LSTM(width, units, num_layers, dropout=dropout if num_layers > 1 else 0.0)
        self.output = nn.Linear(units, vocabulary_size)
        self.dropout = nn.Dropout(dropout)
        with torch.no_grad():
            self.embedding.weight.copy_(model.embedding.weight)
            self.output.weight.copy_(model.readout.weight)
            self.output.bias.copy_(model.readout.bias)
            for layer in range(num_layers):
                for name, weight in model.stack.cell(layer).named_parameters():
                    getattr(self.lstm, f"{name}_l{layer}").copy_(weight)

    def forward(self, ids_TB: Tensor, state: TorchState | None) -> tuple[Tensor, TorchState]:
        """Return log-probabilities [T · B, V] and the state after."""
        x_TBE = self.dropout(self.embedding(ids_TB))
        states_TBH, state = self.lstm(x_TBE, state)
        logits_TBV = self.output(self.dropout(states_TBH))
        assert state is not None
        return log_softmax(logits_TBV.view(-1, logits_TBV.shape[2]), dim=1), state


class TorchWordTraining:
    """The training loop around `TorchWordModel`, one update for each call of `step`."""

    def __init__(
        self,
        model: TorchWordModel,
        source: BatchSource[TokenBatch],
        *,
        rate: float,
        clip_norm: float,
    ) -> None:
        self.model, self.source, self.clip_norm = model, source, clip_norm
        self._optimiser = torch.optim.SGD(model.parameters(), lr=rate, fused=True)
        self._state: TorchState | None = None
        self._index = 0
        model.train()

    def step(self) -> float:
        """Make one update and return the mean loss of its batch in nats per token."""
        if self._index == self.source.batches_per_epoch(0):
            self._index = 0
        batch = self.source.batch(0, self._index)
        self._index += 1
        state = detach(self._state) if batch.continues else None
        ids_TB, targets_TB = batch.ids_BT.t().contiguous(), batch.targets_BT.t().contiguous()
        self._optimiser.zero_grad()
        log_probs_NV, self._state = self.model(ids_TB, state)
        loss = nll_loss(log_probs_NV, targets_TB.view(-1))
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self._optimiser.step()
        return loss.item()
