"""A small model and a small run, made of torch alone."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from elman.checkpoints.manifest import Manifest
from elman.checkpoints.run_folder import TOKENIZER, RunFolder
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings

VOCABULARY_SIZE = 11


class SmallModel(nn.Module):
    """embedding → LSTM → readout, tied or not; every weight drawn from `seed`."""

    def __init__(
        self, *, tied: bool = False, seed: int = 0, entries: int = VOCABULARY_SIZE, width: int = 5
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(entries, width)
        self.recurrence = nn.LSTM(width, width, batch_first=True)
        self.readout = nn.Linear(width, entries)
        if tied:
            self.readout.weight = self.embedding.weight
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.normal_(generator=generator)

    def forward(self, ids_BT: Tensor) -> Tensor:
        states_BTH, _ = self.recurrence(self.embedding(ids_BT))
        logits_BTV: Tensor = self.readout(states_BTH)
        return logits_BTV

    def bits(self) -> list[bytes]:
        """The exact bytes of every weight, to compare what is loaded with what was saved."""
        return [tensor.numpy().tobytes() for tensor in self.state_dict().values()]


def tokenizer_of(symbols: str) -> str:
    vocabulary = {symbol: index for index, symbol in enumerate(symbols)}
    return json.dumps({"added_tokens": [], "model": {"type": "WordLevel", "vocab": vocabulary}})


TOKENIZER_JSON = tokenizer_of("abcdefghijk")
SETTINGS = replace(Settings(), model=ModelSettings(embedding_size=5, hidden_size=5))


@pytest.fixture
def small_model() -> Callable[..., SmallModel]:
    return SmallModel


@pytest.fixture
def tokenizer_json_of() -> Callable[[str], str]:
    return tokenizer_of


@pytest.fixture
def make_run() -> Callable[..., RunFolder]:
    """Makes a whole run: weights of seed 1 kept after update 7, state after update 9."""

    def make(
        path: Path,
        *,
        tokenizer_json: str = TOKENIZER_JSON,
        settings: Settings = SETTINGS,
        tied: bool = False,
    ) -> RunFolder:
        run = RunFolder.create(path)
        run.begin(settings, {TOKENIZER: tokenizer_json})
        run.write_manifest(Manifest(sizes={"vocabulary": VOCABULARY_SIZE}))
        for update in range(1, 11):
            run.append_metrics({"update": update, "loss_nats": update / 7})
        run.save_weights(SmallModel(seed=1, tied=tied), update=7)
        run.save_state({"weight": torch.arange(6.0)}, {"update": 9, "epoch": 2})
        return run

    return make
