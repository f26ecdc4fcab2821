"""An encoder-decoder as the step functions of a search, and searches over batches of sources."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from elman.decoding.beam import BeamSettings, beam_search
from elman.decoding.ensemble import averaged_steps
from elman.decoding.search import Hypothesis, SearchLimits, StepFunctions, greedy_search
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.models.attending_decoder import DecoderState, SourceView
from elman.models.encoder_decoder import EncoderDecoder


class Between(NamedTuple):
    """What a search keeps between two tokens.

    sources_N: the source of each row; view: what the rows may look at, made anew only where another
    source stands in a row. weights_NS are those of the step that made it.
    """

    state: DecoderState
    view: SourceView
    sources_N: Tensor
    weights_NS: Tensor | None


@dataclass(frozen=True)
class TargetIds:
    """The ids of a target vocabulary that a search must know.

    boundary_id starts and ends a target; pad_id is never generated, nor is unk_id where there is
    one, unless a search keeps it.
    """

    boundary_id: int
    pad_id: int
    unk_id: int | None = None


@dataclass(frozen=True)
class TranslationSearch:
    """How answers are searched for.

    beam: None is greedy. min_length, max_length: tokens before the stop mark, the second not below
    the first; max_length 0 lets each source have `growth` times its own length and `SPARE` more.
    keep_unknown: [ UNK ] may be generated, for the words that are then copied from the source.
    keep_attention: hypotheses have their weights_TS; they grow with the square of the length, and
    are kept only where this, copying or a coverage penalty needs them.
    """

    beam: BeamSettings | None = None
    min_length: int = 0
    max_length: int = 0
    growth: float = 2.0
    keep_unknown: bool = False
    keep_attention: bool = False

    SPARE = 10

    def __post_init__(self) -> None:
        for name, value in (("min_length", self.min_length), ("max_length", self.max_length)):
            if value < 0:
                raise SettingError(f"{name} must be an int >= 0", got=str(value))
        if 0 < self.max_length < self.min_length:
            raise SettingError(
                "max_length must be 0 or at least min_length",
                got=f"{self.max_length} with min_length {self.min_length}",
            )
        if not 0 <= self.growth < math.inf:
            raise SettingError(
                "the growth of a search must be a finite number >= 0", got=f"{self.growth:g}"
            )

    @property
    def needs_attention(self) -> bool:
        """Whether the weights of each step must be kept."""
        penalised = self.beam is not None and self.beam.coverage != 0
        return self.keep_attention or self.keep_unknown or penalised

    def longest(self, source_length: int) -> int:
        """Return the greatest length of the answer to a source; no neighbour enters it."""
        own = self.max_length or math.ceil(self.growth * source_length) + self.SPARE
        return max(own, self.min_length)


def translation_steps(
    model: EncoderDecoder, plan: KernelPlan, *, keep_attention: bool = True
) -> StepFunctions[Between]:
    """Return the functions of `model`, dropout off. Start from what `model.read` returns."""

    def step(before: Between, last_ids_N: Tensor) -> tuple[Tensor, Between]:
        steps = model.decoder.read_stepwise(
            last_ids_N.unsqueeze(1), before.state, before.view, plan=plan
        )
        logits_NV = model.readout.logits(steps.features_BTF[:, 0])
        weights_NS = None if steps.weights_BTS is None else steps.weights_BTS[:, 0]
        return logits_NV.log_softmax(dim=1), before._replace(
            state=steps.state, weights_NS=weights_NS
        )

    def reorder(before: Between, rows_N: Tensor) -> Between:
        weights_NS, sources_N = before.weights_NS, before.sources_N[rows_N]
        stays = torch.equal(sources_N, before.sources_N)
        return Between(
            model.decoder.reordered(before.state, rows_N),
            before.view if stays else before.view.rows(rows_N),
            sources_N,
            None if weights_NS is None else weights_NS.index_select(0, rows_N),
        )

    def weights(state: Between) -> Tensor:
        assert state.weights_NS is not None  # asked for after a step with attention alone
        return state.weights_NS

    kept = keep_attention and model.decoder.attention is not None
    return StepFunctions(step, reorder, weights if kept else None)


def search_answers(
    models: Sequence[EncoderDecoder],
    sources: Sequence[Sequence[int]],
    ids: TargetIds,
    search: TranslationSearch,
    *,
    plan: KernelPlan,
) -> list[list[Hypothesis]]:
    """Return for each source its answers, the best one first; all are searched together.

    Of several models the probabilities are averaged at every step; they must have the same ids.
    Neither the order nor the company of a source changes its answers. Raises `DataError` for a
    source without ids: `decode_in_order` answers those without the model.
    """
    lengths = [len(source) for source in sources]
    if not sources:
        return []
    source_BS = torch.zeros(len(sources), max(lengths), dtype=torch.int64)
    for row, source in enumerate(sources):
        source_BS[row, : len(source)] = torch.as_tensor(source, dtype=torch.int64)
    forbidden = [ids.pad_id]
    if ids.unk_id is not None and not search.keep_unknown:
        forbidden.append(ids.unk_id)
    limits = SearchLimits(
        ids.boundary_id,
        tuple(search.longest(length) for length in lengths),
        min_length=search.min_length,
        forbidden_ids=tuple(forbidden),
    )
    start_ids_B = torch.full((len(sources),), ids.boundary_id, dtype=torch.int64)
    with torch.inference_mode():
        first = tuple(_beginning(model, source_BS, torch.tensor(lengths), plan) for model in models)
        keep = search.needs_attention
        functions = averaged_steps(
            [translation_steps(model, plan, keep_attention=keep) for model in models]
        )
        if search.beam is None:
            found = greedy_search(functions, first, start_ids_B, limits, source_lengths=lengths)
            return [[one] for one in found]
        return beam_search(
            functions, first, start_ids_B, limits, search.beam, source_lengths=lengths
        )


def _beginning(
    model: EncoderDecoder, source_BS: Tensor, lengths_B: Tensor, plan: KernelPlan
) -> Between:
    """Return what a search begins with: the sources read, and no attention paid yet."""
    read = model.read(source_BS, lengths_B, plan=plan)
    attends = model.decoder.attention is not None
    weights_NS = torch.zeros(source_BS.shape) if attends else None
    return Between(read.state, read.view, torch.arange(len(source_BS)), weights_NS)
