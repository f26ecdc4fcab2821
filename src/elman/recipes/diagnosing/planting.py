"""Faults planted on purpose: in the text, the settings, the weights or the state of a run.

They are what a diagnosis is measured by (`benchmarks/diagnosis.py`): the same run with and without
one fault.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from elman.atomic_files import write_atomically
from elman.cells.cell import Cell
from elman.checkpoints.run_folder import MANIFEST, RunFolder
from elman.errors import SettingError
from elman.models.language import ModelOutput
from elman.models.learnt import LearntModel
from elman.recipes.classifying import open_classifier
from elman.recipes.tagging import open_tagger
from elman.recipes.trained import open_trained, task_of
from elman.recipes.translating import open_translator


class Texts(NamedTuple):
    """What is learnt from and what is chosen by."""

    train: str
    valid: str


class Planting(NamedTuple):
    """A fault put into what a run is made from: another text or other settings, learnt anew."""

    overrides: tuple[str, ...] = ()
    text: Callable[[Texts], Texts] = lambda texts: texts


def _first_half(text: str) -> str:
    """Return whole lines, about half of them."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[: len(lines) // 2])


def _in_other_letters(text: str) -> str:
    """Return the text with every second letter one of another alphabet."""
    return "".join(chr(ord(sign) + 0x400) if sign in "aeiouAEIOU" else sign for sign in text)


