"""One Python file that holds a model whole: weights, vocabulary, readable code, nothing to install.

The code is joined from the texts in `python_parts`. A line `#[ lstm !coupled` there begins what is
kept only for an LSTM whose gates are not coupled, `#]` ends it, and {{name}} stands for a value.
"""

import base64
import copy
import re
import runpy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.atomic_files import writing_atomically
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell, LSTMOptions
from elman.cells.mgu import MGUCell
from elman.cells.min_gru import MinGRUCell
from elman.cells.min_lstm import MinLSTMCell
from elman.checkpoints.foreign.plain_readout import full_readout
from elman.checkpoints.foreign.proof import Proof, prove
from elman.config.settings import Settings
from elman.errors import ConversionError
from elman.kernels.dispatch import KernelPlan
from elman.layers.readout import Readout
from elman.models.recurrent import RecurrentLanguageModel
from elman.text.tokenizer import Tokenizer
from elman.text.tokenizer_file import tokenizer_from_json

PARTS = ("text", "arithmetic", "cells", "layers", "scores", "generation", "command", "weights")
PYTHON_TOLERANCE = 1e-6
"""Both sides compute in float64 from the same float32 weights: what is left is rounding."""
PROVEN_SEQUENCES, PROVEN_LENGTH = 4, 8
LITERAL_WIDTH = 92
"""Characters of escaped symbols on a line, before its indent and quotes."""
BYTES_A_LINE = 72
"""Of weights, 18 numbers: 96 characters of base64."""

_KINDS = (
    ("elman", ElmanCell),
    ("gru", GRUCell),
    ("lstm", LSTMCell),
    ("mgu", MGUCell),
    ("mingru", MinGRUCell),
    ("minlstm", MinLSTMCell),
)
_SYMBOL_NAMES = (("char", "character"), ("byte", "byte"), ("word", "word"))
_MARK = re.compile(r"#\[ (.+)")
_BLANK_LINES = re.compile(r"\n{4,}")
_SECOND_BIAS = re.compile(r" \+ (?:layer\.bias_hh|b_h\w)\b")
_PLAIN_NAME = re.compile(r"[\w.-]+")
_VALUE = re.compile(r"\{\{(\w+)\}\}")


def export_python(
    settings: Settings, model: RecurrentLanguageModel, tokenizer_json: str, path: Path
) -> None:
    """Write `model` with its tokenizer to `path` as one Python file without any dependency.

    It has `step(token, state) -> (log_probs, state)`, `score(text) -> (nats, count)` as
    `elman score` counts, `generate(prompt, max_tokens, temperature, seed)` with the draws of
    `elman generate`, and a command. Weights are float32, computed with in float64; Python 3.9 will
    do. The file takes its name when whole.

    Raises `ConversionError` for subwords, whose merges the file has no code for, for weights that
    are not finite, and where model and tokenizer differ in size; `RunError` where the disk refuses.
    """
    tokenizer = tokenizer_from_json(tokenizer_json)
    _require_convertible(model, tokenizer)
    tensors = _named_tensors(model)
    flags = {**_text_flags(settings, tokenizer), **_model_flags(model)}
    values = {
        **_text_values(settings, tokenizer),
        **_model_values(model, tokenizer, tensors),
        "name": path.name if _PLAIN_NAME.fullmatch(path.name) else "model.py",
    }
    with writing_atomically(path) as file:
        file.write("\n\n\n".join(_rendered(part, flags, values) for part in PARTS) + "\n")


def prove_python(model: RecurrentLanguageModel, path: Path) -> Proof:
    """Return how far the log-probabilities of the file at `path` are from the model's.

    The file is run, in a namespace of its own: give only one that `export_python` has written.
    Compared are all log-probabilities after each of PROVEN_LENGTH random ids of PROVEN_SEQUENCES
    sequences, in float64 on both sides. Raises `ConversionError` where any two differ by more than
    `PYTHON_TOLERANCE` · max(1, |value|).
    """
    step = runpy.run_path(str(path), run_name="exported_model")["step"]
    exact = copy.deepcopy(model).cpu().double()
    ids_BT = np.random.default_rng(0).integers(
        model.vocabulary_size, size=(PROVEN_SEQUENCES, PROVEN_LENGTH)
    )
    with torch.inference_mode():
        output = exact(torch.from_numpy(ids_BT), plan=KernelPlan("reference"))
        log_probs_BTV = output.readout.logits(output.states_BTH).log_softmax(dim=2)
    ours: dict[str, npt.NDArray[np.floating]] = {}
    theirs: dict[str, npt.NDArray[np.floating]] = {}
    for number, ids_T in enumerate(ids_BT.tolist()):
        state, rows = None, []
        for token in ids_T:
            row, state = step(token, state)
            rows.append(row)
        name = f"the log-probabilities of random sequence {number + 1}"
        ours[name], theirs[name] = log_probs_BTV[number].numpy(), np.array(rows)
    return prove("log-probabilities", ours, theirs, tolerance=PYTHON_TOLERANCE)


