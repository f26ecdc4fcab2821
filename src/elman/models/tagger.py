"""The aligned transducer: a sentence → a tag for each of its tokens."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding, linear

from elman.cells.initialising import draw_weights
from elman.config.model_settings import ModelSettings
from elman.data.examples import TagBatch
from elman.kernels.dispatch import KernelPlan
from elman.layers.crf import ChainScores, LinearChainCRF, best_paths
from elman.layers.dropout import drop
from elman.layers.masks import valid_positions
from elman.models.encoding import SequenceEncoder
from elman.models.learnt import LearntModel
from elman.models.spelling import SpellingEncoder
from elman.text.tag_schemes import AllowedTransitions


class SequenceTagger(LearntModel):
    """sentences → emissions_BTC: how well each tag fits each token, and the tags that fit best.

        x_t = drop([embedding(word_t), spelling(word_t)]);  states = encoder(x)
        emissions = W drop(states) + b

    W [C, H], b [C]. With `model.head = "softmax"` emissions are logits and p(y) is the product of a
    softmax at each step; with "crf" they are scores of a linear chain (`elman.layers.crf`). Each
    distinct word of a batch is spelled once. All parameters are drawn from `generator`.
    """

    def __init__(
        self,
        settings: ModelSettings,
        num_words: int,
        num_characters: int,
        num_tags: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.spelling: SpellingEncoder | None = None
        if settings.character_units:
            self.spelling = SpellingEncoder(settings, num_characters)
        extra = self.spelling.output_size if self.spelling is not None else 0
        self.encoder = SequenceEncoder(settings, num_words, extra_size=extra)
        width = self.encoder.output_size
        self.weight = torch.nn.Parameter(torch.zeros(num_tags, width))
        self.bias = torch.nn.Parameter(torch.zeros(num_tags))
        self.crf = LinearChainCRF(num_tags) if settings.head == "crf" else None
        self.initialise(generator)

    def forward(
        self,
        batch: TagBatch,
        *,
        plan: KernelPlan,
        generator: torch.Generator | None = None,
        recompute: int = 0,
    ) -> Tensor:
        """Return emissions_BTC; what stands at padding is of no use. `batch.tags_BT` is not read.

        Dropout acts if and only if a generator is passed. `recompute` is that of the stack.
        """
        states_BTH, _ = self.encoder(
            batch.ids_BT,
            batch.lengths_B,
            self._spelled(batch, plan),
            plan=plan,
            generator=generator,
            recompute=recompute,
        )
        return self.read_out(states_BTH, generator)

    def inputs(self, batch: TagBatch, *, plan: KernelPlan) -> Tensor:
        """Return x_BTE, what the first layer reads of each token: its embedding and spelling."""
        return self.encoder.inputs(batch.ids_BT, self._spelled(batch, plan))

    def read_out(self, states_BTH: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return emissions_BTC of the encoder's states."""
        p, kind = self.settings.dropout, self.settings.dropout_kind
        return linear(drop(states_BTH, p, generator, kind=kind), self.weight, self.bias)

    def tag_nats(
        self,
        emissions_BTC: Tensor,
        tags_BT: Tensor,
        lengths_B: Tensor,
        *,
        label_smoothing: float = 0.0,
    ) -> Tensor:
        """Return Σ −log p(tags) over the sentences, in nats: a float64 scalar.

        Smoothing is that of `torch.nn.functional.cross_entropy`, and for a softmax head alone.
        """
        if self.crf is not None:
            return -self.crf.log_likelihood(emissions_BTC, tags_BT, lengths_B).log_likelihood_nats
        valid_BT = valid_positions(lengths_B, emissions_BTC.shape[1])
        return cross_entropy(
            emissions_BTC[valid_BT].double(),
            tags_BT[valid_BT],
            reduction="sum",
            label_smoothing=label_smoothing,
        )

    def best_tags(
        self,
        emissions_BTC: Tensor,
        lengths_B: Tensor,
        allowed: AllowedTransitions | None = None,
    ) -> Tensor:
        """Return tags_BT, 0 at padding: the likeliest sequence of each sentence, within `allowed`.

        Of a softmax head without `allowed`, that is the likeliest tag of each token. Raises
        `DataError` where no sequence is allowed.
        """
        if self.crf is not None:
            return self.crf.best_path(emissions_BTC, lengths_B, allowed).tags_BT
        num_tags = emissions_BTC.shape[2]
        if allowed is None:
            valid_BT = valid_positions(lengths_B, emissions_BTC.shape[1])
            return emissions_BTC.argmax(dim=2).masked_fill(~valid_BT, 0)
        # The normalisers of the softmaxes are the same for all sequences.
        zeros_C = emissions_BTC.new_zeros(num_tags)
        chain = ChainScores(zeros_C, emissions_BTC.new_zeros(num_tags, num_tags), zeros_C)
        return best_paths(emissions_BTC, lengths_B, chain, allowed).tags_BT

    def tag_probs(self, emissions_BTC: Tensor, lengths_B: Tensor) -> Tensor:
        """Return probs_BTC (float64), p(tag at each step), 0 at padding."""
        if self.crf is not None:
            return self.crf.marginals(emissions_BTC, lengths_B)
        valid_BT = valid_positions(lengths_B, emissions_BTC.shape[1])
        return emissions_BTC.double().softmax(dim=2).masked_fill(~valid_BT.unsqueeze(2), 0.0)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw every parameter: spelling, encoder, W from ±1/√H, chain; b becomes 0."""
        if self.spelling is not None:
            self.spelling.initialise(generator)
        self.encoder.initialise(generator)
        draw_weights([("weight", self.weight)], self.weight.shape[1], "uniform", generator)
        with torch.no_grad():
            self.bias.zero_()
        if self.crf is not None:
            self.crf.initialise(generator)

    def describe(self) -> dict[str, str]:
        """Return what the settings mean here."""
        s = self.settings
        spelled = "not read"
        if self.spelling is not None:
            spelled = f"{s.character_units} units in both directions, characters of "
            spelled += str(s.character_size)
        heads = {"softmax": "a softmax for each token", "crf": "a linear-chain CRF"}
        return {
            **self.encoder.describe(),
            "spelling": spelled,
            "head": heads[s.head],
            "tags": str(len(self.bias)),
            "parameters": str(self.parameter_count()),
        }

    def _spelled(self, batch: TagBatch, plan: KernelPlan) -> Tensor | None:
        """Return the vector of each token's spelling, [B, T, E]; None where none is read."""
        if self.spelling is None:
            return None
        vectors_WE = self.spelling(batch.spellings_WK, batch.spelling_lengths_W, plan=plan)
        return embedding(batch.words_BT, vectors_WE)
