"""Inputs that were faults once, found by fuzzing: each is now told in one line, or used."""

import contextlib
import json
import math
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hostile_runs import fresh_copy
from safetensors.torch import save
from small_runs import SmallRun, make_run, use

from elman.checkpoints.foreign.arpa_file import parse_arpa
from elman.checkpoints.run_folder import CONFIG, RUN_FILES, STATE, TOKENIZER, WEIGHTS
from elman.checkpoints.tensor_file import HEADER_KEY, read_tensor_file, write_tensor_file
from elman.config.fields import shown
from elman.data.row_log import RowLog
from elman.data.row_syntax import jsonl_rows
from elman.errors import LONGEST_PART, ConversionError, DataError, ElmanError, RunError
from elman.recipes.converting import ImportRequest, import_model
from elman.text.tokenizer_file import tokenizer_from_json

Tensors = dict[str, torch.Tensor]
Facts = dict[str, Any]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    return make_run("char", tmp_path_factory.mktemp("stopped"), stop_early=True)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    return make_run("ngram", tmp_path_factory.mktemp("counted"))


def copied(run: SmallRun, folder: Path) -> SmallRun:
    return SmallRun(run.name, fresh_copy(run.folder, folder / "run"), run.asked)


def sealed(path: Path, content: Any, change: Callable[[Tensors, Facts], object]) -> None:
    """Change tensors or facts of a file, and make its digest right again."""
    file = read_tensor_file(path, content)
    tensors, facts = dict(file.tensors), dict(file.facts)
    change(tensors, facts)
    write_tensor_file(path, content, tensors, facts)


@pytest.mark.parametrize("name", [name for name in RUN_FILES if "labels" not in name])
@pytest.mark.parametrize("what", ["pipe", "device"])
def test_a_pipe_or_a_device_in_a_run_is_refused_and_not_waited_for(
    stopped: SmallRun, tmp_path: Path, name: str, what: str
) -> None:
    run = copied(stopped, tmp_path)
    path = run.folder / name
    path.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    for resume in (False, True):
        with pytest.raises(RunError, match=rf"{name} is not a file; got a pipe or a device"):
            use(run, resume=resume)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_weights_that_are_no_numbers_are_refused_by_name(
    stopped: SmallRun, tmp_path: Path, odd: float
) -> None:
    run = copied(stopped, tmp_path)

    def change(tensors: Tensors, facts: Facts) -> None:
        tensors["readout.bias"][2] = odd

    sealed(run.folder / WEIGHTS, "weights", change)
    with pytest.raises(RunError, match=r"^readout\.bias in .* no finite number; got 1 of \d+"):
        use(run)


TABLES: dict[str, tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "beyond its histories": ("keys_3", lambda keys: keys + 10**6),
    "below the first": ("keys_2", lambda keys: keys - 10**6),
    "not ascending": ("keys_2", lambda keys: keys.flip(0)),
    "twice": ("keys_3", lambda keys: torch.cat((keys[:1], keys[:1], keys[2:]))),
    "NaN": ("log_probs_2", lambda logs: logs * math.nan),
    "infinite": ("back_off_1", lambda logs: logs + math.inf),
    "another type": ("back_off_2", lambda logs: logs.float()),
}


@pytest.mark.parametrize("how", TABLES)
def test_tables_of_counts_that_cannot_be_asked_are_refused(
    counted: SmallRun, tmp_path: Path, how: str
) -> None:
    run = copied(counted, tmp_path)
    name, change = TABLES[how]
    sealed(
        run.folder / WEIGHTS,
        "weights",
        lambda tensors, _: tensors.update({name: change(tensors[name])}),
    )
    with pytest.raises(RunError, match="do not fit together"):
        use(run)


FACTS: dict[str, Callable[[Facts], object]] = {
    "no update": lambda facts: facts.pop("update"),
    "no average_updates": lambda facts: facts.pop("average_updates"),
    "no selection": lambda facts: facts.pop("selection"),
    "no selection.best": lambda facts: facts["selection"].pop("best"),
    "update = x": lambda facts: facts.update(update="x"),
    "epoch = -1": lambda facts: facts.update(epoch=-1),
    "index = True": lambda facts: facts.update(index=True),
    "num_tokens = 10000": lambda facts: facts.update(num_tokens=10**30),
    "smoothed = [1]": lambda facts: facts.update(smoothed=[1]),
    "products = {'a': 1}": lambda facts: facts.update(products={"a": 1}),
    "selection.losses = [None]": lambda facts: facts["selection"].update(losses=[None]),
    "no selection.last.loss_nats": lambda facts: facts["selection"].update(last={"update": 1}),
}


@pytest.mark.parametrize("told", FACTS)
def test_facts_that_no_trainer_has_saved_are_refused_by_name(
    stopped: SmallRun, tmp_path: Path, told: str
) -> None:
    run = copied(stopped, tmp_path)
    sealed(run.folder / STATE, "training state", lambda _, facts: FACTS[told](facts["trainer"]))
    with pytest.raises(RunError, match=rf"does not fit this run; got {re.escape(told)}"):
        use(run, resume=True)


