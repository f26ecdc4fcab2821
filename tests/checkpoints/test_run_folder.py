"""A run says what is missing or does not belong, goes where it is moved, and goes on exactly."""

import json
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from elman.checkpoints.belonging import tokenizer_entries
from elman.checkpoints.manifest import Manifest, manifest_from_json, manifest_to_json
from elman.checkpoints.run_folder import RunFolder
from elman.checkpoints.schema import SCHEMA_VERSION
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.config.toml_file import settings_to_toml
from elman.errors import RunError

MakeRun = Callable[..., RunFolder]
MakeModel = Callable[..., nn.Module]
TokenizerOf = Callable[[str], str]


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(RunError) as caught:
        act()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def bits_of(model: nn.Module) -> list[bytes]:
    return [tensor.numpy().tobytes() for tensor in model.state_dict().values()]


def contents_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_run_comes_back_whole(tmp_path: Path, make_run: MakeRun, small_model: MakeModel) -> None:
    made = make_run(tmp_path / "deep" / "run")
    opened = RunFolder.open(made.path)
    assert (opened.settings, opened.tokenizer_json) == (made.settings, made.tokenizer_json)
    model = small_model(seed=2)
    assert opened.load_weights(model).update == 7
    assert bits_of(model) == bits_of(small_model(seed=1))
    state = RunFolder.open(made.path, purpose="resume").load_state()
    assert state.facts == {"update": 9, "epoch": 2}
    assert state.tensors["weight"].equal(torch.arange(6.0))
    assert opened.read_manifest().sizes == {"vocabulary": 11}
    assert opened.read_metrics()[2] == {"update": 3, "loss_nats": 3 / 7}


def test_two_equal_runs_have_equal_files(tmp_path: Path, make_run: MakeRun) -> None:
    first, second = make_run(tmp_path / "a"), make_run(tmp_path / "b")
    assert contents_of(first.path) == contents_of(second.path)
    assert len(contents_of(first.path)) == 7


def test_a_moved_run_works_and_names_no_place(
    tmp_path: Path, make_run: MakeRun, small_model: MakeModel
) -> None:
    made = make_run(tmp_path / "here")
    for name, content in contents_of(made.path).items():
        assert str(tmp_path).encode() not in content, name
    moved = Path(shutil.move(made.path, tmp_path / "there"))
    model = small_model(seed=2)
    RunFolder.open(moved).load_weights(model)
    assert bits_of(model) == bits_of(small_model(seed=1))
    assert RunFolder.open(moved, purpose="resume").load_state().facts["update"] == 9


def test_a_run_is_never_overwritten(tmp_path: Path, make_run: MakeRun) -> None:
    before = contents_of(make_run(tmp_path / "run").path)
    message = refusal(lambda: RunFolder.create(tmp_path / "run"))
    assert "is not empty, and a run is never overwritten; got a run in it" in message
    assert message.endswith("or continue this run with --resume")
    assert contents_of(tmp_path / "run") == before


