"""A recurrent language model in plain PyTorch: this file, torch, and the three files beside it.

    python model.py                     what comes after token 0
    python model.py t h e               what comes after these tokens, spelt as in tokenizer.json
    python model.py --ids 4 8 15        what comes after these ids

From Python:

    model = load(".")
    logits_BTV, state = model(ids_BT)            # from the empty state
    logits_BTV, state = model(more_BT, state)    # goes on where the first call stopped

Axes: B batch, T time, V vocabulary, L layers, H units; batch comes first. Names of weights are
those of the word language model among PyTorch's examples. Nothing here executes what it reads.
"""

import argparse
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

State = Any
"""What `nn.RNNBase` takes and gives: h [L, B, H], or for an LSTM the pair (h, c)."""

_TYPES = MappingProxyType(
    {
        "F64": torch.float64,
        "F32": torch.float32,
        "F16": torch.float16,
        "BF16": torch.bfloat16,
    }
)


class PlainLanguageModel(nn.Module):
    """(ids, state) → (logits, state): embedding, recurrence, linear layer.

        x_t = encoder(ids_t);  h_t, state = rnn(x_t, state);  logits_t = decoder(h_t)

    `kind` is RNN_TANH, RNN_RELU, GRU or LSTM; `projection_size` 0 means none; `tied`: decoder and
    encoder are one matrix.
    """

    def __init__(
        self,
        *,
        kind: str,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        projection_size: int,
        num_layers: int,
        bias: bool,
        tied: bool,
    ) -> None:
        super().__init__()
        written = projection_size or hidden_size
        shape: dict[str, Any] = {"num_layers": num_layers, "bias": bias, "batch_first": True}
        self.encoder = nn.Embedding(vocabulary_size, embedding_size)
        self.rnn: nn.RNNBase
        if kind == "LSTM":
            self.rnn = nn.LSTM(embedding_size, hidden_size, proj_size=projection_size, **shape)
        elif kind == "GRU":
            self.rnn = nn.GRU(embedding_size, hidden_size, **shape)
        else:
            function = kind.removeprefix("RNN_").lower()
            self.rnn = nn.RNN(embedding_size, hidden_size, nonlinearity=function, **shape)
        self.decoder = nn.Linear(written, vocabulary_size)
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, ids_BT: Tensor, state: State = None) -> tuple[Tensor, State]:
        """Return the logits [B, T, V] of each next token, and the state after the last one."""
        states_BTH, state = self.rnn(self.encoder(ids_BT), state)
        return self.decoder(states_BTH), state


def load(folder: str | Path) -> PlainLanguageModel:
    """Return the model that `settings.json` and `weights.safetensors` in `folder` describe."""
    settings = json.loads((Path(folder) / "settings.json").read_text(encoding="utf-8"))
    model = PlainLanguageModel(**settings["model"])
    model.load_state_dict(_read_tensors(Path(folder) / "weights.safetensors"))
    return model.eval()


def _read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file: length, header of JSON, then the bytes."""
    content = bytearray(path.read_bytes())
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length].decode("utf-8"))
    aliases = header.pop("__metadata__", {})
    body = content[8 + length :]
    tensors = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        flat = torch.frombuffer(body[first:last], dtype=_TYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    for name, stored in aliases.items():  # a matrix with two names is stored under one
        tensors[name] = tensors[stored]
    return tensors


def _symbols(folder: Path) -> dict[str, int]:
    """Return the id of every symbol of the vocabulary."""
    table = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    ids: dict[str, int] = table["model"]["vocab"]
    return ids


def _ids(tokens: list[str], symbols: Mapping[str, int], as_ids: bool) -> list[int]:
    if not tokens:
        return [0]
    if as_ids:
        ids = [int(token) if token.isdecimal() else -1 for token in tokens]
    else:
        ids = [symbols.get(token, -1) for token in tokens]
    for token, number in zip(tokens, ids, strict=True):
        if not 0 <= number < len(symbols):
            raise SystemExit(f"{token!r} is no {'id' if as_ids else 'token'} of the vocabulary")
    return ids


def _main() -> None:
    words = argparse.ArgumentParser(description="Print the probabilities of the next token.")
    words.add_argument("tokens", nargs="*", help="tokens read before; none: token 0")
    words.add_argument("--ids", action="store_true", help="the tokens are given by their ids")
    words.add_argument("--top", type=int, default=10, help="how many to print")
    chosen = words.parse_args()
    folder = Path(__file__).resolve().parent
    symbols = _symbols(folder)
    spelt = {number: symbol for symbol, number in symbols.items()}
    model = load(folder)
    with torch.no_grad():
        logits_BTV, _ = model(torch.tensor([_ids(chosen.tokens, symbols, chosen.ids)]))
    probs_V = torch.softmax(logits_BTV[0, -1].double(), dim=0)
    best = torch.topk(probs_V, min(max(chosen.top, 1), len(probs_V)))
    for probability, number in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        print(f"{probability:.6f}  {number:>6}  {spelt[number]!a}")


if __name__ == "__main__":
    _main()
