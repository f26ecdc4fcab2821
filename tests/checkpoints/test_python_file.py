"""A model as one Python file computes, counts, tokenises and writes as Elman does, by itself."""

import random
import re
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elman.checkpoints.foreign.python_file import export_python, prove_python
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.config.text_settings import TextSettings, UnknownPolicy
from elman.decoding.filters import SamplingSettings
from elman.errors import ConversionError, UnknownSymbolError
from elman.evaluation.language import score_lines, score_stream
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.generating import Writer, WriteRequest
from elman.recipes.held_out import stream_boundary
from elman.recipes.trained import TrainedModel
from elman.text.building import build_tokenizer
from elman.text.tokenizer import Tokenizer

LEARNT = 'The cat sat.\nthe "dog" \\ Été déjà 😀 ran\n\nthe cat ran, the dog sat\n'
PLAN = KernelPlan("reference")

CELLS: dict[str, dict[str, Any]] = {
    "elman tanh": {"kind": "elman"},
    "elman relu": {"kind": "elman", "activation": "relu"},
    "elman identity": {"kind": "elman", "activation": "identity"},
    "gru after keep": {"kind": "gru"},
    "gru after replace": {"kind": "gru", "update": "replace"},
    "gru before keep": {"kind": "gru", "reset": "before"},
    "gru before replace": {"kind": "gru", "reset": "before", "update": "replace"},
    "lstm": {"kind": "lstm"},
    "lstm peepholes": {"kind": "lstm", "peepholes": True},
    "lstm coupled": {"kind": "lstm", "coupled": True},
    "lstm normalised": {"kind": "lstm", "layer_norm": "cell"},
    "lstm projected": {"kind": "lstm", "projection_size": 4},
    "lstm projected to its width": {"kind": "lstm", "projection_size": 7},
    "lstm with all": {
        "kind": "lstm",
        "peepholes": True,
        "coupled": True,
        "layer_norm": "both",
        "projection_size": 4,
    },
    "lstm peepholes coupled": {"kind": "lstm", "peepholes": True, "coupled": True},
    "mgu": {"kind": "mgu"},
    "mingru": {"kind": "mingru"},
    "minlstm": {"kind": "minlstm"},
}
AROUND: dict[str, dict[str, Any]] = {
    "plain": {},
    "residual": {"residual": True, "embedding_size": 7},
    "normalised layers": {"layer_norm": "layers"},
    "residual normalised layers": {"residual": True, "layer_norm": "layers", "embedding_size": 7},
    "one-hot": {"input": "one-hot"},
    "one-hot residual": {"input": "one-hot", "residual": True, "hidden_size": 24},
    "tied": {"tie_weights": True, "embedding_size": 7},
    "tied through a projection": {"tie_weights": True},
}
TEXTS = {
    "char stream": TextSettings(),
    "char stream with a start mark": TextSettings(start="mark", normal_form="NFD"),
    "char line": TextSettings(unit="line", normal_form="NFKC"),
    "word stream": TextSettings(level="word", normal_form="NFC"),
    "word stream with a literal": TextSettings(level="word", literal_unknown="dog", start="mark"),
    "word line": TextSettings(level="word", unit="line"),
    "byte stream": TextSettings(level="byte"),
    "byte stream with a start mark": TextSettings(level="byte", start="mark"),
    "byte line": TextSettings(level="byte", unit="line", normal_form="NFKD"),
    "char stream, skipped": TextSettings(unknown="skip", prompt_unknown="skip"),
    "word stream, refused": TextSettings(level="word", unknown="refuse"),
}


def exported(
    path: Path, text: TextSettings, options: dict[str, Any], seed: int = 1
) -> tuple[TrainedModel, dict[str, Any]]:
    """Export a model of random weights, every bias among them, and run the file."""
    tokenizer = build_tokenizer([LEARNT], text)
    chosen = {"hidden_size": 7, "embedding_size": 5, **options}
    settings = Settings(text=text, model=ModelSettings(**chosen))
    generator = torch.Generator().manual_seed(seed)
    model = RecurrentLanguageModel(settings.model, len(tokenizer), generator)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.4 * torch.randn(weight.shape, generator=generator))
    export_python(settings, model, tokenizer.to_json(), path)
    trained = TrainedModel(path, settings, tokenizer, model, PLAN, "")
    return trained, runpy.run_path(str(path))


