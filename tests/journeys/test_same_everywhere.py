"""The same seed gives the same run and the same text, in one process and in another."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from elman.checkpoints.run_folder import RunFolder
from elman.decoding.filters import SamplingSettings
from elman.recipes.generating import Writer, WriteRequest
from elman.recipes.language_model import LanguageTask
from elman.recipes.learning import start_run, train_run
from elman.recipes.trained import TrainedModel
from elman.recipes.training_request import TrainRequest
from elman.training.events import UpdateEvent

Elman = Callable[..., "CompletedProcess[str]"]
SMALL = (
    *("model.hidden_size=12", "model.num_layers=1", "model.dropout=0.5"),
    *("training.updates=8", "training.batch_size=4", "training.threads=1"),
)
SEEDED = ("training.seed=7",)


def trained(story: Path, out: Path, *overrides: str) -> tuple[list[float], TrainedModel]:
    """The losses of a run in this process, and its model as it stands in memory after it."""
    request = TrainRequest(out, overrides=(f"data.train={story}", *SMALL, *SEEDED, *overrides))
    run = start_run(LanguageTask(), request)
    losses: list[float] = []
    train_run(
        run,
        on_event=lambda event: (
            losses.append(event.loss_nats) if isinstance(event, UpdateEvent) else None
        ),
    )
    trainer, tokenizer = run.trainer, run.prepared.tokenizer
    return losses, TrainedModel(out, run.settings, tokenizer, trainer.model, trainer.plan, "")


def test_a_run_twice_in_one_process_and_its_text_in_another(  # case B12
    elman: Elman, story: Path, tmp_path: Path
) -> None:
    first, model = trained(story, tmp_path / "first")
    second, _ = trained(story, tmp_path / "second")
    assert first == second
    for name in ("model.safetensors", "state.safetensors", "tokenizer.json"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    sampling = SamplingSettings(seed=3)
    writer = Writer(model, WriteRequest(prompt="the cat", max_tokens=60, sampling=sampling))
    writer.begin()
    text = "".join(writer.pieces())
    for hash_seed in ("1", "2"):
        done = elman(
            *("generate", tmp_path / "first", "--prompt", "the cat", "--max-tokens", "60"),
            *("--seed", "3", "--json"),
            PYTHONHASHSEED=hash_seed,
            ELMAN_KERNELS="reference",
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["text"] == text


def test_words_that_are_equally_frequent_stand_by_code_point(tmp_path: Path) -> None:  # case B12
    for number, text in enumerate(("b a c\n", "c b a\n", "a c b\n")):
        data = tmp_path / "text.txt"
        data.write_text(text, encoding="utf-8")
        run = tmp_path / f"run{number}"
        held_out = ("data.valid_fraction=0", "data.test_fraction=0")
        trained(data, run, "text.level=word", "text.unit=line", "training.updates=1", *held_out)
        assert (
            RunFolder.open(run).tokenizer_json == RunFolder.open(tmp_path / "run0").tokenizer_json
        )


def test_dropout_on_one_layer_brings_no_warning_and_is_recorded(  # case B05
    story: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    settings = [f"--set={one}" for one in (*SMALL, "training.updates=2")]
    done = subprocess.run(
        [
            *(sys.executable, "-W", "error", "-m", "elman", "train", "lm"),
            *("--data", str(story), "--out", str(run), *settings),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr.lower()
    model = json.loads((run / "manifest.json").read_text(encoding="utf-8"))["results"]["model"]
    assert model["dropout"] == "ordinary: 0.5 on layer 1"
    assert model["layers"].startswith("1 of 12 units")


@pytest.mark.parametrize(
    ("overrides", "output", "tied"),
    [
        (("model.hidden_size=48",), 48, "none"),
        (("model.hidden_size=48", "model.tie_weights=true"), 32, "through a projection"),
        (("model.hidden_size=32", "model.tie_weights=true"), 32, "readout uses the embedding"),
    ],
)
def test_tied_and_untied_sizes_train(  # case B06
    story: Path, tmp_path: Path, overrides: tuple[str, ...], output: int, tied: str
) -> None:
    sizes = ("model.embedding_size=32", "training.updates=2", *overrides)
    losses, found = trained(story, tmp_path / "run", *sizes)
    assert len(losses) == 2
    model = found.model
    entries = len(found.tokenizer.vocabulary)
    assert model.get_parameter("readout.weight").shape == (entries, output)
    assert tied in model.describe()["tied weights"]
    if tied != "none":
        assert model.get_parameter("readout.weight") is model.get_parameter("embedding.weight")