def test_a_folder_with_other_files_and_a_file_are_no_place_for_a_run(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    assert "got other files in it" in refusal(lambda: RunFolder.create(tmp_path))
    assert "got a file" in refusal(lambda: RunFolder.create(tmp_path / "thesis.txt"))
    assert "cannot make the folder" in refusal(
        lambda: RunFolder.create(tmp_path / "thesis.txt" / "run")
    )


def test_an_empty_folder_will_do_and_leftovers_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.99.tmp").write_bytes(b"half")
    RunFolder.create(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_run_is_named(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run")
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(run.path / "model.safetensors", alone)
    assert "there is no run at" in refusal(lambda: RunFolder.open(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    assert "is not a run" in refusal(lambda: RunFolder.open(tmp_path / "empty"))
    message = refusal(lambda: RunFolder.open(alone / "model.safetensors"))
    assert "is a weights file alone, and a run is a folder" in message
    message = refusal(lambda: RunFolder.open(alone))
    assert "lacks config.toml (the settings) and tokenizer.json (the vocabulary)" in message


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("config.toml", "lacks config.toml (the settings)"),
        ("tokenizer.json", "lacks tokenizer.json (the vocabulary); copy it from where the run"),
        ("model.safetensors", "lacks model.safetensors (the weights)"),
    ],
)
def test_a_deleted_file_is_named(tmp_path: Path, make_run: MakeRun, name: str, part: str) -> None:
    run = make_run(tmp_path / "run")
    (run.path / name).unlink()
    assert part in refusal(lambda: RunFolder.open(run.path))


def test_weights_are_copied_again_unless_training_would_make_them(
    tmp_path: Path, make_run: MakeRun
) -> None:
    run = make_run(tmp_path / "run")
    (run.path / "model.safetensors").unlink()
    assert "continue the run with --resume" in refusal(lambda: RunFolder.open(run.path))
    run.write_manifest(Manifest(results={"training": {"reason": "updates"}}))
    finished = refusal(lambda: RunFolder.open(run.path))
    run.write_manifest(Manifest())
    (run.path / "state.safetensors").unlink()
    for message in (finished, refusal(lambda: RunFolder.open(run.path))):
        assert "lacks model.safetensors (the weights); the run cannot be used without" in message
        assert "copy the folder again" in message
        assert "--resume" not in message


def test_resuming_needs_the_state_and_not_the_weights(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run")
    (run.path / "model.safetensors").unlink()
    assert RunFolder.open(run.path, purpose="resume").load_state().facts["update"] == 9
    (run.path / "state.safetensors").unlink()
    message = refusal(lambda: RunFolder.open(run.path, purpose="resume"))
    assert "lacks state.safetensors (the training state)" in message


def test_another_vocabulary_of_the_same_size_is_seen(
    tmp_path: Path, make_run: MakeRun, tokenizer_json_of: TokenizerOf
) -> None:
    run = make_run(tmp_path / "run")
    other = make_run(tmp_path / "other", tokenizer_json=tokenizer_json_of("kjihgfedcba"))
    shutil.copy(other.path / "tokenizer.json", run.path)
    for purpose in ("use", "resume"):
        message = refusal(lambda purpose=purpose: RunFolder.open(run.path, purpose=purpose))  # type: ignore[misc]
        assert "is not the vocabulary model.safetensors was made with; got 11 entries" in message
    (run.path / "model.safetensors").unlink()
    message = refusal(lambda: RunFolder.open(run.path, purpose="resume"))
    assert "is not the vocabulary state.safetensors was made with" in message


def test_another_vocabulary_of_another_size_is_told_with_both(
    tmp_path: Path, make_run: MakeRun, tokenizer_json_of: TokenizerOf
) -> None:
    run = make_run(tmp_path / "run")
    (run.path / "tokenizer.json").write_text(tokenizer_json_of("abc"))
    message = refusal(lambda: RunFolder.open(run.path))
    assert "got 3 entries, sha256" in message
    assert "in the folder, 11 entries, sha256" in message


def test_weights_of_another_run_are_seen(
    tmp_path: Path, make_run: MakeRun, tokenizer_json_of: TokenizerOf
) -> None:
    run = make_run(tmp_path / "run")
    other = make_run(tmp_path / "other", tokenizer_json=tokenizer_json_of("kjihgfedcba"))
    shutil.copy(other.path / "model.safetensors", run.path)
    assert "is not the vocabulary" in refusal(lambda: RunFolder.open(run.path))


def edit_config(run: RunFolder, model: ModelSettings) -> None:
    text = settings_to_toml(replace(run.settings, model=model))
    (run.path / "config.toml").write_text(text, encoding="utf-8")


def test_an_edited_size_is_told_with_both_numbers(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run")
    edit_config(run, replace(run.settings.model, hidden_size=128, tie_weights=True))
    message = refusal(lambda: RunFolder.open(run.path))
    assert (
        "got model.hidden_size = 128 in config.toml, 5 in model.safetensors; "
        "model.tie_weights = true in config.toml, false in model.safetensors" in message
    )


def test_settings_that_shape_nothing_may_be_edited(
    tmp_path: Path, make_run: MakeRun, small_model: MakeModel
) -> None:
    run = make_run(tmp_path / "run")
    edit_config(run, replace(run.settings.model, dropout=0.5, forget_bias=2.0))
    RunFolder.open(run.path).load_weights(small_model())
    RunFolder.open(run.path, purpose="resume").load_state()


def test_an_edit_during_training_changes_nothing_in_what_is_saved(
    tmp_path: Path, make_run: MakeRun, small_model: MakeModel
) -> None:
    run = make_run(tmp_path / "run")
    edit_config(run, replace(run.settings.model, hidden_size=128))
    run.save_weights(small_model(seed=1), update=8)
    assert "128 in config.toml, 5 in model" in refusal(lambda: RunFolder.open(run.path))


def test_a_broken_config_is_told(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run")
    for content, part in (
        (b"[model]\nhidden_size = 0\n", "model.hidden_size must be an integer >= 1; got 0"),
        (b"[model\n", "is not valid TOML"),
        (b"\xff\xfe", "is not UTF-8 text, so it was altered; got byte 0xff at 0"),
    ):
        (run.path / "config.toml").write_bytes(content)
        assert part in refusal(lambda: RunFolder.open(run.path))


def test_a_newer_format_is_told(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run")
    run.write_manifest(replace(run.read_manifest(), schema_version=SCHEMA_VERSION + 1))
    message = refusal(lambda: RunFolder.open(run.path))
    assert f"got schema version {SCHEMA_VERSION + 1}; allowed: 1; install a newer elman" in message


@pytest.mark.parametrize("name", ["model.safetensors", "state.safetensors"])
def test_a_cut_or_altered_file_is_told(
    tmp_path: Path, make_run: MakeRun, small_model: MakeModel, name: str
) -> None:
    run = make_run(tmp_path / "run")
    path = run.path / name
    content = path.read_bytes()
    path.write_bytes(content[:-10])
    assert "is cut short" in refusal(lambda: RunFolder.open(run.path, purpose="resume"))
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    opened = RunFolder.open(run.path, purpose="resume")
    message = refusal(
        lambda: opened.load_weights(small_model()) if "model" in name else opened.load_state()
    )
    assert f"{name} was altered after it was written" in message


def test_weights_and_state_are_not_taken_for_one_another(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run")
    shutil.copy(run.path / "state.safetensors", run.path / "model.safetensors")
    message = refusal(lambda: RunFolder.open(run.path))
    assert "does not hold weights; got training state" in message


def test_leftovers_are_not_read_and_go_away_once_they_are_tidied(
    tmp_path: Path, make_run: MakeRun
) -> None:
    run = make_run(tmp_path / "run")
    leftover = run.path / "state.safetensors.99.tmp"
    leftover.write_bytes((run.path / "state.safetensors").read_bytes()[:100])
    RunFolder.open(run.path)
    assert leftover.exists(), "a reader must not delete what a trainer may be writing"
    folder = RunFolder.open(run.path, purpose="resume")
    assert folder.load_state().facts["update"] == 9
    folder.tidy()
    assert not leftover.exists()


def test_a_save_that_fails_leaves_the_state_before(
    tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    before = contents_of(run.path)

    def fail(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        message = refusal(lambda: run.save_state({"weight": torch.zeros(6)}, {"update": 10}))
    assert message.endswith("got No space left on device")
    assert contents_of(run.path) == before


def test_the_readable_copy_of_the_state_is_only_a_copy(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run")
    run.save_state({}, {"update": 10, "best": math.inf})
    copy = json.loads((run.path / "state.json").read_text())
    assert copy["facts"] == {"update": 10, "best": None, "best_is_infinite": True}
    assert copy["copied_from"] == "state.safetensors"
    (run.path / "state.json").write_text("nonsense")
    assert RunFolder.open(run.path, purpose="resume").load_state().facts["best"] == math.inf


def test_metrics_are_cut_back_to_where_training_goes_on(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(tmp_path / "run")
    whole = (run.path / "metrics.jsonl").read_bytes()
    with (run.path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"update": 11, "loss_na')
    assert [row["update"] for row in run.read_metrics()] == list(range(1, 11))
    run.keep_metrics_until(9)
    assert (run.path / "metrics.jsonl").read_bytes() == b"".join(whole.splitlines(True)[:9])
    run.append_metrics({"update": 10, "loss_nats": 10 / 7})
    assert (run.path / "metrics.jsonl").read_bytes() == whole


def test_a_broken_row_ends_what_is_kept_and_is_told_when_read(
    tmp_path: Path, make_run: MakeRun
) -> None:
    run = make_run(tmp_path / "run")
    path = run.path / "metrics.jsonl"
    lines = path.read_bytes().splitlines(True)
    path.write_bytes(b"".join([*lines[:4], b"\0\0\0\n", *lines[5:]]))
    assert refusal(run.read_metrics).endswith("has a broken line; got line 5")
    run.keep_metrics_until(9)
    assert [row["update"] for row in run.read_metrics()] == [1, 2, 3, 4]


def test_a_run_without_metrics_has_no_rows(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run")
    run.keep_metrics_until(3)
    assert run.read_metrics() == []
    with pytest.raises(TypeError):
        run.append_metrics({"loss_nats": 1.0})
    run.append_metrics({"update": 1, "loss_nats": math.nan})
    assert run.read_metrics() == [{"update": 1, "loss_nats": None, "loss_nats_is_nan": True}]


def test_a_run_must_be_begun_before_it_is_saved(tmp_path: Path, small_model: MakeModel) -> None:
    with pytest.raises(ValueError, match="begin has not told"):
        RunFolder.create(tmp_path / "run").save_weights(small_model(), update=1)


def test_a_manifest_comes_back_and_tells_versions() -> None:
    manifest = Manifest(
        sizes={"parameters": 5},
        data={"train": [{"name": "a.txt", "sha256": "0"}]},
        vocabulary={"digest": "1"},
        kernels={"lstm": "torch: fused"},
        results={"nats": 1.5},
    )
    text = manifest_to_json(manifest)
    assert manifest_from_json(text) == manifest
    assert set(manifest.versions) == {"elman", "torch", "python"}
    assert manifest.versions["torch"] == torch.__version__
    turned = replace(manifest, results={"b": 1, "a": math.inf})
    assert json.loads(manifest_to_json(turned))["results"] == {
        "a": None,
        "a_is_infinite": True,
        "b": 1,
    }
    assert manifest_to_json(replace(manifest, data={"b": 1, "a": 2})) == manifest_to_json(
        replace(manifest, data={"a": 2, "b": 1})
    )


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "m.json is not valid JSON"),
        ("[]", "m.json is no manifest of a run; got list"),
        ("{}", "got schema version None"),
        ('{"schema_version": 1, "sizes": {}}', "m.json lacks the section data"),
        ("[" * 100_000, "m.json is not valid JSON"),
    ],
)
def test_a_broken_manifest_is_told(text: str, part: str) -> None:
    assert part in refusal(lambda: manifest_from_json(text, name="m.json"))


def test_entries_of_a_tokenizer_are_counted_once(tokenizer_json_of: TokenizerOf) -> None:
    assert tokenizer_entries(tokenizer_json_of("abc")) == 3
    table = json.loads(tokenizer_json_of("abc"))
    table["added_tokens"] = [{"id": 0}, {"id": 3}]
    assert tokenizer_entries(json.dumps(table)) == 4
    for text in ("", "[]", '{"model": 3}', '{"model": {"vocab": [1]}}'):
        assert tokenizer_entries(text) is None


def test_settings_of_every_section_are_kept(tmp_path: Path, make_run: MakeRun) -> None:
    settings = replace(Settings(), model=ModelSettings(embedding_size=5, hidden_size=5, kind="gru"))
    run = make_run(tmp_path / "run", settings=settings)
    assert RunFolder.open(run.path).settings == settings
