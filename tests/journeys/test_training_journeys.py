import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Elman = Callable[..., "CompletedProcess[str]"]
SMALL = (
    "--set=model.hidden_size=16",
    "--set=model.embedding_size=8",
    "--set=model.dropout=0.2",
    "--set=training.batch_size=4",
    "--set=training.window=16",
)
RUN_FILES = {
    "config.toml",
    "manifest.json",
    "metrics.jsonl",
    "model.safetensors",
    "state.json",
    "state.safetensors",
    "tokenizer.json",
}


def digests(run: Path, *names: str) -> dict[str, str]:
    return {name: hashlib.sha256((run / name).read_bytes()).hexdigest() for name in names}


def one_line_refusal(done: "CompletedProcess[str]") -> str:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("elman: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_run_holds_its_files_and_its_manifest_tells_what_it_was_made_of(
    stream_run: Path, story: Path
) -> None:
    assert {path.name for path in stream_run.iterdir()} == RUN_FILES
    manifest = json.loads((stream_run / "manifest.json").read_text(encoding="utf-8"))
    config = tomllib.loads((stream_run / "config.toml").read_text(encoding="utf-8"))
    tokenizer = hashlib.sha256((stream_run / "tokenizer.json").read_bytes()).hexdigest()
    assert manifest["vocabulary"]["sha256"] == tokenizer
    (report,) = manifest["data"]["files"]
    assert report["sha256"] == hashlib.sha256(story.read_bytes()).hexdigest()
    parts = manifest["data"]["parts"]
    assert sum(part["characters"] for part in parts.values()) == len(story.read_text())
    assert set(manifest["results"]["scores"]) == {"valid", "test"}
    assert manifest["kernels"]["lstm"]
    assert config["training"]["updates"] == 60
    assert config["model"]["hidden_size"] == 16


def test_metrics_hold_every_update_with_its_rate_and_gradient_norm(stream_run: Path) -> None:
    rows = [json.loads(row) for row in (stream_run / "metrics.jsonl").read_text().splitlines()]
    updates = [row for row in rows if row["event"] == "update"]
    assert [row["update"] for row in updates] == list(range(1, 61))
    assert all(row["rate"] > 0 and row["gradient_norm"] > 0 for row in updates)
    assert sum(row["event"] == "validation" for row in rows) >= 10


def test_training_learns(stream_run: Path) -> None:
    manifest = json.loads((stream_run / "manifest.json").read_text(encoding="utf-8"))
    figures = manifest["results"]["scores"]["test"]
    symbols = manifest["sizes"]["vocabulary"]
    assert figures["nats_per_token"] < 0.8 * __import__("math").log(symbols)


def test_the_same_seed_makes_the_same_files_whatever_the_hash_seed(  # case B12
    elman: Elman, story: Path, tmp_path: Path
) -> None:
    made = []
    for hash_seed in ("1", "2"):
        run = tmp_path / hash_seed
        done = elman(
            *("train", "lm", "--data", story, "--out", run, *SMALL, "--set=training.updates=12"),
            PYTHONHASHSEED=hash_seed,
        )
        assert done.returncode == 0, done.stderr
        made.append(
            digests(run, "tokenizer.json", "model.safetensors", "state.safetensors", "config.toml")
        )
    assert made[0] == made[1]


