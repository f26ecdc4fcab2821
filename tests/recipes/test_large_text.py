"""A text prepared shard by shard has the same tokenizer and ids as one prepared at once."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elman.checkpoints import free_space
from elman.checkpoints.run_folder import CACHE, SHARDS, RunFolder
from elman.config.data_settings import DataSettings
from elman.config.settings import Settings
from elman.config.text_settings import TextSettings
from elman.data.splits import LineStarts
from elman.data.token_array import TokenArray, reversed_chunks
from elman.errors import DataError, RunError, UnknownSymbolError
from elman.recipes import preparing
from elman.recipes.prepared_text import PreparedText
from elman.recipes.preparing import prepare_text
from elman.recipes.sharding import large_text, team
from elman.recipes.sharding.large_text import LargeText
from elman.recipes.sharding.shard import MADE, make_shard
from elman.text.building import build_tokenizer, encode_chunks

WORDS = (
    "the",
    "cat",
    "sät",
    "o\u0308n",
    "mat.",
    "dog,",
    "ran",
    "日本",
    "🙂",
    "far\u00a0away",
    "'s",
)


def story(seed: int, lines: int = 300) -> str:
    draw = random.Random(seed)
    rows = [" ".join(draw.choices(WORDS, k=draw.randrange(9))) for _ in range(lines)]
    rows += [f"once{n}" for n in range(40)]
    draw.shuffle(rows)
    return "\n".join(rows) + draw.choice(("", "\n"))


def cut_by_chance(text: str, seed: int) -> Iterator[str]:
    draw = random.Random(seed)
    while text:
        size = draw.randrange(1, 400)
        yield text[:size]
        text = text[size:]


SETTINGS = [
    TextSettings(level="word"),
    TextSettings(level="word", normal_form="NFC", min_count=2, unknown="replace"),
    TextSettings(level="word", min_count=2, unknown="skip"),
    TextSettings(level="bpe", vocabulary_size=300),
    TextSettings(level="bpe", vocabulary_size=300, normal_form="NFKC"),
]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "settings", SETTINGS, ids=lambda s: f"{s.level}-{s.normal_form}-{s.unknown}"
)
def test_a_stream_in_shards_is_the_stream_at_once(
    settings: TextSettings, workers: int, tmp_path: Path
) -> None:
    text = story(seed := 11)
    print(f"seed {seed}")
    large = LargeText(tmp_path, settings, workers=workers, shard_characters=500)
    tokenizer = large.tokenizer(lambda: cut_by_chance(text, 1))
    whole = build_tokenizer([text], settings)
    assert tokenizer.to_json() == whole.to_json()
    for asked in (text, story(12) if settings.unknown != "refuse" else text):
        expected = np.concatenate(list(encode_chunks(whole, [asked])))
        ids = np.concatenate(list(large.ids(tokenizer, cut_by_chance(asked, 2))))
        assert ids.tolist() == expected.tolist()
    assert len(list(tmp_path.glob(f"*{MADE}"))) > 4


@pytest.mark.parametrize(
    "settings", SETTINGS, ids=lambda s: f"{s.level}-{s.normal_form}-{s.unknown}"
)
def test_lines_in_shards_are_the_lines_at_once(settings: TextSettings, tmp_path: Path) -> None:
    settings = replace(settings, unit="line")
    lines = [line for line in story(13).split("\n") if line.strip()]
    large = LargeText(tmp_path, settings, workers=2, shard_characters=500)
    tokenizer = large.tokenizer(lambda: lines)
    whole = build_tokenizer((f"{line}\n" for line in lines), settings)
    assert tokenizer.to_json() == whole.to_json()
    rows = [row.tolist() for row in large.ids(tokenizer, lines)]
    assert rows == [whole.encode(line).tolist() for line in lines]


def test_words_to_be_refused_are_told_as_encoding_tells_them(tmp_path: Path) -> None:
    settings = TextSettings(level="word", min_count=2, unknown="refuse")
    large = LargeText(tmp_path, settings, workers=1, shard_characters=500)
    tokenizer = large.tokenizer(lambda: [story(14)])
    with pytest.raises(UnknownSymbolError) as told:
        list(large.ids(tokenizer, [story(14)]))
    assert "once" in str(told.value)


def test_what_was_made_before_a_stop_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TextSettings(level="word")
    text = story(15)
    made: list[str] = []

    def counted(folder: Path, name: str, *given: Any) -> None:
        if len(made) == 7:
            raise KeyboardInterrupt
        made.append(name)
        make_shard(folder, name, *given)

    monkeypatch.setattr(team, "make_shard", counted)
    stopped = LargeText(tmp_path, settings, workers=1, shard_characters=500)
    with pytest.raises(KeyboardInterrupt):
        stopped.tokenizer(lambda: cut_by_chance(text, 5))
    first, made[:] = set(made), []
    assert len(first) == 7
    large = LargeText(tmp_path, settings, workers=1, shard_characters=500)
    monkeypatch.setattr(
        team, "make_shard", lambda *given: (made.append(given[1]), make_shard(*given))
    )
    tokenizer = large.tokenizer(lambda: cut_by_chance(text, 5))
    assert made
    assert not first & set(made)
    assert tokenizer.to_json() == build_tokenizer([text], settings).to_json()


def test_subwords_learnt_before_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, text = TextSettings(level="bpe", vocabulary_size=300), story(16)
    large = LargeText(tmp_path, settings, workers=1, shard_characters=500)
    first = large.tokenizer(lambda: [text])
    monkeypatch.setattr(large_text, "build_tokenizer", None)
    assert large.tokenizer(lambda: cut_by_chance(text, 3)).to_json() == first.to_json()
    with pytest.raises(TypeError):
        large.tokenizer(lambda: [text + "more"])


def test_an_altered_shard_is_told_with_what_to_delete(tmp_path: Path) -> None:
    large = LargeText(tmp_path, TextSettings(level="word"), workers=1, shard_characters=500)
    large.tokenizer(lambda: [story(17)])
    for path in tmp_path.glob(f"*{MADE}"):
        path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"was altered.*delete the folder"):
        large.tokenizer(lambda: [story(17)])


def test_a_worker_that_was_killed_is_told(tmp_path: Path) -> None:
    large = LargeText(tmp_path, TextSettings(level="word"), workers=2, shard_characters=500)

    def text() -> Iterator[str]:
        yield from cut_by_chance(story(18), 4)
        found = subprocess.run(
            ["pgrep", "-f", f"sharding.worker {tmp_path}"], capture_output=True, check=True
        )
        for process in found.stdout.split():
            os.kill(int(process), signal.SIGKILL)
        yield story(19)

    with pytest.raises(DataError, match=r"was ended; got status -9.*the same command goes on"):
        large.tokenizer(text)
    assert large.tokenizer(lambda: [story(18)]).to_json()


def prepared(folder: Path, text: Path, **changes: Any) -> PreparedText:
    folder.mkdir()
    settings = Settings(
        text=TextSettings(**changes), data=DataSettings(train=(str(text),), workers=1)
    )
    return prepare_text(settings, folder)


@pytest.mark.parametrize("unit", ["stream", "line"])
@pytest.mark.parametrize("level", ["word", "bpe", "char"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_large_text_is_prepared_as_a_small_one(
    unit: str, level: str, direction: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "story.txt"
    text.write_text(story(20), encoding="utf-8")
    given = {"unit": unit, "level": level, "direction": direction, "unknown": "replace"}
    small = prepared(tmp_path / "small", text, **given)
    monkeypatch.setattr(preparing, "LARGE_CHARACTERS", 1000)
    large = prepared(tmp_path / "large", text, **given)
    assert large.facts() == small.facts()
    assert large.tokenizer.to_json() == small.tokenizer.to_json()
    assert large.notices == small.notices
    left = {path.name for path in (tmp_path / "large").iterdir()}
    assert left == {path.name for path in (tmp_path / "small").iterdir()}


def test_ids_without_room_are_refused_before_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "story.txt"
    text.write_text(story(21), encoding="utf-8")
    monkeypatch.setattr(preparing, "LARGE_CHARACTERS", 1000)
    room = free_space.shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(free_space.shutil, "disk_usage", lambda folder: room)
    with pytest.raises(RunError, match=r"too little room .*got 0\.0 MB free; allowed: .* MB"):
        prepared(tmp_path / "run", text, level="word")


def test_a_start_that_was_stopped_keeps_shards_and_nothing_else(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run")
    shards = run.path / CACHE / SHARDS
    shards.mkdir(parents=True)
    (shards / f"a{MADE}").write_bytes(b"kept")
    (run.path / CACHE / "train.ids.npy").write_bytes(b"gone")
    run.discard()
    assert [path for path in run.path.rglob("*") if path.is_file()] == [shards / f"a{MADE}"]
    RunFolder.create(tmp_path / "run")
    assert (shards / f"a{MADE}").exists()


def test_of_many_line_starts_some_are_kept() -> None:
    starts = np.cumsum(np.random.default_rng(5).integers(1, 9, 10_000))
    exact, thin = LineStarts(), LineStarts(most=100)
    for start in range(0, 10_000, 37):
        exact.add(starts[start : start + 37])
        thin.add(starts[start : start + 37])
    assert exact.positions().tolist() == starts.tolist()
    assert 50 <= len(thin.positions()) <= 100
    every = np.diff(np.searchsorted(starts, thin.positions()))
    assert set(every.tolist()) == {128}
    assert thin.positions()[0] == starts[0]


def test_ids_are_turned_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elman.data.token_array.DIGEST_CHUNK", 7)
    ids = np.arange(23, dtype=np.int32)
    assert np.concatenate(list(reversed_chunks(TokenArray(ids)))).tolist() == ids[::-1].tolist()
    assert list(reversed_chunks(TokenArray(ids[:0]))) == []


KILLED = """
import atexit, os, signal, sys
from elman.apps.cli.entry import main
from elman.recipes import preparing
from elman.recipes.sharding import large_text, team
from elman.text.reading import TextSource
preparing.LARGE_CHARACTERS = 2000
TextSource.chunks.__defaults__ = (500,)
large_text.LargeText.__init__.__kwdefaults__["shard_characters"] = 2000
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
made, most = 0, int(sys.argv.pop(1))
plain = team.make_shard
def make(*given):
    global made
    made += 1
    if made > most:
        os.kill(os.getpid(), getattr(signal, os.environ["ENDS_WITH"]))
    plain(*given)
