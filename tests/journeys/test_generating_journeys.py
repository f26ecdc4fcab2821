import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Elman = Callable[..., "CompletedProcess[str]"]


def write(elman: Elman, run: Path, *options: str | Path) -> str:
    done = elman("generate", run, *options)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_the_same_seed_writes_the_same_text_in_every_process(
    elman: Elman, stream_run: Path
) -> None:
    one = write(elman, stream_run, "--prompt", "the ", "--seed", "5")
    assert one == write(elman, stream_run, "--prompt", "the ", "--seed", "5")
    assert one != write(elman, stream_run, "--prompt", "the ", "--seed", "6")


def test_a_saved_state_goes_on_as_if_it_had_never_stopped(
    elman: Elman, stream_run: Path, tmp_path: Path
) -> None:
    whole = write(elman, stream_run, "--prompt", "the c", "--seed", "9", "--max-tokens", "60")
    state = tmp_path / "state"
    cut = ""
    for number, length in enumerate((7, 33, 20)):
        first = ("--prompt", "the c", "--seed", "9") if number == 0 else ()
        piece = write(elman, stream_run, *first, "--max-tokens", str(length), "--state", state)
        cut += piece.removesuffix("\n")
    assert cut == whole.removesuffix("\n")


def test_a_state_of_other_weights_is_refused(
    elman: Elman, stream_run: Path, line_run: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    write(elman, stream_run, "--max-tokens", "5", "--state", state)
    done = elman("generate", line_run, "--state", state)
    assert done.returncode == 2
    assert "other weights" in done.stderr


@pytest.mark.parametrize("options", [(), ("--prompt", "")])
def test_no_prompt_and_an_empty_one_both_work(  # case D04
    elman: Elman, stream_run: Path, line_run: Path, options: tuple[str, ...]
) -> None:
    for run in (stream_run, line_run):
        assert write(elman, run, *options, "--seed", "1", "--max-tokens", "20").strip()


def test_symbols_of_a_prompt_that_were_never_seen_are_named_by_code_point(  # case D04
    elman: Elman, tmp_path: Path
) -> None:
    text = tmp_path / "abc.txt"
    text.write_text("abc" * 300, encoding="utf-8")
    run = tmp_path / "run"
    small = ("--set=model.hidden_size=8", "--set=training.updates=20")
    assert elman("train", "lm", "--data", text, "--out", run, *small).returncode == 0
    done = elman("generate", run, "--prompt", "azé")
    assert done.returncode == 2
    assert "z (U+007A)" in done.stderr
    assert "é (U+00E9)" in done.stderr
    for policy in ("skip", "replace"):
        out = write(elman, run, "--prompt", "azé", "--unknown", policy, "--max-tokens", "50")
        assert set(out) <= set("abc\n")
    for options in ((), ("--prompt", ""), ("--prompt", "ab")):
        assert set(write(elman, run, *options)) <= set("abc\n")


@pytest.mark.parametrize("temperature", ["0", "1e-6", "1e-40"])
def test_cold_and_almost_cold_are_greedy(  # case D01
    elman: Elman, stream_run: Path, temperature: str
) -> None:
    greedy = write(elman, stream_run, "--prompt", "the ", "--temperature", "0", "--seed", "1")
    cold = write(elman, stream_run, "--prompt", "the ", "--temperature", temperature, "--seed", "2")
    assert cold == greedy


@pytest.mark.parametrize(
    "options",
    [
        ("--temperature", "-1"),
        ("--temperature", "nan"),
        ("--top-k", "-1"),
        ("--top-k", "2.5"),
        ("--top-p", "0"),
        ("--min-p", "2"),
        ("--max-tokens", "-3"),
        ("--num-samples", "0"),
        ("--seed", "-1"),
        ("--stop", ""),
        ("--no-such-option", "1"),
    ],
)
def test_an_option_that_cannot_be_used_is_one_line_and_status_two(  # cases D01, D02
    elman: Elman, stream_run: Path, options: tuple[str, ...]
) -> None:
    done = elman("generate", stream_run, *options)
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert done.stderr.startswith("elman: ")
    assert done.stderr.count("\n") == 1


def test_a_top_k_above_the_vocabulary_filters_nothing(  # case D02
    elman: Elman, stream_run: Path
) -> None:
    plain = write(elman, stream_run, "--seed", "3")
    assert write(elman, stream_run, "--seed", "3", "--top-k", "5000") == plain
    assert write(elman, stream_run, "--seed", "3", "--top-k", "1") == write(
        elman, stream_run, "--temperature", "0", "--seed", "8"
    )


def test_samples_differ_and_json_holds_them(elman: Elman, line_run: Path) -> None:
    done = elman("generate", line_run, "--num-samples", "3", "--seed", "4", "--json")
    samples = json.loads(done.stdout)["samples"]
    assert len({sample["text"] for sample in samples}) > 1
    assert all("\n" not in sample["text"] for sample in samples)
    alone = json.loads(elman("generate", line_run, "--seed", "5", "--json").stdout)
    assert alone["text"] == samples[1]["text"]


def test_a_stop_text_ends_the_text_and_is_not_shown(elman: Elman, stream_run: Path) -> None:
    plain = write(elman, stream_run, "--seed", "2", "--max-tokens", "300")
    stopped = write(elman, stream_run, "--seed", "2", "--max-tokens", "300", "--stop", " t")
    assert stopped == plain[: plain.index(" t")] + "\n"


def test_a_lone_dash_is_standard_input_for_every_verb(
    elman: Elman, stream_run: Path, story: Path, tmp_path: Path
) -> None:
    text = story.read_text(encoding="utf-8")
    prompted = elman("generate", stream_run, "--prompt", "-", "--seed", "3", stdin="the ")
    assert prompted.stdout == write(elman, stream_run, "--prompt", "the ", "--seed", "3")
    run = tmp_path / "run"
    small = ("--set=model.hidden_size=8", "--set=training.updates=5")
    done = elman("train", "lm", "--data", "-", "--out", run, *small, stdin=text)
    assert done.returncode == 0, done.stderr
    assert elman("score", run, "-", "--json", stdin=text).returncode == 0


def test_a_prompt_on_standard_input_is_read_as_a_file_is(
    elman: Elman, stream_run: Path, line_run: Path
) -> None:
    options = ("--prompt", "-", "--seed", "3", "--max-tokens", "30")
    plain = write(elman, stream_run, "--prompt", "cat\nthe ", *options[2:])
    assert elman("generate", stream_run, *options, stdin="\ufeffcat\r\nthe ").stdout == plain
    line = write(elman, line_run, "--prompt", "the ", *options[2:])
    assert elman("generate", line_run, *options, stdin="the \n").stdout == line
    done = elman("generate", stream_run, *options, stdin="")
    assert (done.returncode, done.stderr) == (
        2,
        "elman: standard input is empty; got 0 characters; name a file with text\n",
    )


@pytest.mark.skipif(os.name == "nt", reason="arguments are bytes on POSIX alone")
@pytest.mark.parametrize("option", ["--prompt", "--stop"])
def test_bytes_of_a_prompt_that_are_no_text_are_named(
    elman: Elman, stream_run: Path, option: str
) -> None:
    done = elman("generate", stream_run, option, os.fsdecode(b"the \xff"), PYTHONUTF8="1")
    assert done.returncode == 2
    assert "must be valid UTF-8; got the byte FF after 4 characters" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_pieces_of_bytes_join_to_whole_characters(
    elman: Elman, story: Path, tmp_path: Path
) -> None:
    text, run, state = tmp_path / "text", tmp_path / "run", tmp_path / "state"
    text.write_text("".join(f"ночь {n} день\n" for n in range(200)), encoding="utf-8")
    small = ("--set=model.hidden_size=16", "--set=training.updates=30", "--level", "byte")
    done = elman("train", "lm", "--data", text, "--out", run, *small)
    assert done.returncode == 0, done.stderr
    whole = write(elman, run, "--prompt", "ночь ", "--seed", "4", "--max-tokens", "30")
    pieces = ""
    for number, length in enumerate((1, 2, 4, 23)):
        first = ("--prompt", "ночь ", "--seed", "4") if number == 0 else ()
        piece = write(elman, run, *first, "--max-tokens", str(length), "--state", state)
        pieces += piece.removesuffix("\n")
    assert whole.startswith(pieces)  # the last character may wait for its last byte


def test_a_state_that_could_not_be_written_is_told_before_anything_is_written(
    elman: Elman, stream_run: Path, tmp_path: Path
) -> None:
    for state in (tmp_path, tmp_path / "nowhere" / "state"):
        done = elman("generate", stream_run, "--state", state)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1


def test_a_prompt_may_begin_with_a_hyphen(elman: Elman, stream_run: Path) -> None:
    done = elman("generate", stream_run, "--prompt", "-x", "--unknown", "skip", "--seed", "1")
    assert done.returncode == 0, done.stderr


def test_the_loop_that_ran_is_named_and_both_write_the_same(elman: Elman, stream_run: Path) -> None:
    options = ("--prompt", "the ", "--seed", "8", "--max-tokens", "80", "--json")
    done = elman("generate", stream_run, *options)
    readable = elman("generate", stream_run, *options, ELMAN_KERNELS="reference")
    fast, slow = json.loads(done.stdout), json.loads(readable.stdout)
    assert slow.pop("kernel") == "reference: the choice of kernels is reference"
    kernel = fast.pop("kernel")
    assert kernel.startswith("native: ") or "not built" in kernel
    assert fast == slow


def test_smaller_weights_tell_what_they_cost(
    elman: Elman, stream_run: Path, story: Path, tmp_path: Path
) -> None:
    done = elman("generate", stream_run, "--precision", "int8", "--max-tokens", "9", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["num_tokens"] == 9
    assert "int8 weights" in json.loads(done.stdout)["kernel"]
    told = re.search(r"note: int8 weights take ([+-]\d\.\d{5}) bits per character", done.stderr)
    assert told, done.stderr
    assert 0 < abs(float(told[1])) < 0.1
    scored = elman("score", stream_run, story, "--precision", "int8", "--json")
    figures = json.loads(scored.stdout)
    exact = json.loads(elman("score", stream_run, story, "--json").stdout)
    over = figures["bits_per_character"] - exact["bits_per_character"]
    assert figures["bits_per_character_over_float32"] == pytest.approx(over, abs=1e-9)
    assert figures["precision"] == "int8"
    plain = elman("generate", stream_run, "--max-tokens", "9", "--precision", "float32")
    assert plain.stderr == ""
    refused = elman("generate", stream_run, "--precision", "int4")
    assert refused.returncode == 2


def test_samples_written_together_end_each_at_their_own_stop(
    elman: Elman, stream_run: Path
) -> None:
    options = ("--max-tokens", "60", "--stop", "e", "--json")
    together = elman("generate", stream_run, "--num-samples", "4", "--seed", "1", *options)
    samples = json.loads(together.stdout)["samples"]
    for number, sample in enumerate(samples):
        alone = elman("generate", stream_run, "--seed", str(1 + number), *options)
        assert json.loads(alone.stdout) == sample
    assert len({sample["num_tokens"] for sample in samples}) > 1
