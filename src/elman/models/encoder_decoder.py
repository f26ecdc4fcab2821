"""The encoder-decoder: a whole sequence → another one, of a length of its own."""

from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from elman.config.model_settings import ModelSettings
from elman.errors import DataError
from elman.kernels.dispatch import KernelPlan
from elman.layers.context import StateBridge
from elman.layers.dropout import drop
from elman.layers.masks import valid_positions
from elman.layers.readout import Readout
from elman.layers.stack import StackState
from elman.models.attending_decoder import AttendingDecoder, DecoderState, SourceView
from elman.models.encoding import SequenceEncoder
from elman.models.learnt import LearntModel


class ReadSource(NamedTuple):
    """A source that was read: what the decoder may look at, and its state before any token."""

    view: SourceView
    state: DecoderState


class TargetOutput(NamedTuple):
    """What a model makes of a known target.

    features_BTF for `readout`, dropped already when a generator is passed; weights_BTS, exactly 0
    on padding of the source, None without attention. Steps beyond a target's length mean nothing.
    """

    features_BTF: Tensor
    readout: Readout
    weights_BTS: Tensor | None


class EncoderDecoder(LearntModel):
    """(source, target so far) → a distribution over the next target token.

        states_1 … states_S, final = encoder(source);  s_0 = bridge(final)
        log p(target) = Σ_t log softmax(readout(drop(features_t)))[y_t],  features: AttendingDecoder

    `model.attention`, `query`, `context`, `coverage` say how source and decoder meet. The encoder
    reads real lengths: `final` is the state of each reader after its last valid step, so that no
    padding is read, and attention sees no padding. Without attention the source is one vector, the
    final states of the top layer's readers, in the one place that `model.context` names: "state"
    makes the decoder's first state of it, and in all others this begins with zeros; with attention
    the bridge makes it always. With `tie_weights` the readout's matrix is the embedding of the
    targets. All parameters are drawn from `generator`.
    """

    def __init__(
        self,
        settings: ModelSettings,
        source_size: int,
        target_size: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.settings = settings
        reader = replace(settings, hidden_size=settings.encoder_size or settings.hidden_size)
        self.encoder = SequenceEncoder(reader, source_size)
        self.decoder = AttendingDecoder(settings, target_size, self.encoder.output_size)
        self.bridge: StateBridge | None = None
        if settings.attention != "none" or settings.context == "state":
            self.bridge = StateBridge(
                self.encoder.stack,
                self.decoder.stack,
                settings.bridge,
                source=settings.bridge_from,
            )
        tied = None
        if settings.tie_weights:
            assert self.decoder.embedding is not None  # settings are checked before
            tied = self.decoder.embedding.weight
        self.readout = Readout(self.decoder.output_size, target_size, tied=tied)
        self.initialise(generator)

    def forward(
        self,
        source_BS: Tensor,
        source_lengths_B: Tensor,
        inputs_BT: Tensor,
        target_lengths_B: Tensor | None = None,
        *,
        plan: KernelPlan,
        generator: torch.Generator | None = None,
    ) -> TargetOutput:
        """Read source_BS, then the known target inputs_BT, whose first id is the start mark.

        Positions from the lengths on are padding. Raises `DataError` for a source of nothing else.
        """
        read = self.read(source_BS, source_lengths_B, plan=plan, generator=generator)
        return self.answer(read, inputs_BT, target_lengths_B, plan=plan, generator=generator)

    def read(
        self,
        source_BS: Tensor,
        source_lengths_B: Tensor,
        *,
        plan: KernelPlan,
        generator: torch.Generator | None = None,
        recompute: int = 0,
    ) -> ReadSource:
        """Return what the decoder needs of source_BS. Raises `DataError` for an empty source.

        `recompute` is that of the encoder's stack.
        """
        _require_sources(source_lengths_B)
        states_BSK, final = self.encoder(
            source_BS, source_lengths_B, plan=plan, generator=generator, recompute=recompute
        )
        first = (
            self.decoder.stack.zero_state(len(source_BS))
            if self.bridge is None
            else self.bridge(final, self.decoder.stack)
        )
        state = self.decoder.first_state(first)
        if self.decoder.attention is None:
            used = self.settings.context != "state"
            return ReadSource(SourceView(None, self._summary(final) if used else None), state)
        s = self.settings
        kept_BSK = drop(states_BSK, s.dropout, generator, kind=s.dropout_kind)
        valid_BS = valid_positions(source_lengths_B, source_BS.shape[1])
        return ReadSource(
            SourceView(self.decoder.attention.prepare(kept_BSK, valid_BS), None), state
        )

    def answer(
        self,
        read: ReadSource,
        inputs_BT: Tensor,
        target_lengths_B: Tensor | None = None,
        *,
        plan: KernelPlan,
        generator: torch.Generator | None = None,
        recompute: int = 0,
    ) -> TargetOutput:
        """Return the features of a known target, read after the source.

        `recompute` is that of the decoder's stack, and acts where all steps run at once.
        """
        steps = self.decoder(
            inputs_BT,
            read.state,
            read.view,
            target_lengths_B,
            plan=plan,
            generator=generator,
            recompute=recompute,
        )
        s = self.settings
        features_BTF = drop(steps.features_BTF, s.dropout, generator, kind=s.dropout_kind)
        return TargetOutput(features_BTF, self.readout, steps.weights_BTS)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw encoder, decoder, bridge and readout, in this order."""
        tied, s = self.settings.tie_weights, self.settings
        std = s.embedding_std or (2.0 / s.embedding_size**0.5 if tied else 1.0)
        self.encoder.initialise(generator)
        self.decoder.initialise(generator, embedding_std=std)
        if self.bridge is not None:
            self.bridge.initialise(generator)
        self.readout.initialise(generator)

    def describe(self) -> dict[str, str]:
        """Return what the settings mean here."""
        s = self.settings
        read = self.encoder.describe()
        meets = f"the fixed last state in the {_PLACES[s.context]}"
        if s.attention != "none":
            meets = (
                f"{s.attention.replace('_', ' ')} attention of the {s.query} state, into the "
                f"{_PLACES[s.context]}" + (", with coverage" if s.coverage != "none" else "")
            )
        return {
            **read,
            "layers": f"encoder {read['layers']}; decoder {s.num_layers} of {s.hidden_size}; "
            + meets,
            "first state": "zeros" if self.bridge is None else f"{s.bridge} of {s.bridge_from}",
            "parameters": str(self.parameter_count()),
        }

    def _summary(self, final: StackState) -> Tensor:
        """Return fixed_BC: the last valid outputs of the top layer's readers, side by side."""
        top = final[-self.encoder.stack.num_directions :]
        return torch.cat([state[0] for state in top], dim=1)


def shifted(target_BT: Tensor, lengths_B: Tensor, boundary_id: int) -> tuple[Tensor, Tensor]:
    """Return what a decoder reads and what it is to answer, both [B, T + 1].

        reads    [S] y_1 … y_n  pad …
        answers  y_1 … y_n [S]  pad …

    The stop mark stands right behind each row's own last token. What is read from the second step
    after it on is padding.
    """
    marks_B1 = target_BT.new_full((len(target_BT), 1), boundary_id)
    inputs_BT = torch.cat((marks_B1, target_BT), dim=1)
    answers_BT = torch.cat((target_BT, marks_B1), dim=1)
    return inputs_BT, answers_BT.scatter(1, lengths_B.unsqueeze(1), boundary_id)


_PLACES = MappingProxyType(
    {
        "state": "first state",
        "transition": "transition",
        "output": "output",
        "both": "transition and the output",
    }
)


def _require_sources(lengths_B: Tensor) -> None:
    empty = (lengths_B < 1).nonzero().flatten().tolist()
    if empty:
        raise DataError(
            "a source must have at least one token: nothing can be made of padding alone",
            got=f"row {', '.join(map(str, empty))} without any",
        )