def alone(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the file in a fresh Python that sees the standard library only."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(path), *arguments],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("bias", ["two", "one", "none"])
@pytest.mark.parametrize("name", CELLS)
def test_every_cell_is_proven(tmp_path: Path, name: str, bias: str, num_layers: int) -> None:
    options = {**CELLS[name], "bias": bias, "num_layers": num_layers}
    trained, _ = exported(tmp_path / "model.py", TextSettings(), options)
    proof = prove_python(trained.model, tmp_path / "model.py")
    # float64 on both sides; sums in another order.
    assert proof.largest < 1e-12
    assert proof.num_values == 4 * 8 * len(trained.tokenizer)


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("name", AROUND)
def test_whatever_surrounds_the_cells_is_proven(tmp_path: Path, name: str, num_layers: int) -> None:
    options = {"kind": "gru", "num_layers": num_layers, **AROUND[name]}
    trained, _ = exported(tmp_path / "model.py", TextSettings(), options)
    if name == "one-hot residual":
        assert len(trained.tokenizer) == trained.settings.model.hidden_size
    assert prove_python(trained.model, tmp_path / "model.py").largest < 1e-12


def test_vanishing_and_open_gates_overflow_nowhere(tmp_path: Path) -> None:
    for kind in ("minlstm", "lstm", "gru"):
        trained, _ = exported(tmp_path / "model.py", TextSettings(), {"kind": kind})
        with torch.no_grad():
            trained.model.stack.cell(0).weight_ih.mul_(3000.0)
        model, tokenizer = trained.model, trained.tokenizer
        export_python(trained.settings, model, tokenizer.to_json(), tmp_path / "model.py")
        assert prove_python(model, tmp_path / "model.py").largest < 1e-10


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i, f, g, o = a", "f, i, g, o = a"),
        (" + layer.bias_hh", ""),
        ("h = o * tanh(c)", "h = o * c"),
        ('WEIGHTS["readout_bias"]', 'WEIGHTS["readout_bias"] * WEIGHTS["readout_bias"]'),
    ],
)
def test_a_file_that_computes_something_else_is_refused(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "model.py"
    trained, _ = exported(path, TextSettings(), {"kind": "lstm"})
    code = path.read_text(encoding="utf-8")
    assert code.count(old) == 1
    path.write_text(code.replace(old, new), encoding="utf-8")
    with pytest.raises(ConversionError, match="computes other values"):
        prove_python(trained.model, path)


SCORED = "the cat ran\n\n  \nThe dog sat.\nÉté \\ déjà the\n"


def own_score(trained: TrainedModel, text: str) -> tuple[float, int]:
    tokenizer, model = trained.tokenizer, trained.model
    boundary_id = tokenizer.vocabulary.boundary_id
    if trained.settings.text.unit == "line":
        assert boundary_id is not None
        lines = [tokenizer.encode(line) for line in text.split("\n") if line.strip()]
        score = score_lines(model, lines, plan=PLAN, boundary_id=boundary_id)
    else:
        mark = stream_boundary(trained.settings, tokenizer.vocabulary)
        score = score_stream(model, [tokenizer.encode(text)], plan=PLAN, boundary_id=mark)
    return score.loss_nats, score.num_tokens


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_scores_by_itself_as_elman_does(tmp_path: Path, name: str) -> None:
    text = SCORED
    if TEXTS[name].unknown != "refuse":
        text += "a zebra, quite unknown\n"
    trained, module = exported(tmp_path / "model.py", TEXTS[name], {"num_layers": 2})
    nats, count = own_score(trained, text)
    # Elman's sums are float32.
    assert module["score"](text) == (pytest.approx(nats, rel=1e-6), count)
    marked_crlf = b"\xef\xbb\xbf" + text.encode().replace(b"\n", b"\r\n")
    (tmp_path / "text.txt").write_bytes(marked_crlf)
    done = alone(tmp_path / "model.py", "score", str(tmp_path / "text.txt"))
    assert done.returncode == 0, done.stderr
    told = dict(line.split() for line in done.stdout.splitlines())
    assert float(told["loss_nats"]) == pytest.approx(nats, rel=1e-6)
    assert int(told["num_tokens"]) == count
    assert float(told["perplexity"]) == pytest.approx(np.exp(nats / count), rel=1e-5)


def encoded(
    tokenizer: Tokenizer, text: str, policy: UnknownPolicy
) -> Sequence[int] | type[Exception]:
    try:
        ids: list[int] = tokenizer.encode(text, policy=policy).tolist()
    except UnknownSymbolError:
        return UnknownSymbolError
    return ids


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_tokenises_as_elman_does(tmp_path: Path, name: str) -> None:
    trained, module = exported(tmp_path / "model.py", TEXTS[name], {})
    tokenizer = trained.tokenizer
    drawn = random.Random(5)
    alphabet = [
        *"the catdogsran.,",
        *"\n \t\x0b\x1c\x85\xa0\u2028\u3000",
        *"éÉe\u0301ﬁÅ😀가ᄀ\0[S]",
    ]
    texts = [
        "",
        "\n",
        "[ S ]",
        "dog",
        *("".join(drawn.choices(alphabet, k=drawn.randrange(40))) for _ in range(200)),
    ]
    policies: list[UnknownPolicy] = ["refuse", "skip"]
    if tokenizer.vocabulary.unk_id is not None:
        policies.append("replace")
    for text in texts:
        for policy in policies:
            want = encoded(tokenizer, text, policy)
            encode, more = module["encode"], () if tokenizer.level == "byte" else (policy,)
            if want is UnknownSymbolError:
                with pytest.raises(module["Refused"], match="the vocabulary does not have"):
                    encode(text, *more)
            else:
                assert encode(text, *more) == want, (text, policy)
    with pytest.raises(UnicodeEncodeError):
        module["encode"]("\ud800")


@pytest.mark.parametrize("prompt", ["", "the cat"])
@pytest.mark.parametrize("name", TEXTS)
def test_the_same_seed_gives_the_text_of_elman_generate(
    tmp_path: Path, name: str, prompt: str
) -> None:
    trained, module = exported(tmp_path / "model.py", TEXTS[name], {})
    written = set()
    for seed, temperature in ((1, 1.0), (2, 0.7), (2**63 - 1, 1.5), (3, 0.0)):
        sampling = SamplingSettings(temperature=temperature, seed=seed)
        writer = Writer(trained, WriteRequest(prompt, max_tokens=40, sampling=sampling))
        writer.begin()
        want = "".join(writer.pieces())
        assert module["generate"](prompt, 40, temperature, seed) == want
        assert module["generate"](prompt, 40, temperature, seed) == want
        written.add(want)
    assert len(written) > 1
    arguments = ("--prompt", prompt, "--max-tokens", "40", "--temperature", "0", "--seed", "3")
    assert alone(tmp_path / "model.py", "generate", *arguments).stdout == f"{want}\n"


@pytest.mark.parametrize("level", ["char", "word", "byte"])
def test_a_model_of_lines_stops_at_its_stop_mark(tmp_path: Path, level: Any) -> None:
    text = TextSettings(level=level, unit="line")
    trained, module = exported(tmp_path / "model.py", text, {})
    assert module["generate"]("the", 5) != ""
    boundary_id = trained.tokenizer.vocabulary.boundary_id
    assert boundary_id is not None
    with torch.no_grad():
        trained.model.readout.bias[boundary_id] = 1000.0
    model_json = trained.tokenizer.to_json()
    export_python(trained.settings, trained.model, model_json, tmp_path / "model.py")
    assert runpy.run_path(str(tmp_path / "model.py"))["generate"]("the", 500) == ""


def test_a_step_leaves_the_state_that_it_was_given(tmp_path: Path) -> None:
    _, module = exported(tmp_path / "model.py", TextSettings(), {"num_layers": 2})
    step = module["step"]
    _, state = step(3)
    first, _ = step(4, state)
    step(5, state)
    again, _ = step(4, state)
    assert first == again
    assert sum(np.exp(first)) == pytest.approx(1.0, abs=1e-12)


def test_the_size_is_four_thirds_of_the_weights_and_some_code(tmp_path: Path) -> None:
    trained, _ = exported(tmp_path / "model.py", TextSettings(), {"hidden_size": 200})
    weights = trained.model.parameter_count()
    size = (tmp_path / "model.py").stat().st_size
    in_base64 = weights * 4 * 4 / 3 * 97 / 96  # and a line end after 96 characters
    assert in_base64 < size < in_base64 + 20_000


def test_the_file_holds_only_the_code_that_its_model_needs(tmp_path: Path) -> None:
    cells = {name: options for name, options in CELLS.items() if name in ("lstm", "gru after keep")}
    code = {}
    for name, options in cells.items():
        exported(tmp_path / "model.py", TextSettings(), options)
        code[name] = (tmp_path / "model.py").read_text(encoding="ascii")
    assert "c = f * c + i * tanh(g)" in code["lstm"]
    assert "h = z * h + (1 - z) * n" in code["gru after keep"]
    assert "n = tanh(x_n + r * h_n)" not in code["lstm"]
    for text in code.values():
        assert text.count("def cell(") == 1
        assert not re.search(
            r"normalised\(|peephole|unicodedata|codecs|BOUNDARY|\{\{|#[\[\]]", text
        )
        assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("char line", ("generate", "--prompt", "the\ncat"), "a prompt must be one line"),
        ("char line", ("generate", "--prompt", "the Z"), "the vocabulary does not have 'Z'"),
        ("char line", ("generate", "--temperature", "-1"), "numbers >= 0"),
        ("char line", ("score", "missing.txt"), "missing.txt"),
        ("word stream, refused", ("score", "zebra.txt"), "the vocabulary does not have 'zebra'"),
        ("char stream", ("score", "one.txt"), "nothing to predict"),
        ("char stream", ("score", "latin.txt"), "can't decode byte 0xe9"),
    ],
)
def test_a_mistake_is_one_line_and_status_two(
    tmp_path: Path, name: str, arguments: tuple[str, ...], told: str
) -> None:
    exported(tmp_path / "model.py", TEXTS[name], {})
    (tmp_path / "zebra.txt").write_text("the zebra", encoding="utf-8")
    (tmp_path / "one.txt").write_text("t", encoding="utf-8")
    (tmp_path / "latin.txt").write_bytes(b"\xe9t\xe9")
    verb, *others = arguments
    done = alone(
        tmp_path / "model.py",
        verb,
        *(str(tmp_path / other) if other.endswith(".txt") else other for other in others),
    )
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_what_cannot_be_exported_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    trained, _ = exported(path, TextSettings(), {})
    path.unlink()
    settings, model, tokenizer = trained.settings, trained.model, trained.tokenizer
    subwords = build_tokenizer([LEARNT], TextSettings(level="bpe", vocabulary_size=260))
    with pytest.raises(
        ConversionError, match=r"no code for their merges.*char or byte.*--to torch"
    ):
        export_python(settings, model, subwords.to_json(), path)
    other = build_tokenizer(["ab"], TextSettings())
    with pytest.raises(ConversionError, match="vocabularies of one size"):
        export_python(settings, model, other.to_json(), path)
    with torch.no_grad():
        model.readout.bias[0] = float("nan")
    with pytest.raises(ConversionError, match=r"not all finite.*readout\.bias"):
        export_python(settings, model, tokenizer.to_json(), path)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_no_plain_word_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / 'my """ \\x model.py'
    trained, _ = exported(path, TextSettings(), {})
    assert prove_python(trained.model, path).largest < 1e-12