def _of_another_kind(text: str) -> str:
    """Return the text in a cipher: the same letters, each in another's place."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return text.lower().translate(str.maketrans(letters, letters[13:] + letters[:13]))


def _beginning(text: str) -> str:
    """Return a few hundred characters, in whole lines where lines are short."""
    end = text.find("\n", 300) + 1
    return text[: end if 0 < end < 600 else 300]


def _filled_up(text: str) -> str:
    """Return every line filled up with blanks to one length."""
    lines = text.splitlines()
    width = 10 + max(map(len, lines))
    return "".join(f"{line:<{min(width, 2 * len(line) + 20)}}\n" for line in lines)


def _filled_up_by_words(text: str) -> str:
    """Return every line with ten words of filling."""
    return "".join(f"{line}{' <pad>' * 10}\n" for line in text.splitlines())


TRAINED: Mapping[str, Planting] = MappingProxyType(
    {
        "rate-too-high": Planting(("training.learning_rate=30", "training.warmup_updates=0")),
        "nothing-learnt": Planting(("training.learning_rate=1e-6",)),
        "overfitting": Planting(
            ("model.dropout=0", "training.epochs=0"),
            lambda texts: texts._replace(train=texts.train[:3000]),
        ),
        "window-too-short": Planting(("training.window=2",)),
        "held-out-in-training": Planting(
            (), lambda texts: texts._replace(train=texts.train + _first_half(texts.valid))
        ),
        "repeated-training-text": Planting((), lambda texts: texts._replace(train=texts.train * 2)),
        "unknown-tokens": Planting(
            (), lambda texts: texts._replace(valid=_in_other_letters(texts.valid))
        ),
        "another-text-held-out": Planting(
            (), lambda texts: texts._replace(valid=_of_another_kind(texts.valid))
        ),
        "padding-in-text": Planting((), lambda texts: Texts(*map(_filled_up, texts))),
        "too-little-held-out": Planting(
            (), lambda texts: texts._replace(valid=_beginning(texts.valid))
        ),
    }
)
"""Faults that training begins with."""

TRAINED_ON_WORDS: Mapping[str, Planting] = MappingProxyType(
    {"padding-in-text": Planting((), lambda texts: Texts(*map(_filled_up_by_words, texts)))}
)
"""Those that are other ones where a token is a word, to which blanks are nothing."""


def _broken(model: nn.Module) -> None:
    _cells(model)[0].weight_ih.flatten()[:3] = float("nan")


def _blank(model: nn.Module) -> None:
    weight_VE = model.get_parameter("embedding.weight")
    weight_VE[::3] = weight_VE[0]


def _overconfident(model: nn.Module) -> None:
    for parameter in model.get_submodule("readout").parameters():
        parameter.mul_(3.0)


def _biased(model: nn.Module) -> None:
    bias_V = model.get_parameter("readout.bias")
    bias_V[int(bias_V.argmax())] -= 8.0


def _ignoring(model: nn.Module) -> None:
    for cell in _cells(model)[:1]:
        cell.weight_ih.mul_(1e-4)


def _vanishing(model: nn.Module) -> None:
    _closed(model)
    for cell in _cells(model):
        if cell.is_recurrent:
            cell.weight_hh.mul_(0.003)


def _exploding(model: nn.Module) -> None:
    for cell in _cells(model):
        cell.weight_hh.mul_(6.0)


def _saturated(model: nn.Module) -> None:
    for cell in _cells(model):
        for parameter in cell.parameters():
            parameter.mul_(100.0)


def _closed(model: nn.Module) -> None:
    for cell in _cells(model):
        gate, closing = carrying_gate(cell.key)
        if not gate:
            continue
        if cell.bias_ih is None:
            raise SettingError("a cell without biases has no forget bias")
        place, size = cell.gate_names.index(gate), cell.hidden_size
        cell.bias_ih[place * size : (place + 1) * size] += closing


def carrying_gate(key: str) -> tuple[str, float]:
    """Return the gate that carries the memory of a cell, and what closes it; "" where none does."""
    kind = key.partition("/")[0].partition("+")[0]
    if kind == "gru":
        return "update", 8.0 if "replace" in key else -8.0
    return {
        "lstm": ("forget", -8.0),
        "minlstm": ("forget", -8.0),
        "mgu": ("forget", 8.0),
        "mingru": ("update", 8.0),
    }.get(kind, ("", 0.0))


def _dead(model: nn.Module) -> None:
    for cell in _cells(model):
        third = cell.hidden_size // 3
        for parameter in cell.weights:
            rows = parameter.view(-1, cell.hidden_size, *parameter.shape[1:])
            rows[:, :third] = 0.0


WEIGHTS: Mapping[str, Callable[[nn.Module], None]] = MappingProxyType(
    {
        "broken-weights": _broken,
        "blank-vectors": _blank,
        "overconfident": _overconfident,
        "biased-output": _biased,
        "input-ignored": _ignoring,
        "vanishing-reach": _vanishing,
        "exploding-reach": _exploding,
        "saturated-gates": _saturated,
        "closed-forget-gates": _closed,
        "dead-units": _dead,
    }
)
"""Faults that are put into the weights of a trained recurrent model, in place."""


def plant_in_weights(path: Path, fault: str) -> None:
    """Change the weights of the run at `path`, which keep their digest and what they belong to.

    Raises `SettingError` for a fault that such a model cannot have.
    """
    model = _model_of(path)
    with torch.no_grad():
        WEIGHTS[fault](model)
    folder = RunFolder.open(path)
    _, record = folder.map_weights()
    folder.save_weights(model, update=record.update)


def _model_of(path: Path) -> LearntModel:
    match task_of(path):
        case "classify":
            return open_classifier(path).models[0]
        case "tag":
            return open_tagger(path).model
        case "translate":
            return open_translator(path).models[0]
        case _:
            return open_trained(path).model


def plant_in_state(path: Path) -> None:
    """Make the state that was saved a thousand times as large."""
    folder = RunFolder.open(path)
    state = folder.load_state()
    tensors = {
        name: tensor * 1000.0 if name.startswith("carried.") else tensor
        for name, tensor in state.tensors.items()
    }
    folder.save_state(tensors, state.facts)


def plant_unfinished(path: Path) -> None:
    """Make the run one that was stopped: it has no results."""
    told = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    told["results"] = {}
    write_atomically(path / MANIFEST, json.dumps(told).encode())


def lines_by_chance(text: str, seed: int) -> str:
    """Return the lines of a text in an order by chance, so that each stands alone."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[place] for place in np.random.default_rng(seed).permutation(len(lines)))


def _cells(model: nn.Module) -> list[Cell]:
    found = [module for module in model.modules() if isinstance(module, Cell)]
    if not found:
        raise SettingError("only a recurrent model can have this fault")
    return found


def deaf_to_lengths(model: nn.Module) -> RemovableHandle:
    """Let a language model take padding for text, until the handle is removed."""

    def without_lengths(module: nn.Module, given: tuple[object, ...]) -> tuple[object, ...]:
        return given[:2]

    return model.register_forward_pre_hook(without_lengths)


def mixing_rows(model: nn.Module) -> RemovableHandle:
    """Let the rows of a batch of a language model know of one another, until it is removed."""

    def mixed(module: nn.Module, given: object, output: ModelOutput) -> ModelOutput:
        states_BTH = output.states_BTH
        return output._replace(states_BTH=states_BTH + 0.1 * states_BTH.mean(dim=0, keepdim=True))

    return model.register_forward_hook(mixed)
