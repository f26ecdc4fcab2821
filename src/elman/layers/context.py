"""From an encoder to a decoder: first states across widths and depths, and rows of a state."""

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from elman.cells.initialising import draw_weights
from elman.errors import SettingError, ShapeError
from elman.layers.stack import RecurrentStack, StackState

BridgeKind = Literal["copy", "projection", "tanh"]
BridgeSource = Literal["all", "forward", "backward"]


def select_rows(state: StackState, rows_N: Tensor) -> StackState:
    """Return the state of these rows of the batch, which may repeat and come in any order."""
    return tuple(type(part)(*(tensor.index_select(0, rows_N) for tensor in part)) for part in state)


class StateBridge(nn.Module):
    """The decoder's first state from the encoder's final one, for each layer and part (h, c).

        copy        s_l = the encoder's part itself: it must be of the decoder's width
        projection  s_l = W_l [forward part, backward part] + b_l
        tanh        the same, and tanh of it for h: s_0 = tanh(W ←h_1) of D. Bahdanau et al.,
                    arXiv:1409.0473, A.2.2, where `source` is "backward" and there is no b

    A decoder's layer reads the encoder's layer at the same distance from the top, the lowest one
    where there is none. A part that the encoder does not have (the memory c of an LSTM after a
    GRU) is made from its h; c is never squashed by tanh, as it is not bounded. `source` says which
    directions are read. The encoder's final state is that of each row's own last valid step, so
    that padding has no part in it. `weight.K` [H, read], `bias.K` [H], one for each part of each
    layer of the decoder.

    Raises `SettingError` where the two stacks cannot be joined in this way.
    """

    def __init__(
        self,
        encoder: RecurrentStack,
        decoder: RecurrentStack,
        kind: BridgeKind = "projection",
        *,
        source: BridgeSource = "all",
    ) -> None:
        super().__init__()
        self.kind, self.source = kind, source
        _require_joinable(encoder, decoder, kind, source)
        ways = {"all": range(encoder.num_directions), "forward": (0,), "backward": (1,)}[source]
        self._num_parts = [
            len(decoder.cell(place).state_names) for place in range(decoder.num_layers)
        ]
        self._encoder_cells = len(encoder.cells)
        reads: list[list[tuple[int, int]]] = []
        weights: list[nn.Parameter] = []
        biases: list[nn.Parameter] = []
        for place in range(decoder.num_layers):
            layer = max(0, place + encoder.num_layers - decoder.num_layers)
            cells = [layer * encoder.num_directions + way for way in ways]
            names = decoder.cell(place).state_names
            for name, written in zip(names, decoder.cell(place).state_sizes, strict=True):
                parts = [(cell, _part_for(encoder, cell, name)) for cell in cells]
                read = sum(encoder.cell(cell).state_sizes[part] for cell, part in parts)
                reads.append(parts)
                if kind == "copy" and read != written:
                    raise SettingError(
                        "a copied state must be of the decoder's width",
                        got=f"{read} for {written}",
                        hint="use a projection",
                    )
                if kind != "copy":
                    weights.append(nn.Parameter(torch.zeros(written, read)))
                    biases.append(nn.Parameter(torch.zeros(written)))
        self._reads = tuple(tuple(parts) for parts in reads)
        self.weight, self.bias = nn.ParameterList(weights), nn.ParameterList(biases)

    def forward(self, state: StackState, decoder: RecurrentStack) -> StackState:
        """Return the first state of `decoder`, the stack given before or one like it.

        `state` is the encoder's final state. Raises `ShapeError` for that of another stack.
        """
        if len(state) != self._encoder_cells:
            raise ShapeError(
                "the state of an encoder must have one part for each layer and direction",
                got=f"{len(state)} parts",
                allowed=str(self._encoder_cells),
            )
        made: list[Tensor] = []
        for place, parts in enumerate(self._reads):
            read_BH = torch.cat([state[cell][part] for cell, part in parts], dim=1)
            if self.kind != "copy":
                read_BH = linear(read_BH, self.weight[place], self.bias[place])
            made.append(read_BH)
        first, layers = 0, []
        for place, num_parts in enumerate(self._num_parts):
            h_BH, *others = made[first : first + num_parts]
            h_BH = torch.tanh(h_BH) if self.kind == "tanh" else h_BH
            layers.append(decoder.cell(place).pack_state([h_BH, *others]))
            first += num_parts
        return tuple(layers)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the matrices from ±1/√(their columns); the biases become 0."""
        for weight, bias in zip(self.weight, self.bias, strict=True):
            draw_weights([("weight", weight)], weight.shape[1], "uniform", generator)
            with torch.no_grad():
                bias.zero_()


def _part_for(encoder: RecurrentStack, cell: int, name: str) -> int:
    """Return the place of the part `name` of an encoder's cell, or of its h."""
    names = encoder.cell(cell).state_names
    return names.index(name) if name in names else 0


def _require_joinable(
    encoder: RecurrentStack, decoder: RecurrentStack, kind: BridgeKind, source: BridgeSource
) -> None:
    for name, value, choices in (("kind", kind, BridgeKind), ("source", source, BridgeSource)):
        if value not in get_args(choices):
            allowed = ", ".join(get_args(choices))
            raise SettingError(
                f"the {name} of a bridge is unknown", got=repr(value), allowed=allowed
            )
    if decoder.num_directions != 1:
        raise SettingError("a decoder reads in one direction", got="two", allowed="one")
    if source == "backward" and encoder.num_directions != 2:
        raise SettingError(
            "a bridge from the backward reader needs a bidirectional encoder", got="one direction"
        )