team.make_shard = make
atexit.register(lambda: print("shards made:", made, file=sys.stderr))
main()
"""


@pytest.mark.parametrize("ends_with", ["SIGKILL", "SIGINT"])
def test_the_same_command_goes_on_after_a_kill(ends_with: str, tmp_path: Path) -> None:
    text = tmp_path / "story.txt"
    text.write_text(story(22, 2000), encoding="utf-8")

    def train(most: int, out: str) -> "subprocess.CompletedProcess[str]":
        command = ["train", "lm", "--data", str(text), "--level", "word", "--out", out]
        small = ["--set=model.hidden_size=8", "--set=training.updates=2", "--seed=3"]
        return subprocess.run(
            [sys.executable, "-c", KILLED, str(most), *command, *small, "--set=data.workers=1"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "ENDS_WITH": ends_with, "COLUMNS": "200"},
            check=False,
        )

    stopped = train(5, "run")
    if ends_with == "SIGINT":
        assert stopped.returncode == 130, stopped.stderr
        assert "the same command goes on from there" in stopped.stderr
    else:
        assert stopped.returncode == -signal.SIGKILL
    ended = train(10**6, "run")
    assert ended.returncode == 0, ended.stderr
    whole = train(10**6, "whole")
    made = [int(done.stderr.split("shards made:")[-1]) for done in (ended, whole)]
    assert made[0] == made[1] - 5 or (ends_with == "SIGINT" and made[0] < made[1] - 5)
    one, other = (
        json.loads((tmp_path / n / "manifest.json").read_text()) for n in ("run", "whole")
    )
    assert one["data"] == other["data"]
    assert not (tmp_path / "run" / CACHE).exists()
