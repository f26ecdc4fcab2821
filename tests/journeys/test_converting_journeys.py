import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch

Elman = Callable[..., "CompletedProcess[str]"]
NEEDS = {"torch": [], "keras": ["keras", "h5py"], "onnx": ["onnx", "onnxruntime"]}
SUFFIX = {"torch": "", "keras": ".keras", "onnx": ".onnx"}


def loss_of(elman: Elman, run: Path, text: Path) -> float:
    done = elman("score", run, text, "--json")
    assert done.returncode == 0, done.stderr
    return float(json.loads(done.stdout)["loss_nats"])


@pytest.mark.parametrize("target", NEEDS)
@pytest.mark.parametrize("unit", ["stream", "line"])
def test_a_run_comes_back_from_each_format_with_the_same_score(
    elman: Elman, stream_run: Path, line_run: Path, story: Path, tmp_path: Path, target: str, unit
) -> None:
    missing = [name for name in NEEDS[target] if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    run = stream_run if unit == "stream" else line_run
    out = tmp_path / f"model{SUFFIX[target]}"
    there = elman("convert", run, out, "--to", target)
    assert there.returncode == 0, there.stderr
    assert "largest difference" in there.stdout
    back = elman("convert", out, "--from", target, "--out", tmp_path / "back", "--json")
    assert back.returncode == 0, back.stderr
    assert json.loads(back.stdout)["proof"]["num_values"] > 0
    want = loss_of(elman, run, story)
    assert loss_of(elman, tmp_path / "back", story) == pytest.approx(want, rel=1e-6)
    again = elman("convert", run, out, "--to", target)
    assert again.returncode == 2  # nothing is overwritten
    assert again.stderr.count("\n") == 1


def test_a_file_of_plain_python_scores_the_same_without_anything_installed(
    elman: Elman, stream_run: Path, story: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model.py"
    done = elman("convert", stream_run, out, "--to", "py")
    assert done.returncode == 0, done.stderr
    alone = subprocess.run(
        [sys.executable, "-I", "-S", str(out), "score", str(story)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    told = float(alone.stdout.split("loss_nats")[1].split()[0])
    assert told == pytest.approx(loss_of(elman, stream_run, story), rel=1e-6)


def test_the_word_model_of_the_pytorch_examples_is_imported_with_its_vocabulary(
    elman: Elman, tmp_path: Path
) -> None:
    words = ["the", "<unk>", "cat", "<eos>", "sat"]
    torch.manual_seed(1)
    encoder, rnn = torch.nn.Embedding(5, 4), torch.nn.GRU(4, 6, 2)
    decoder = torch.nn.Linear(6, 5)
    state = {
        f"module.{part}.{name}": tensor
        for part, module in (("encoder", encoder), ("rnn", rnn), ("decoder", decoder))
        for name, tensor in module.state_dict().items()
    }
    torch.save(state, tmp_path / "model.pt")
    (tmp_path / "words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    (tmp_path / "text.txt").write_text("the cat sat\nthe dog\n", encoding="utf-8")
    bare = elman("convert", tmp_path / "model.pt", "--from", "torch", "--out", tmp_path / "no")
    assert bare.returncode == 2
    assert "--vocabulary" in bare.stderr
    done = elman(
        *("convert", tmp_path / "model.pt", "--from", "torch", "--out", tmp_path / "run"),
        *("--vocabulary", tmp_path / "words.txt"),
    )
    assert done.returncode == 0, done.stderr
    assert "<eos> stands for the line end" in done.stderr
    ids = [words.index(word) for word in ["the", "cat", "sat", "<eos>", "the", "<unk>", "<eos>"]]
    with torch.no_grad():
        states, _ = rnn(encoder(torch.tensor(ids).unsqueeze(1)))
        log_probs = decoder(states[:, 0]).log_softmax(1)
    want = -sum(log_probs[t, token].item() for t, token in enumerate(ids[1:]))
    assert loss_of(elman, tmp_path / "run", tmp_path / "text.txt") == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x",), "needs one direction; got neither --to nor --from"),
        (("x", "y", "--to", "torch", "--from", "onnx"), "got both --to and --from"),
        (("x", "--to", "torch"), "needs a place to write to"),
        (("x", "--from", "torch"), "needs the folder of the new run"),
        (("nowhere", "y.py", "--to", "py"), "there is no run at nowhere"),
        (("nowhere", "y", "--to", "onnx"), "a name that ends in .onnx"),
        (("nowhere.pt", "y", "--from", "torch"), "nowhere.pt"),
    ],
)
def test_what_cannot_be_converted_is_one_line(
    elman: Elman, arguments: tuple[str, ...], message: str
) -> None:
    done = elman("convert", *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_refused_leaves_nothing_behind(elman: Elman, story: Path, tmp_path: Path) -> None:
    small = ("--set=model.hidden_size=8", "--set=training.updates=3")
    for kind, setting, target, reason in (
        ("mgu", "model.dropout=0", "torch", "torch has no minimal gated unit"),
        ("lstm", "model.zoneout=0.1", "py", "py has no zoneout"),
    ):
        run, out = tmp_path / kind, tmp_path / "new" / "deep" / f"x{'.py' * (target == 'py')}"
        done = elman(
            *("train", "lm", "--data", story, "--out", run, f"--set=model.kind={kind}"),
            *(*small, f"--set={setting}"),
        )
        assert done.returncode == 0, done.stderr
        before = sorted(tmp_path.iterdir())
        done = elman("convert", run, out, "--to", target)
        assert done.returncode == 2
        assert reason in done.stderr
        assert done.stderr.count("\n") == 1
        assert sorted(tmp_path.iterdir()) == before


def test_a_tied_output_with_a_projection_becomes_one_matrix_for_torch(
    elman: Elman, story: Path, tmp_path: Path
) -> None:
    run = tmp_path / "words"
    done = elman(
        *("train", "lm", "--data", story, "--out", run, "--level", "word"),
        *("--set=model.embedding_size=6", "--set=model.hidden_size=8"),
        *("--set=model.tie_weights=true", "--set=training.updates=4"),
    )
    assert done.returncode == 0, done.stderr
    there = elman("convert", run, tmp_path / "out", "--to", "torch")
    assert there.returncode == 0, there.stderr
    assert "the output is no longer tied" in there.stderr
    back = elman("convert", tmp_path / "out", "--from", "torch", "--out", tmp_path / "back")
    assert back.returncode == 0, back.stderr
    assert loss_of(elman, tmp_path / "back", story) == pytest.approx(
        loss_of(elman, run, story), rel=1e-6
    )


def test_two_exports_of_one_name_keep_their_own_tokenizers_and_a_swap_is_caught(
    elman: Elman, stream_run: Path, line_run: Path, tmp_path: Path
) -> None:
    for name in ("keras", "onnxruntime"):
        pytest.importorskip(name)
    for run, target in ((line_run, "keras"), (stream_run, "onnx")):
        done = elman("convert", run, tmp_path / f"w.{target}", "--to", target)
        assert done.returncode == 0, done.stderr
    beside = tmp_path / "w.keras.tokenizer.json"
    text = beside.read_text(encoding="utf-8")
    table = json.loads(text)
    vocab = table["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    beside.write_text(json.dumps(table), encoding="utf-8")
    done = elman("convert", tmp_path / "w.keras", "--from", "keras", "--out", tmp_path / "no")
    assert done.returncode == 2
    assert "is not the tokenizer of" in done.stderr
    beside.write_text(text, encoding="utf-8")
    done = elman("convert", tmp_path / "w.keras", "--from", "keras", "--out", tmp_path / "yes")
    assert done.returncode == 0, done.stderr
