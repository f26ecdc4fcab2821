"""All figures of a tagger on one part of the data: tokens, sentences, spans, and a baseline."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from elman.evaluation.spans import SpanScheme, SpanScores, span_scores
from elman.evaluation.tags import TagScores, tag_scores


@dataclass(frozen=True)
class TagFigures:
    """The figures of one system; `strict` and `conll` are None where tags tell no spans."""

    tags: TagScores
    strict: SpanScores | None
    conll: SpanScores | None

    def to_json(self) -> dict[str, object]:
        """Return every figure; those of spans stand under the names of their rules."""
        spans = None
        if self.strict is not None and self.conll is not None:
            spans = {"strict": self.strict.to_json(), "conll": self.conll.to_json()}
        return {**self.tags.to_json(), "spans": spans}


@dataclass(frozen=True)
class TagReport:
    """What a tagger reaches, and beside it each word's usual tag on the same sentences.

    `loss_nats` is Σ −log p of the gold tags of the sentences whose tags the tagger all knows, and
    `num_loss_tokens` how many tags these are.
    """

    model: TagFigures
    usual: TagFigures
    loss_nats: float
    num_loss_tokens: int

    @property
    def nats_per_token(self) -> float | None:
        """loss_nats / num_loss_tokens; None without a token."""
        return self.loss_nats / self.num_loss_tokens if self.num_loss_tokens else None

    def to_json(self) -> dict[str, object]:
        """Return the figures of the model, its loss, and those of the baseline."""
        return {
            **self.model.to_json(),
            "loss_nats": self.loss_nats,
            "num_loss_tokens": self.num_loss_tokens,
            "nats_per_token": self.nats_per_token,
            "usual_tags": self.usual.to_json(),
        }


def tag_figures(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    words: Sequence[Sequence[str]],
    train_words: Collection[str],
    tags: Sequence[str],
    scheme: SpanScheme | None,
) -> TagFigures:
    """Compare tags as files spell them; `scheme` None: they tell no spans.

    `tags` are those that the system can predict. Raises as `tag_scores` and `span_scores` do.
    """
    scores = tag_scores(gold, predicted, words=words, train_words=train_words, tags=tags)
    if scheme is None:
        return TagFigures(scores, None, None)
    return TagFigures(
        scores,
        span_scores(gold, predicted, rule="strict", scheme=scheme, tags=tags),
        span_scores(gold, predicted, rule="conll", scheme=scheme, tags=tags),
    )
