"""An output split into classes from training to scoring, generating, resuming and converting."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.config.text_settings import TextSettings
from elman.data.token_array import TokenArray, join_lines
from elman.errors import SettingError
from elman.recipes.class_splitting import cheapest_cutoffs, token_counts, with_cutoffs
from elman.recipes.prepared_text import Part, PreparedText
from elman.text.building import build_tokenizer

Elman = Callable[..., "CompletedProcess[str]"]
SPLIT = (
    "--set=model.softmax=adaptive",
    "--set=model.cutoffs=5,9",
    "--set=training.batch_size=4",
    "--set=training.window=16",
    "--set=model.hidden_size=16",
)


def trained(elman: Elman, story: Path, out: Path, level: str, *more: str) -> Path:
    done = elman("train", "lm", "--data", story, "--out", out, "--level", level, *SPLIT, *more)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module", params=["own matrices", "tied", "tied through a projection"])
def split_run(elman: Elman, story: Path, tmp_path_factory: pytest.TempPathFactory, request) -> Path:
    """A run on words, with the sizes that the text suggests."""
    run = tmp_path_factory.mktemp("split") / "run"
    more = {
        "own matrices": ("--set=model.tail_divisor=2",),
        "tied": ("--set=model.tie_weights=true", "--set=model.embedding_size=16"),
        "tied through a projection": ("--set=model.embedding_size=12",),
    }[request.param]
    return trained(elman, story, run, "word", "--set=training.updates=60", *more)


def test_it_learns_scores_and_writes(elman: Elman, split_run: Path, story: Path) -> None:
    manifest = json.loads((split_run / "manifest.json").read_text(encoding="utf-8"))
    model = manifest["results"]["model"]
    assert model["output"].startswith("split by frequency: 5 words, then")
    assert model["output"].endswith("tied") == (model["tied weights"] != "none")
    scored = elman("score", split_run, story, "--json")
    assert scored.returncode == 0, scored.stderr
    score = json.loads(scored.stdout)
    assert 1.0 < score["perplexity"] < 12.0  # 18 words, learnt by heart in part
    asked = ("--prompt", "the cat", "--max-tokens", "20", "--seed", "1", "--json")
    wrote, again = (elman("generate", split_run, *asked) for _ in range(2))
    assert wrote.returncode == 0, wrote.stderr
    assert wrote.stdout == again.stdout
    words = set(story.read_text(encoding="utf-8").split())
    assert set(json.loads(wrote.stdout)["text"].split()) <= words


@pytest.mark.parametrize("level", ["word", "bpe", "byte"])
def test_places_follow_the_counts_of_every_level_and_survive_the_run(
    elman: Elman, story: Path, tmp_path: Path, level: str
) -> None:
    from elman.recipes.trained import open_trained

    untied = "--set=model.tie_weights=false"
    run = trained(elman, story, tmp_path / "run", level, untied, "--set=training.updates=5")
    model = open_trained(run).model
    tokenizer = open_trained(run).tokenizer
    places_V = model.readout.state_dict()["place_of_id_V"].numpy()
    counts_V = np.bincount(
        tokenizer.encode(story.read_text(encoding="utf-8")), minlength=len(places_V)
    )
    assert sorted(places_V.tolist()) == list(range(len(places_V)))
    assert counts_V[places_V < 9].min() > 0
    # The training part is nine tenths of a text that repeats itself.
    by_place = counts_V[np.argsort(places_V)]
    assert (by_place[:-1] >= by_place[1:] - 12).all()


def test_an_interrupted_run_goes_on_with_its_places(
    elman: Elman, story: Path, tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import load_file

    from elman.recipes.language_model import LanguageTask
    from elman.recipes.learning import resume_run, start_run, train_run
    from elman.recipes.training_request import TrainRequest

    def start(name: str):
        given = [item.removeprefix("--set=") for item in SPLIT]
        return start_run(
            LanguageTask(),
            TrainRequest(
                tmp_path / name,
                overrides=(
                    f"data.train={story}",
                    *("text.level=bpe", "training.updates=12", "training.save_every=3", *given),
                ),
            ),
        )

    def finish(run, stop_at: int = 10**9) -> None:
        train_run(
            run,
            on_event=lambda event: None,
            should_stop=lambda: run.trainer.update >= stop_at,
            before_scoring=lambda: None,
            on_scored=lambda count: None,
        )

    finish(start("whole"))
    finish(start("cut"), stop_at=5)
    resumed = resume_run(LanguageTask(), tmp_path / "cut")
    assert not torch.equal(
        resumed.trainer.model.readout.state_dict()["place_of_id_V"],
        torch.arange(resumed.trainer.model.vocabulary_size),
    )
    finish(resumed)
    whole, cut = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert whole.keys() == cut.keys()
    assert all(torch.equal(tensor, cut[name]) for name, tensor in whole.items())


def test_onnx_takes_it_and_other_formats_say_what_to_do(
    elman: Elman, split_run: Path, story: Path, tmp_path: Path
) -> None:
    for target, ending in (("torch", ""), ("py", ".py")):
        done = elman("convert", split_run, tmp_path / f"model{ending}", "--to", target)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert 'convert to onnx, or train with model.softmax = "full"' in done.stderr
    if importlib.util.find_spec("onnx") is None or importlib.util.find_spec("onnxruntime") is None:
        pytest.skip("needs onnx and onnxruntime")
    there = elman("convert", split_run, tmp_path / "model.onnx", "--to", "onnx")
    assert there.returncode == 0, there.stderr
    assert "largest difference" in there.stdout
    out = tmp_path / "back"
    back = elman("convert", tmp_path / "model.onnx", "--from", "onnx", "--out", out)
    assert back.returncode == 0, back.stderr
    scores = [elman("score", run, story, "--json").stdout for run in (split_run, out)]
    left, right = (json.loads(score)["loss_nats"] for score in scores)
    assert left == pytest.approx(right, rel=1e-6)


def test_the_command_takes_a_size_and_records_what_it_was(
    elman: Elman, story: Path, tmp_path: Path
) -> None:
    more = ("--level", "word", "--set=training.updates=3", "--set=model.hidden_size=24")
    run = tmp_path / "run"
    done = elman("train", "lm", "--data", story, "--out", run, "--preset", "medium", *more)
    assert done.returncode == 0, done.stderr
    described = json.loads((run / "manifest.json").read_text(encoding="utf-8"))["results"]["model"]
    assert described["layers"] == "2 of 24 units, embeddings of 256"
    assert described["output"] == "one softmax over all tokens"  # 18 words need no classes
    refused = elman("train", "lm", "--out", run, "--resume", "--preset", "small")
    assert refused.returncode == 2


def prepared(ids: TokenArray, text: TextSettings, texts: list[str]) -> PreparedText:
    tokenizer = build_tokenizer(texts, text)
    return PreparedText(tokenizer, {"train": Part(ids, 0, 0, 0)}, (), ())


def test_counts_are_those_of_what_is_to_be_predicted() -> None:
    stream = TextSettings(level="char", unknown="refuse")
    text = prepared(TokenArray(np.array([0, 1, 1, 2], np.uint8)), stream, ["aabbbc"])
    assert token_counts(text).tolist() == [1, 2, 1]
    lines = TextSettings(level="char", unknown="refuse", unit="line")
    array = join_lines([[2, 3], [3], [3, 3, 4]], 5)
    by_line = prepared(array, lines, ["ab", "b", "bbc"])  # type: ignore[arg-type]
    assert token_counts(by_line).tolist() == [0, 3, 1, 4, 1]


def test_cutoffs_left_open_cover_four_fifths_of_a_text_and_are_cheapest_beyond() -> None:
    counts_V = (200_000 / np.arange(1, 5_001)).astype(np.int64)
    shuffled_V = np.random.default_rng(1).permutation(counts_V)
    model = ModelSettings(softmax="adaptive", hidden_size=100)
    first, second = cheapest_cutoffs(shuffled_V, model)
    covered = counts_V[:first].sum() / counts_V.sum()
    assert 0.8 <= covered < 0.81
    assert first < second < 5_000

    def cost(border: int) -> float:
        middle, last = counts_V[first:border].sum(), counts_V[border:].sum()
        return middle * 25 * (100 + border - first) + last * 6 * (100 + 5_000 - border)

    # The choice counts each word once more, which moves it a little.
    assert cost(second) <= 1.01 * min(cost(border) for border in range(first + 1, 5_000))


def test_cutoffs_of_tied_classes_are_cheapest_at_one_width() -> None:
    counts_V = (200_000 / np.arange(1, 5_001)).astype(np.int64)
    model = ModelSettings(softmax="adaptive", tie_weights=True)
    first, second = cheapest_cutoffs(counts_V, model)

    def cost(border: int) -> float:
        middle, last = counts_V[first:border].sum(), counts_V[border:].sum()
        return middle * (border - first) + last * (5_000 - border)

    assert cost(second) <= 1.01 * min(cost(border) for border in range(first + 1, 5_000))


def test_a_small_vocabulary_is_not_split_by_itself() -> None:
    text = TextSettings(level="char", unknown="refuse")
    settings = Settings(text=text, model=ModelSettings(softmax="adaptive"))
    small = prepared(TokenArray(np.array([0, 1, 1, 2], np.uint8)), text, ["aabbbc"])
    with pytest.raises(SettingError, match="is for large vocabularies; got 3 tokens"):
        with_cutoffs(settings, small)
    by_hand = Settings(text=text, model=ModelSettings(softmax="adaptive", cutoffs=(1,)))
    assert with_cutoffs(by_hand, small) is by_hand
