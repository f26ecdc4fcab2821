"""Generation of one stream in plain torch: the loops that a person would write, for comparison."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.benchmark.rows import SEED
from elman.recipes.benchmark.torch_word_model import TorchState, TorchWordModel


class ModuleLoop:
    """`nn.LSTM` on one token at a time, its state carried."""

    def __init__(self, model: TorchWordModel) -> None:
        self._model = model.eval()
        self._state: TorchState | None = None

    def logits(self, ids_11: Tensor) -> Tensor:
        """Return the logits [1, V] of the token after `ids_11` [1, 1]."""
        x_11E = self._model.embedding(ids_11)
        states_11H, self._state = self._model.lstm(x_11E, self._state)
        output = self._model.output
        return linear(states_11H[0], output.weight, output.bias)

    def restart(self) -> None:
        """Forget all that was read."""
        self._state = None


class CellLoop:
    """One `nn.LSTMCell` a layer, which prepares no weights anew at every step."""

    def __init__(self, model: TorchWordModel) -> None:
        lstm = model.lstm
        self._model, self._cells = model.eval(), list[nn.LSTMCell]()
        self._state: list[tuple[Tensor, Tensor] | None] = [None] * lstm.num_layers
        with torch.no_grad():
            for layer in range(lstm.num_layers):
                width = lstm.input_size if layer == 0 else lstm.hidden_size
                cell = nn.LSTMCell(width, lstm.hidden_size)
                for name, weight in cell.named_parameters():
                    weight.copy_(getattr(lstm, f"{name}_l{layer}"))
                self._cells.append(cell)

    def logits(self, ids_11: Tensor) -> Tensor:
        """Return the logits [1, V] of the token after `ids_11` [1, 1]."""
        x_1E = self._model.embedding(ids_11[0])
        for layer, cell in enumerate(self._cells):
            h_1H, c_1H = cell(x_1E, self._state[layer])
            self._state[layer] = (h_1H, c_1H)
            x_1E = h_1H
        output = self._model.output
        return linear(x_1E, output.weight, output.bias)

    def restart(self) -> None:
        """Forget all that was read."""
        self._state = [None] * len(self._cells)


TorchLoop = ModuleLoop | CellLoop


def torch_tokens(loop: TorchLoop, num_tokens: int) -> Callable[[], object]:
    """Return a call that draws `num_tokens` more tokens and hands out each as a number."""
    drawn = torch.Generator().manual_seed(SEED)
    place = torch.zeros(1, 1, dtype=torch.int64)

    def generate() -> list[int]:
        nonlocal place
        tokens = []
        for _ in range(num_tokens):
            probs_1V = loop.logits(place).softmax(dim=1)
            place = torch.multinomial(probs_1V, 1, generator=drawn)
            tokens.append(int(place))
        return tokens

    return generate


def nats_below_best(loop: TorchLoop, first: int, tokens: Sequence[int]) -> float:
    """Return how far the greedy `tokens` after `first` are from torch's own choice, at most.

    Every token is given to the loop whatever it would have chosen; the distance is the logit of its
    choice less that of the token, in nats, and 0 where both choose alike.
    """
    loop.restart()
    largest, last = 0.0, first
    with torch.inference_mode():
        for token in tokens:
            logits_V = loop.logits(torch.tensor([[last]]))[0]
            largest = max(largest, float(logits_V.max() - logits_V[token]))
            last = token
    loop.restart()
    return largest


def torch_loops(model: RecurrentLanguageModel) -> tuple[ModuleLoop, CellLoop]:
    """Return both loops with the weights of `model`."""
    other = TorchWordModel(model, 0.0)
    return ModuleLoop(other), CellLoop(other)