def _require_convertible(model: RecurrentLanguageModel, tokenizer: Tokenizer) -> None:
    if tokenizer.level == "bpe":
        raise ConversionError(
            "a model of subwords cannot become one Python file: it has no code for their merges",
            got='text.level = "bpe"',
            allowed="char, byte and word",
            hint="train with text.level char or byte, or convert with --to torch",
        )
    if len(tokenizer) != model.vocabulary_size:
        raise ConversionError(
            "the model and its tokenizer must have vocabularies of one size",
            got=f"{model.vocabulary_size} and {len(tokenizer)}",
            hint="take both from one run",
        )
    for name, weight in model.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise ConversionError(
                "a model whose weights are not all finite numbers cannot be converted",
                got=f"infinite or undefined ones in {name}",
                hint="its training has diverged: use an earlier checkpoint",
            )


def _text_flags(settings: Settings, tokenizer: Tokenizer) -> dict[str, bool]:
    text, own = settings.text, tokenizer.settings
    return {
        **{level: tokenizer.level == level for level, _ in _SYMBOL_NAMES},
        "line": text.unit == "line",
        "stream": text.unit == "stream",
        "marked": text.unit == "stream" and text.start == "mark",
        "unk": tokenizer.vocabulary.unk_id is not None,
        "normal": own.normal_form != "none",
        "literal": bool(own.literal_unknown),
    }


def _model_flags(model: RecurrentLanguageModel) -> dict[str, bool]:
    cell, stack = model.stack.cell(0), model.stack.options
    kinds = {kind: type(cell) is of for kind, of in _KINDS}
    if not any(kinds.values()):
        raise ConversionError(
            "this cell cannot become one Python file",
            got=cell.key,
            allowed=", ".join(kinds),
            hint="convert with --to torch",
        )
    lstm = cell.options if isinstance(cell, LSTMCell) else LSTMOptions()
    reset, update = (cell.reset, cell.update) if isinstance(cell, GRUCell) else ("", "")
    activation = cell.activation if isinstance(cell, ElmanCell) else ""
    return {
        **kinds,
        "minimal": kinds["mingru"] or kinds["minlstm"],
        **{name: activation == name for name in ("relu", "identity")},
        **{name: reset == name for name in ("before", "after")},
        **{name: update == name for name in ("keep", "replace")},
        "peepholes": lstm.peepholes,
        "coupled": lstm.coupled,
        "cell_norm": lstm.layer_norm,
        "projected": lstm.projection_size > 0,
        "bias_ih": cell.bias_ih is not None,
        "bias_hh": cell.bias_hh is not None,
        "layers_norm": stack.layer_norm,
        "normalises": stack.layer_norm or lstm.layer_norm,
        "residual": stack.residual,
        "onehot": model.embedding is None,
        "tied": model.embedding is not None and model.readout.weight is model.embedding.weight,
        "projection": _readout_of(model).projection is not None,
    }


def _text_values(settings: Settings, tokenizer: Tokenizer) -> dict[str, str]:
    vocabulary, text = tokenizer.vocabulary, settings.text
    never = [vocabulary.pad_id, vocabulary.unk_id]
    if text.unit == "stream":
        never.append(vocabulary.boundary_id)
    symbols = vocabulary.symbols[len(vocabulary.specials) :]
    return {
        "encoding": _quoted(text.encoding),
        "first": str(len(vocabulary.specials)),
        "symbol": dict(_SYMBOL_NAMES)[tokenizer.level],
        "boundary": str(vocabulary.boundary_id),
        "unk": str(vocabulary.unk_id),
        "never": repr(tuple(sorted(i for i in never if i is not None))),
        "context": str(tokenizer.first_context),
        "unknown": _quoted(tokenizer.settings.unknown),
        "prompt_unknown": _quoted(text.prompt_unknown),
        "or_replace": ", replace" if vocabulary.unk_id is not None else "",
        "form": _quoted(tokenizer.settings.normal_form),
        "literal": _quoted(tokenizer.settings.literal_unknown),
        "symbols": _text_literal(symbols) if tokenizer.level == "char" else _list_literal(symbols),
    }


