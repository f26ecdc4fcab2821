"""The decoder of an encoder-decoder: one target token after another, beside what it knows of the
source.

    fed_t = [embedding(y_{t−1}), context fed];  s_t = stack(fed_t, s_{t−1});  c_t = attend(q_t)
    features_t = [s_t, c_t] where the context enters the output, else s_t
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from elman.cells.registry import build_cell
from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.layers.attention import Attention, ProjectedAttention, SourceMemory, build_attention
from elman.layers.context import select_rows
from elman.layers.dropout import drop
from elman.layers.embedding import Embedding, one_hot_inputs
from elman.layers.stack import RecurrentStack, StackState
from elman.models.stacking import stack_options


class SourceView(NamedTuple):
    """What every step of a decoder may look at: a memory to attend to, or one fixed vector."""

    memory: SourceMemory | None
    fixed_BC: Tensor | None

    def rows(self, rows_N: Tensor) -> "SourceView":
        """Return the view of these rows, which may repeat."""
        return SourceView(
            None if self.memory is None else self.memory.rows(rows_N), _rows(self.fixed_BC, rows_N)
        )


class DecoderState(NamedTuple):
    """What is carried from one step to the next.

    stack: of all layers. context_BC: what the last step retrieved, None where it is not fed on.
    coverage_BS: the sum of all weights so far, None without coverage.
    """

    stack: StackState
    context_BC: Tensor | None = None
    coverage_BS: Tensor | None = None


class DecoderSteps(NamedTuple):
    """What reading some tokens gives: features_BTF for the readout, weights_BTS or None, state."""

    features_BTF: Tensor
    weights_BTS: Tensor | None
    state: DecoderState


class AttendingDecoder(nn.Module):
    """(ids, state, source) → features: a recurrent stack that meets a source of width C.

    With attention, q_t is s_t (`model.query` "current") or s_{t−1} ("previous"), of the top layer.
    The context enters the transition (`model.context`): with the current query that of the step
    before, zeros at the first, and with the previous query that of the step itself; the output
    layer; or both ("input feeding": M.-T. Luong et al., arXiv:1508.04025, section 3.3). Without
    attention the context is the fixed vector of the source at every step.

    Where nothing retrieved enters a transition, all steps of a known target run at once through the
    fast kernels; `read_stepwise` is the readable twin that goes step by step, as a search does.
    """

    def __init__(self, settings: ModelSettings, vocabulary_size: int, source_size: int) -> None:
        super().__init__()
        self.settings, self.vocabulary_size = settings, vocabulary_size
        self.embedding: Embedding | None = None
        read = vocabulary_size
        if settings.input == "embedding":
            self.embedding = Embedding(vocabulary_size, settings.embedding_size)
            read = settings.embedding_size
        written = settings.projection_size or settings.hidden_size
        self.attention = _built_attention(settings, written, source_size)
        self.context_size = source_size
        self.feeds_context = settings.context in ("transition", "both")
        self.shows_context = settings.context in ("output", "both")
        read += source_size if self.feeds_context else 0
        self.stack = RecurrentStack(
            [
                build_cell(settings, written if layer else read, layer)
                for layer in range(settings.num_layers)
            ],
            options=stack_options(settings),
        )
        self.output_size = written + (source_size if self.shows_context else 0)

    @property
    def runs_at_once(self) -> bool:
        """Whether no step waits for what the step before has retrieved."""
        return self.attention is None or not self.feeds_context

    def first_state(self, stack: StackState) -> DecoderState:
        """Return the state before any token, with the first state of the stack."""
        fed = None
        if self.attention is not None and self.feeds_context:
            top_BH = stack[-1][0]
            fed = top_BH.new_zeros(len(top_BH), self.context_size)
        return DecoderState(stack, fed)

    def forward(
        self,
        ids_BT: Tensor,
        state: DecoderState,
        source: SourceView,
        lengths_B: Tensor | None = None,
        *,
        plan: KernelPlan,
        generator: torch.Generator | None = None,
        recompute: int = 0,
    ) -> DecoderSteps:
        """Read ids_BT after `state`, in the fastest way that gives the numbers of one by one.

        Steps t ≥ lengths_B are padding; their features mean nothing, and nothing valid depends on
        them. `state` in the result is that after all steps where lengths_B is None.
        """
        if not self.runs_at_once:
            return self.read_stepwise(ids_BT, state, source, plan=plan, generator=generator)
        x_BTE = self._embedded(ids_BT, generator)
        fixed_BTC = None
        if source.fixed_BC is not None:
            fixed_BTC = source.fixed_BC.unsqueeze(1).expand(-1, x_BTE.shape[1], -1)
            if self.feeds_context:
                x_BTE = torch.cat((x_BTE, fixed_BTC), dim=2)
        states_BTH, after = self.stack(
            x_BTE, state.stack, lengths_B, plan=plan, generator=generator, recompute=recompute
        )
        if self.attention is None or source.memory is None:
            features_BTF = self._features(states_BTH, fixed_BTC)
            return DecoderSteps(features_BTF, None, DecoderState(after))
        query_BTH = states_BTH
        if self.settings.query == "previous":
            first_B1H = state.stack[-1][0].unsqueeze(1)
            query_BTH = torch.cat((first_B1H, states_BTH[:, :-1]), dim=1)
        found = self.attention.attend(query_BTH, source.memory, state.coverage_BS)
        return DecoderSteps(
            self._features(states_BTH, found.context_BTC),
            found.weights_BTS,
            DecoderState(after, None, found.coverage_BS),
        )

    def read_stepwise(
        self,
        ids_BT: Tensor,
        state: DecoderState,
        source: SourceView,
        *,
        plan: KernelPlan,
        generator: torch.Generator | None = None,
    ) -> DecoderSteps:
        """Read ids_BT one after the other: the equations as they stand, for any settings.

        One step alone draws noise of its own; more than one draws that of all steps first.
        """
        x_BTE = self._embedded(ids_BT, generator)
        noise = self.stack.draw_noise(self._wide(x_BTE), generator)
        features, weights = [], []
        for step, x_BE in enumerate(x_BTE.unbind(1)):
            found = None
            fed_BC = source.fixed_BC if self.attention is None else state.context_BC
            if self.attention is not None and self.settings.query == "previous":
                found = self._attend(state.stack, state.coverage_BS, source)
                fed_BC = found.state.context_BC
            read_BE = x_BE
            if self.feeds_context and fed_BC is not None:
                read_BE = torch.cat((x_BE, fed_BC), dim=1)
            states_B1H, stack = self.stack.run_under(
                read_BE.unsqueeze(1), state.stack, noise.of_steps(step, step + 1), plan=plan
            )
            if self.attention is not None and found is None:
                found = self._attend(stack, state.coverage_BS, source)
            shown_BC = source.fixed_BC
            if found is None:
                state = DecoderState(stack)
            else:
                shown_BC = found.state.context_BC
                kept_BC = shown_BC if self.feeds_context else None
                state = DecoderState(stack, kept_BC, found.state.coverage_BS)
                weights.append(found.weights_BS)
            shown_B1C = None if shown_BC is None else shown_BC.unsqueeze(1)
            features.append(self._features(states_B1H, shown_B1C))
        return DecoderSteps(
            torch.cat(features, dim=1), torch.stack(weights, dim=1) if weights else None, state
        )

    def reordered(self, state: DecoderState, rows_N: Tensor) -> DecoderState:
        """Return the state of these rows, which may repeat and come in any order."""
        return DecoderState(
            select_rows(state.stack, rows_N),
            _rows(state.context_BC, rows_N),
            _rows(state.coverage_BS, rows_N),
        )

    def initialise(self, generator: torch.Generator, *, embedding_std: float) -> None:
        """Draw embedding, cells and attention, in this order."""
        if self.embedding is not None:
            self.embedding.initialise(generator, std=embedding_std)
        self.stack.initialise(generator, self.settings.initialisation)
        if self.attention is not None:
            self.attention.initialise(generator)

    def _attend(
        self, stack: StackState, coverage_BS: Tensor | None, source: SourceView
    ) -> "_Found":
        assert self.attention is not None
        assert source.memory is not None  # the encoder prepares one where there is attention
        found = self.attention.attend(stack[-1][0], source.memory, coverage_BS)
        return _Found(DecoderState(stack, found.context_BTC, found.coverage_BS), found.weights_BTS)

    def _features(self, states_BTH: Tensor, context_BTC: Tensor | None) -> Tensor:
        if not self.shows_context or context_BTC is None:
            return states_BTH
        return torch.cat((states_BTH, context_BTC), dim=2)

    def _embedded(self, ids_BT: Tensor, generator: torch.Generator | None) -> Tensor:
        s = self.settings
        if self.embedding is None:
            dtype = self.stack.cell(0).weight_ih.dtype
            return one_hot_inputs(ids_BT, self.vocabulary_size, dtype)
        x_BTE: Tensor = self.embedding(ids_BT, s.token_dropout, generator)
        return drop(x_BTE, s.embedding_dropout, generator, kind=s.dropout_kind)

    def _wide(self, x_BTE: Tensor) -> Tensor:
        """Return something of the shape that the stack reads, for the shapes of its noise."""
        return x_BTE.new_empty(1).expand(*x_BTE.shape[:2], self.stack.input_size)


class _Found(NamedTuple):
    """What one query has retrieved, as the state after it, and its weights."""

    state: DecoderState
    weights_BS: Tensor


def _rows(part: Tensor | None, rows_N: Tensor) -> Tensor | None:
    return None if part is None else part.index_select(0, rows_N)


def _built_attention(s: ModelSettings, query_size: int, key_size: int) -> Attention | None:
    if s.attention == "none":
        return None
    if s.attention == "projected" and s.attention_bias:
        return ProjectedAttention(query_size, key_size, bias="query")
    return build_attention(
        s.attention,
        query_size,
        key_size,
        attention_size=s.attention_size,
        num_heads=s.attention_heads,
        coverage=s.coverage,
    )
