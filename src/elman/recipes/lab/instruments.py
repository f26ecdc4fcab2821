"""What experiments measure with: cells that count their steps, and what a graph keeps."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from elman.cells.cell import CellState
from elman.cells.elman import ElmanCell
from elman.config.settings import Settings
from elman.config.text_settings import TextSettings
from elman.config.toml_file import apply_overrides
from elman.models.encoder_decoder import EncoderDecoder
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.presets import PRESETS
from elman.recipes.translate import BASE
from elman.seeding import generator
from elman.text.building import build_tokenizer
from elman.text.tokenizer import Tokenizer

TEN_SEEDS = range(1, 11)


class CountingCell(ElmanCell):
    """The tanh cell, which notes at every step the weights it used: one entry of `used` each."""

    used: list[int]

    @classmethod
    def in_place_of(cls, cell: ElmanCell) -> "CountingCell":
        """Return a counting cell that has the parameters of `cell` itself."""
        twin = cls(cell.input_size, cell.hidden_size, activation=cell.activation, bias=cell.bias)
        for name, parameter in cell.named_parameters():
            setattr(twin, name, parameter)
        twin.used = []
        return twin

    def step(self, x_BE: Tensor, state: CellState, seen_BP: Tensor | None = None) -> CellState:
        """Return the state after a step, as every cell does."""
        self.used.append(self.weight_hh.data_ptr())
        return super().step(x_BE, state, seen_BP)


def letter_tokenizer(letters: str) -> Tokenizer:
    """Return the tokenizer of lines of these letters, the boundary mark among its specials."""
    return build_tokenizer([f"{letters}\n"], TextSettings(unit="line"))


def small_language_model(
    vocabulary_size: int, seed: int, overrides: Sequence[str]
) -> RecurrentLanguageModel:
    """Return a random language model of few units, in float64, with settings laid over."""
    settings = apply_overrides(Settings(), tuple(overrides)).model
    draw = generator(seed, "initialisation")
    return RecurrentLanguageModel(settings, vocabulary_size, draw).double()


def lecture_model(
    source_size: int, target_size: int, seed: int, overrides: Sequence[str] = ()
) -> EncoderDecoder:
    """Return a random encoder-decoder of the preset `lecture`, in float64, with settings over it.

    It has D = 6 units and embeddings of 4 unless they say otherwise.
    """
    sizes = ("model.hidden_size=6", "model.embedding_size=4")
    settings = apply_overrides(BASE, (*PRESETS["lecture"], *sizes, *overrides)).model
    draw = generator(seed, "initialisation")
    return EncoderDecoder(settings, source_size, target_size, draw).double()


def count_steps(model: RecurrentLanguageModel) -> Mapping[int, CountingCell]:
    """Put a counting cell in the place of each Elman cell of `model`; return them by place."""
    counting = {}
    for place in range(len(model.stack.cells)):
        cell = model.stack.cell(place)
        assert isinstance(cell, ElmanCell)
        counting[place] = CountingCell.in_place_of(cell)
        model.stack.cells[place] = counting[place]
    return counting


class KeptForBackward(NamedTuple):
    """What a graph keeps: the shape of a tensor, and the numbers in the memory it is a view of."""

    shape: tuple[int, ...]
    numbers: int


def kept_for_backward(
    run: Callable[[], object], weights: Sequence[Tensor]
) -> list[KeptForBackward]:
    """Return what `run` keeps for a backward pass, each piece of memory once.

    `weights`, which are there anyway, are left out.
    """
    found = dict[int, KeptForBackward]()
    known = {weight.untyped_storage().data_ptr() for weight in weights}
    held = list[Tensor]()

    def keep(tensor: Tensor) -> Tensor:
        held.append(tensor)  # memory that is free again could be taken for another tensor
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in known:
            numbers = memory.nbytes() // tensor.element_size()
            found.setdefault(memory.data_ptr(), KeptForBackward(tuple(tensor.shape), numbers))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run()
    return list(found.values())


class ProductCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts multiplications and additions of the matrix products that run within it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: int = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run one operation of torch; of a product of [B, M, K] and [B, K, N] count 2 B M K N."""
        if func in (torch.ops.aten.bmm.default, torch.ops.aten.mm.default):
            left, right = args
            self.operations += 2 * left.numel() * right.shape[-1]
        return func(*args, **(kwargs or {}))