def interrupt_after(run: Path, update: int, process: "subprocess.Popen[str]", number: int) -> None:
    """Send the signal once the metrics tell of `update`."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        metrics = run / "metrics.jsonl"
        if metrics.exists() and metrics.read_text().count('"event": "update"') >= update:
            break
        time.sleep(0.02)
    process.send_signal(number)


def begin(arguments: list[str], cwd: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "elman", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("unit", ["stream", "line"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_goes_on_to_the_same_bits(  # cases B08 and B09
    elman: Elman, story: Path, tmp_path: Path, unit: str, number: signal.Signals
) -> None:
    options = [
        *("--unit", unit, *SMALL, "--set=training.updates=250"),
        "--set=training.average_decay=0.9",
        "--set=training.save_every=7",
    ]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    done = elman("train", "lm", "--data", story, "--out", whole, *options)
    assert done.returncode == 0, done.stderr
    # A relative path: a run goes on from any folder.
    process = begin(
        ["train", "lm", "--data", story.name, "--out", str(cut), *options], cwd=story.parent
    )
    interrupt_after(cut, 20, process, number)
    _, errors = process.communicate(timeout=120)
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130, errors
        assert "--resume" in errors
    done = elman("train", "lm", "--out", cut, "--resume")
    assert done.returncode == 0, done.stderr
    names = ("model.safetensors", "state.safetensors", "tokenizer.json")
    assert digests(cut, *names) == digests(whole, *names)
    losses = []
    for run in (whole, cut):
        rows = [json.loads(row) for row in (run / "metrics.jsonl").read_text().splitlines()]
        losses.append([row["loss_nats"] for row in rows if row["event"] != "saved"])
    assert losses[0] == losses[1]


def test_a_run_is_never_overwritten_and_a_finished_one_is_only_told_again(
    elman: Elman, stream_run: Path, story: Path
) -> None:
    before = digests(stream_run, "model.safetensors", "config.toml", "manifest.json")
    message = one_line_refusal(elman("train", "lm", "--data", story, "--out", stream_run))
    assert "never overwritten" in message
    again = elman("train", "lm", "--out", stream_run, "--resume")
    assert again.returncode == 0, again.stderr
    assert "this run is finished: there is nothing left to do" in again.stderr
    assert digests(stream_run, "model.safetensors", "config.toml", "manifest.json") == before


def test_a_start_that_was_killed_before_its_first_state_can_be_made_anew(
    elman: Elman, stream_run: Path, story: Path, tmp_path: Path
) -> None:
    killed = tmp_path / "run"
    (killed / "cache").mkdir(parents=True)
    for name in ("config.toml", "tokenizer.json", "manifest.json"):
        shutil.copy(stream_run / name, killed / name)
    command = ("train", "lm", "--data", story, "--out", killed, *SMALL, "--set=training.updates=5")
    done = elman(*command)
    assert done.returncode == 0, done.stderr
    kept = tmp_path / "kept"  # without a cache it was no start: a copy of someone's settings
    kept.mkdir()
    shutil.copy(stream_run / "config.toml", kept / "config.toml")
    refused = one_line_refusal(elman(*command[:5], kept, *command[6:]))
    assert "never overwritten" in refused


def test_text_from_standard_input_and_from_a_pipe_is_kept_for_resuming(
    elman: Elman, story: Path, tmp_path: Path
) -> None:
    text = story.read_text(encoding="utf-8")
    run, pipe = tmp_path / "run", tmp_path / "pipe"
    done = elman("train", "lm", "--data", "-", "--valid", "-", "--out", run, stdin=text)
    assert "standard input can be read only once" in one_line_refusal(done)
    done = elman(
        *("train", "lm", "--data", "-", "--out", run, *SMALL, "--set=training.updates=5"),
        stdin=text,
    )
    assert done.returncode == 0, done.stderr
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["data"]["files"][0]["name"] == "standard input"
    os.mkfifo(pipe)
    with subprocess.Popen(["cp", story, pipe]):
        done = elman(
            *("train", "lm", "--data", pipe, "--out", tmp_path / "piped", *SMALL),
            "--set=training.updates=5",
        )
    assert done.returncode == 0, done.stderr
    assert digests(run, "model.safetensors") == digests(tmp_path / "piped", "model.safetensors")


def test_one_very_long_line_is_refused_before_training(elman: Elman, tmp_path: Path) -> None:
    text = tmp_path / "long.txt"
    text.write_text("short\n" * 200 + "x" * 300_000 + "\n", encoding="utf-8")
    message = one_line_refusal(
        elman(
            *("train", "lm", "--data", text, "--unit", "line", "--out", tmp_path / "run"),
            *("--set=data.valid_fraction=0", "--set=data.test_fraction=0"),
            "--set=model.hidden_size=512",
        )
    )
    assert "got 300,000 tokens" in message
    assert "--unit stream" in message


@pytest.mark.parametrize(("key", "value"), [("unit", "stream"), ("level", "byte")])
def test_settings_that_are_not_those_of_the_vocabulary_are_refused(
    elman: Elman, line_run: Path, story: Path, tmp_path: Path, key: str, value: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(line_run, run)
    config = (run / "config.toml").read_text(encoding="utf-8")
    before = tomllib.loads(config)["text"][key]
    changed = config.replace(f'{key} = "{before}"', f'{key} = "{value}"')
    assert changed != config
    (run / "config.toml").write_text(changed, encoding="utf-8")
    message = one_line_refusal(elman("score", run, story))
    assert f'got text.{key} = "{value}", and the vocabulary was made with "{before}"' in message


def test_files_of_a_folder_tiny_texts_and_bad_manifests_are_told(
    elman: Elman, tmp_path: Path
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.txt").write_text("the cat sat\n" * 20, encoding="utf-8")
    run = tmp_path / "run"
    done = elman("train", "lm", "--data", folder, "--out", run, *SMALL, "--set=training.updates=2")
    assert f"{folder / '3.txt'} and 2 more" in done.stderr
    assert "tokens to learn from" in done.stderr
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    manifest["data"], manifest["results"] = {"part": {}}, {}
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert "does not tell what its text was" in one_line_refusal(
        elman("train", "lm", "--out", run, "--resume")
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--set=model.hidden_size=0"], "model.hidden_size"),
        (["--set=model.hiden_size=8"], "model.hidden_size"),
        (["--set=training.learning_rate=nan"], "training.learning_rate"),
        (["--set=model.kind=gru2"], "gru"),
        (["--budget", "soon"], "--budget"),
        (["--budget", "1s", "--set=training.updates=5"], "budget"),
        (["--set=training.updates=5", "--set=training.epochs=5"], "training.epochs"),
        (["--level", "syllable"], "syllable"),
        (["--encoding", "utf-99"], "utf-99"),
        (["--config", "missing.toml"], "missing.toml"),
        (["--resume"], "--resume"),
    ],
)
def test_settings_that_cannot_be_are_told_before_a_folder_is_made(
    elman: Elman, story: Path, tmp_path: Path, options: list[str], told: str
) -> None:
    run = tmp_path / "run"
    message = one_line_refusal(elman("train", "lm", "--data", story, "--out", run, *options))
    assert told in message
    assert not run.exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"a", "2"),
        (b"caf\xe9 au lait\n" * 9, "byte"),
        ("hi\nyo\n".encode("utf-16"), "UTF-16"),
        ("hi\nyo\n".encode("utf-16-le") * 50, "UTF-16"),
        (b"\x1f\x8b\x08\x00broken", "gzip"),
    ],
)
def test_a_file_that_cannot_be_learnt_from_is_told_and_leaves_no_folder(
    elman: Elman, tmp_path: Path, content: bytes, told: str
) -> None:
    text, run = tmp_path / "text", tmp_path / "run"
    text.write_bytes(content)
    message = one_line_refusal(elman("train", "lm", "--data", text, "--out", run, *SMALL))
    assert told in message
    assert not run.exists()


@pytest.mark.parametrize("fraction", ["0", "0.1"])
def test_a_text_shorter_than_a_batch_trains_with_a_notice(  # case A07
    elman: Elman, tmp_path: Path, fraction: str
) -> None:
    text, run = tmp_path / "text", tmp_path / "run"
    text.write_text("to be or not to be, that is it", encoding="utf-8")  # 30 characters
    done = elman(
        *("train", "lm", "--data", text, "--out", run, "--json", "--set=model.hidden_size=8"),
        *("--set=training.batch_size=50", "--set=training.window=50", "--set=training.updates=3"),
        *(f"--set=data.valid_fraction={fraction}", "--set=data.test_fraction=0"),
    )
    assert done.returncode == 0, done.stderr
    assert "fewer than batch_size" in done.stderr
    scores = json.loads(done.stdout)["scores"]
    assert set(scores) == (set() if fraction == "0" else {"valid"})
    assert all(score["loss_nats"] > 0 for score in scores.values())


def test_a_gru_an_elman_and_words_and_bytes_train_as_well(
    elman: Elman, story: Path, tmp_path: Path
) -> None:
    for number, options in enumerate(
        (
            ("--set=model.kind=gru", "--set=model.reset=before", "--level=byte"),
            ("--set=model.kind=elman", "--set=model.activation=relu", "--level=word"),
            ("--set=model.kind=gru", "--set=model.update=replace", "--level=bpe", "--unit=line"),
            ("--level=word", "--unit=line", "--set=model.tie_weights=true"),
        )
    ):
        run = tmp_path / str(number)
        done = elman(
            *("train", "lm", "--data", story, "--out", run, *SMALL, *options),
            *("--set=training.updates=4", "--set=text.vocabulary_size=300")
            if "bpe" in options[-2]
            else ("--set=training.updates=4",),
        )
        assert done.returncode == 0, done.stderr
        written = elman("generate", run, "--prompt", "the cat", "--seed", "1", "--max-tokens", "9")
        assert written.returncode == 0, written.stderr
        scored = elman("score", run, story, "--json")
        assert json.loads(scored.stdout)["coverage"] == 1.0