def _model_values(
    model: RecurrentLanguageModel, tokenizer: Tokenizer, tensors: Mapping[str, Tensor]
) -> dict[str, str]:
    cell, layers = model.stack.cell(0), model.stack.num_layers
    symbol = dict(_SYMBOL_NAMES)[tokenizer.level]
    count = model.parameter_count()
    return {
        "title": f"A language model of {symbol}s, whole in one file.",
        "summary": f"Cell: {cell.key}, {cell.hidden_size} units in {layers} "
        f"layer{'s' if layers > 1 else ''}.\n{model.vocabulary_size:,} ids, {count:,} weights.",
        "activation": cell.activation if isinstance(cell, ElmanCell) else "",
        "epsilon": "1e-5",
        "sizes": repr(cell.state_sizes),
        "num_layers": str(layers),
        "shapes": "\n".join(f'    "{name}": {tuple(w.shape)},' for name, w in tensors.items()),
        "numbers": "\n".join(_base64_lines(tensors.values())),
    }


def _named_tensors(model: RecurrentLanguageModel) -> dict[str, Tensor]:
    """Return every weight once, under the names that the exported code uses."""
    named: dict[str, Tensor] = {}
    if model.embedding is not None:
        named["embedding"] = model.embedding.weight
    for layer in range(model.stack.num_layers):
        own = dict(model.stack.cell(layer).named_parameters())
        if model.stack.options.layer_norm:
            norm = dict(model.stack.norms[layer].named_parameters())
            own |= {"norm_gain": norm["weight"], "norm_shift": norm["bias"]}
        named |= {f"layers.{layer}.{name}": weight for name, weight in own.items()}
    readout = _readout_of(model)
    if readout.projection is not None:
        named["projection"] = readout.projection
    if model.embedding is None or readout.weight is not model.embedding.weight:
        named["readout"] = readout.weight
    named["readout_bias"] = readout.bias
    return named


def _readout_of(model: RecurrentLanguageModel) -> Readout:
    return full_readout(model, "plain Python")


def _rendered(part: str, flags: Mapping[str, bool], values: Mapping[str, str]) -> str:
    """Return a part with what `flags` keep of it, no bias that is absent, and `values` put in."""
    source = files(__package__).joinpath("python_parts", f"{part}.py.txt").read_text("utf-8")
    kept: list[str] = []
    inside: list[bool] = []
    for line in source.splitlines():
        if mark := _MARK.fullmatch(line):
            words = mark[1].split()
            inside.append(all(flags[word.lstrip("!")] != word.startswith("!") for word in words))
        elif line == "#]":
            inside.pop()
        elif all(inside):
            kept.append(line)
    code = _BLANK_LINES.sub("\n\n\n", "\n".join(kept)).strip("\n")
    if not flags["bias_ih"]:
        code = code.replace(" + layer.bias_ih", "")
    if not flags["bias_hh"]:
        code = _SECOND_BIAS.sub("", code)
    return _VALUE.sub(lambda found: values[found[1]], code)


def _base64_lines(tensors: Iterable[Tensor]) -> Iterator[str]:
    """Yield lines of base64: the tensors in order, row by row, little-endian float32."""
    content = b"".join(
        w.detach().cpu().float().contiguous().numpy().astype("<f4").tobytes() for w in tensors
    )
    for start in range(0, len(content), BYTES_A_LINE):
        yield base64.b64encode(content[start : start + BYTES_A_LINE]).decode("ascii")


def _text_literal(symbols: Sequence[str]) -> str:
    """Return a literal of single characters joined, some on each line."""
    pieces = _filled("".join, symbols)
    return "(\n" + "".join(f"    {_quoted(piece)}\n" for piece in pieces) + ")"


def _list_literal(symbols: Sequence[str]) -> str:
    """Return a literal of a list of words, some on each line."""
    words = [f"{_quoted(symbol)}," for symbol in symbols]
    return "[\n" + "".join(f"    {line}\n" for line in _filled(" ".join, words)) + "]"


def _quoted(text: str) -> str:
    """Return a literal of `text` in plain ASCII, which no editor and no transfer can alter."""
    escaped = text.encode("unicode_escape").decode("ascii").replace('"', '\\"')
    return f'"{escaped}"'


def _filled(join: Callable[[Sequence[str]], str], symbols: Sequence[str]) -> Iterator[str]:
    """Yield symbols joined, as many at a time as fit a line once escaped, one at least."""
    line: list[str] = []
    width = 0
    for symbol in symbols:
        size = len(symbol.encode("unicode_escape")) + 1
        if line and width + size > LITERAL_WIDTH:
            yield join(line)
            line, width = [], 0
        line.append(symbol)
        width += size
    if line:
        yield join(line)