MOMENT = "optimiser.embedding.weight.exp_avg"
MOMENTS: dict[str, Callable[[Tensors], object]] = {
    "renamed": lambda tensors: tensors.update({"../x": tensors.pop(MOMENT)}),
    "another type": lambda tensors: tensors.update({MOMENT: tensors[MOMENT].half()}),
    "another size": lambda tensors: tensors.update({MOMENT: tensors[MOMENT].flatten()}),
    "carried twice": lambda tensors: tensors.update({"carried.7": tensors.pop("carried.0")}),
    "carried numbers": lambda tensors: tensors.update({"carried.0": torch.zeros(())}),
    "generator cut": lambda tensors: tensors.update(
        {"generator.dropout": tensors["generator.dropout"][:9].clone()}
    ),
    "generator renamed": lambda tensors: tensors.update(
        {"generator.x": tensors.pop("generator.dropout")}
    ),
}


@pytest.mark.parametrize("how", MOMENTS)
def test_moments_that_the_optimiser_cannot_have_are_refused(
    stopped: SmallRun, tmp_path: Path, how: str
) -> None:
    run = copied(stopped, tmp_path)
    sealed(run.folder / STATE, "training state", lambda tensors, _: MOMENTS[how](tensors))
    with pytest.raises(RunError, match="the saved training state does not fit this run"):
        use(run, resume=True)


def test_a_run_whose_threads_were_put_back_to_the_default_is_resumed(
    stopped: SmallRun, tmp_path: Path
) -> None:
    run = copied(stopped, tmp_path)
    config = run.folder / CONFIG
    changed = re.sub(r"\nthreads = \d+", "\nthreads = 0", config.read_text())
    assert "threads = 0" in changed
    config.write_text(changed)
    use(run, resume=True)


def test_a_header_that_is_nested_too_deep_is_refused(stopped: SmallRun, tmp_path: Path) -> None:
    run = copied(stopped, tmp_path)
    for deep in (400, 900, 100_000):
        header = '{"a":' + "[" * deep + "]" * deep + ',"schema_version":1}'
        content = save({"a": torch.zeros(1)}, {HEADER_KEY: header})
        (run.folder / WEIGHTS).write_bytes(content)
        with pytest.raises(RunError, match=r"is cut short or was altered|does not hold weights"):
            use(run)


@pytest.mark.parametrize("deep", [100, 400, 900, 100_000])
def test_rows_that_are_nested_deep_are_refused(deep: int) -> None:
    line = "[" * deep + '"a"' + "]" * deep
    log = RowLog("rows.jsonl", "skip")
    with contextlib.suppress(DataError):  # of which the line says that it is nested too deeply
        rows = list(jsonl_rows([line, line], log=log).rows)
        assert rows[0].fields == (None,)  # neither a text nor a list of them


def test_a_tokenizer_with_deep_settings_is_refused(stopped: SmallRun) -> None:
    table = json.loads((stopped.folder / TOKENIZER).read_text())
    deep: object = []
    for _ in range(800):
        deep = [deep]
    assert len(shown(deep)) < 100

    def replaced(value: object) -> object:
        if isinstance(value, dict):
            return {key: deep if key == "level" else replaced(one) for key, one in value.items()}
        return value

    changed = replaced(table)
    assert changed != table
    with pytest.raises(ElmanError):
        tokenizer_from_json(json.dumps(changed))


def test_a_refusal_of_millions_of_characters_is_cut() -> None:
    told = str(DataError("x" * 10**6, got="y" * 10**6, hint="end"))
    assert len(told) < 3 * LONGEST_PART
    assert told.endswith("(of 1,000,000 characters); end")


@pytest.mark.parametrize("source", ["torch", "onnx", "keras"])
def test_a_pipe_is_no_model(tmp_path: Path, source: Any) -> None:
    path = tmp_path / f"model.{source}"
    os.mkfifo(path)
    with pytest.raises((RunError, ConversionError), match="is not a file"):
        import_model(ImportRequest(path, source), tmp_path / "run")


@pytest.mark.parametrize("line", ["ngram 1={}", "ngram {}=1", "\\{}-grams:"])
def test_counts_of_more_digits_than_are_read_are_refused(line: str) -> None:
    lines = ["\\data\\", "ngram 1=1", line.format("9" * 5000), "\\end\\"]
    with pytest.raises(ConversionError):
        parse_arpa(lines, "counts.arpa")


def test_a_header_of_a_size_that_cannot_be_is_refused(stopped: SmallRun, tmp_path: Path) -> None:
    run = copied(stopped, tmp_path)
    path = run.folder / WEIGHTS
    for size in (0, 2**31, 2**63, 2**64 - 1):
        path.write_bytes(struct.pack("<Q", size) + path.read_bytes()[8:])
        with pytest.raises(RunError, match="is cut short or was altered"):
            use(run)
