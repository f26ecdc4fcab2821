"""Every registered cell to every format: proven equal and there and back the same, or refused."""

from pathlib import Path
from typing import Any, Literal

import torch
from subjects import assert_close, normal

from elman.cells.registry import CELLS
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.config.text_settings import TextSettings
from elman.errors import ConversionError
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.converting import ImportRequest, export_run, import_model
from elman.recipes.trained import open_trained
from elman.text.building import build_tokenizer

Format = Literal["torch", "keras", "onnx", "py"]
FORMATS: tuple[Format, ...] = ("torch", "keras", "onnx", "py")
TEXT = "abc de\n" * 3
ROUNDED_TWICE = 2e-5
"""float32 logits of two implementations, after weights that were added up once."""


def settings_of(key: str) -> ModelSettings:
    """The settings of a two-layer model of the registered cell called `key`."""
    equations, _, biases = key.partition(", ")
    bias = {"": "two", "one bias": "one", "no bias": "none"}[biases]
    kind, *rest = equations.replace("+", "/").split("/")
    own: dict[str, Any] = {}
    if kind == "elman":
        own = {"activation": rest[0]}
    elif kind == "gru":
        own = {"reset": rest[0], "update": rest[1]}
    elif kind == "lstm":
        own = {name: True for name in ("peepholes", "coupled") if name in rest}
        own["layer_norm"] = "cell" if "layer_norm" in rest else "none"
        own["projection_size"] = 3 if "projection" in rest else 0
    return ModelSettings(
        kind=kind,  # type: ignore[arg-type]
        embedding_size=4,
        hidden_size=5,
        num_layers=2,
        bias=bias,  # type: ignore[arg-type]
        **own,
    )


def make_run(key: str, folder: Path) -> None:
    """Write a run of the cell `key` with random weights, biases too."""
    from elman.checkpoints.manifest import Manifest
    from elman.checkpoints.run_folder import TOKENIZER, RunFolder

    text = TextSettings(level="char", unit="stream")
    tokenizer = build_tokenizer([TEXT], text)
    generator = torch.Generator().manual_seed(11)
    model = RecurrentLanguageModel(settings_of(key), len(tokenizer.vocabulary), generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3, generator=generator)
    run = RunFolder.create(folder)
    run.begin(Settings(text=text, model=model.settings), {TOKENIZER: tokenizer.to_json()})
    run.save_weights(model, update=0)
    run.write_manifest(Manifest())


def converted(key: str, target: Format, folder: Path) -> str:
    """Convert there and back, and return "" where all held, or why it was refused.

    There, the proof compares both sides. Back, the run scores as the first one does.
    """
    make_run(key, folder / "run")
    suffix = {"torch": "", "keras": ".keras", "onnx": ".onnx", "py": ".py"}[target]
    out = folder / f"out{suffix}"
    try:
        proof = export_run(folder / "run", target, out).proof
    except ConversionError as error:
        assert not out.exists(), "what is refused is not written"
        return error.what
    assert proof.num_values > 0
    if target == "py":
        return ""
    import_model(ImportRequest(out, target), folder / "back")
    ours, back = open_trained(folder / "run"), open_trained(folder / "back")
    assert back.tokenizer.to_json() == ours.tokenizer.to_json()
    ids_BT = normal(3, 9, seed=12).argsort(dim=1) % len(ours.tokenizer.vocabulary)
    with torch.inference_mode():
        results = [
            model.readout.logits(model(ids_BT, plan=KernelPlan("reference")).states_BTH)
            for model in (ours.model, back.model)
        ]
    assert_close(results[1], results[0], ROUNDED_TWICE, "logits of the model that came back")
    return ""


REFUSED: dict[Format, frozenset[str]] = {
    "torch": frozenset(
        key
        for key in CELLS
        if key.startswith(("elman/identity", "gru/before", "mgu", "min"))
        or "peepholes" in key
        or "layer_norm" in key
    ),
    "keras": frozenset(
        key
        for key in CELLS
        if key.startswith("min") or any(o in key for o in ("peep", "layer_norm", "projection"))
    ),
    "onnx": frozenset(
        key for key in CELLS if key.startswith("min") or "layer_norm" in key or "projection" in key
    ),
    "py": frozenset(),
}
"""What each format cannot express; everything else it must."""
