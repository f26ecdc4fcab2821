"""A tagger and a sentence: at every token, its tag with its probability, and the runner-up."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from elman.config.text_settings import UnknownPolicy
from elman.data.examples import TagBatch
from elman.errors import DataError, SettingError
from elman.inspection.gradient_reach import Scalar
from elman.layers.stack import RecurrentStack
from elman.models.tagger import SequenceTagger
from elman.recipes.inspecting.answering import (
    VOCABULARY_AT_ONCE,
    AnsweringSubject,
    read_as,
)
from elman.recipes.inspecting.unknown_marks import told_unknown
from elman.recipes.tagging import TrainedTagger, open_tagger


@dataclass(frozen=True)
class TagShare:
    """A tag of the scheme learnt and its probability at one token."""

    tag: str
    probability: float

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return {"tag": self.tag, "probability": self.probability}


@dataclass(frozen=True)
class TagSaid:
    """The tag of a token within the best sequence, `written` as files spell it.

    Probabilities are those at this token over all sequences (of a CRF, marginals): the runner-up,
    the likeliest other tag, may have a larger one where the best sequence needs a tag of less.
    None where there is no other tag. `read` is what was read.
    """

    tag: TagShare
    written: str
    runner_up: TagShare | None
    top: tuple[TagShare, ...]
    read: Mapping[str, int | float]

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return {
            **self.read,
            **self.tag.to_json(),
            "written": self.written,
            "runner_up": None if self.runner_up is None else self.runner_up.to_json(),
            "top": [share.to_json() for share in self.top],
        }

    def columns(self) -> dict[str, object]:
        """Return a cell for each column."""
        other = self.runner_up
        return {
            **self.read,
            "tag": self.tag.tag,
            "probability": self.tag.probability,
            "written": self.written,
            "runner-up": "" if other is None else other.tag,
            "runner-up probability": "" if other is None else other.probability,
        }

    @property
    def mark(self) -> float:
        """The probability of the tag, in percent."""
        return 100.0 * self.tag.probability


@dataclass(frozen=True)
class TaggerSubject(AnsweringSubject):
    """A sentence as a batch of one; best_1T are the tags given and probs_1TC those of every tag."""

    tagger: TrainedTagger
    batch: TagBatch
    best_1T: Tensor
    written: tuple[str, ...]
    probs_1TC: Tensor

    task = "tag"
    mark_title = "percent of each token's tag"

    @property
    def module(self) -> SequenceTagger:
        """The tagger."""
        return self.tagger.model

    @property
    def stack(self) -> RecurrentStack:
        """The layers of its encoder, above the spellings."""
        return self.module.encoder.stack

    def read(self) -> None:
        """Tag the sentence by the run's kernels."""
        self.tagger.emissions([self.shown])

    def vocabulary_pieces(self) -> Iterator[Tensor]:
        """Yield every word that training had, spelled, some at a time."""
        vocabulary = self.tagger.vocabulary
        words = sorted(vocabulary.known_words)
        for start in range(0, len(words), VOCABULARY_AT_ONCE):
            some = [[word] for word in words[start : start + VOCABULARY_AT_ONCE]]
            yield _inputs(self.tagger, vocabulary.batch(some))

    def said(self, top: int) -> Sequence[TagSaid]:
        """Return what is said of each token."""
        tags = self.tagger.vocabulary.tags.tags
        read = read_as(self.batch.ids_BT[0].numpy(), numbers=False)
        found = []
        for place, probs in enumerate(self.probs_1TC[0].tolist()):
            own = int(self.best_1T[0, place])
            shares = [TagShare(tag, prob) for tag, prob in zip(tags, probs, strict=True)]
            shares.sort(key=lambda share: -share.probability)
            others = [share for share in shares if share.tag != tags[own]]
            found.append(
                TagSaid(
                    TagShare(tags[own], probs[own]),
                    self.written[place],
                    others[0] if others else None,
                    tuple(shares[:top]),
                    read[place],
                )
            )
        return found

    def answer_json(self) -> Mapping[str, object]:
        """Return the tags as files spell them, and the probability of each."""
        probs_1T = self.probs_1TC.gather(2, self.best_1T.unsqueeze(2)).squeeze(2)
        return {"tags": list(self.written), "probabilities": probs_1T[0].tolist()}

    def value(self, states_1TH: Tensor, scalar: Scalar, at: int | None) -> Tensor:
        """Return −ln p of all the tags together, or of one at a step; or their score; or a norm.

        The logit is the emission of a tag, or the sum of those of all tags.
        """
        if scalar == "state":
            meant = states_1TH if at is None else states_1TH[:, at]
            norm_1: Tensor = torch.linalg.vector_norm(meant.flatten(1), dim=1)
            return norm_1
        emissions_1TC = self.module.read_out(states_1TH)
        chosen_1T1 = self.best_1T.unsqueeze(2)
        if scalar == "loss" and at is None:
            nats = self.module.tag_nats(emissions_1TC, self.best_1T, self.batch.lengths_B)
            return nats.reshape(1)
        scores_1TC = emissions_1TC
        if scalar == "loss":
            scores_1TC = -self.module.tag_probs(emissions_1TC, self.batch.lengths_B).log()
        scores_1T = scores_1TC.gather(2, chosen_1T1).squeeze(2)
        return scores_1T.sum(dim=1) if at is None else scores_1T[:, at]

    def answer_at(self, at: int | None) -> str:
        """Return the tag at a step, from 0, or that all are meant."""
        if at is None:
            return "all tags"
        if not 0 <= at < len(self.shown):
            raise SettingError(
                "--at must be a token of the sentence",
                got=str(at + 1),
                allowed=f"1 to {len(self.shown)}",
            )
        tag = self.tagger.vocabulary.tags.tags[int(self.best_1T[0, at])]
        return f"{tag} at token {at + 1} ({self.shown[at]})"


def tagger_subject(path: Path, text: str, *, unknown: UnknownPolicy | None = None) -> TaggerSubject:
    """Return the sentence as the tagger at `path` reads it; blanks part its tokens.

    Raises `DataError` for a text without tokens and for several lines, `SettingError` for a policy.
    """
    if unknown is not None:
        raise SettingError(
            "--unknown is not for taggers, which read every word by its spelling or as unknown",
            got=unknown,
            hint="leave it out",
        )
    return sentence_to_tag(path, open_tagger(path), text)


def sentence_to_tag(path: Path, tagger: TrainedTagger, text: str) -> TaggerSubject:
    """Return the sentence as `tagger`, which was opened at `path`, reads it; raises as above."""
    lines = text.strip("\n").count("\n") + 1
    if lines > 1:
        raise DataError(
            "a tagger reads one sentence at a time", got=f"{lines} lines", hint="give one of them"
        )
    tokens = tuple(text.split())
    if not tokens:
        raise DataError("there is no token in the text", got=repr(text))
    emissions_BTC, batch = tagger.emissions([tokens])
    (written,), best_BT = tagger.best(emissions_BTC, batch)
    with torch.no_grad():
        probs_BTC = tagger.model.tag_probs(emissions_BTC, batch.lengths_B)
    unknown = tuple((batch.ids_BT[0] == tagger.vocabulary.unk_id).nonzero().flatten().tolist())
    return TaggerSubject(
        path,
        tagger.settings,
        tokens,
        told_unknown(tokens, unknown, read="[ UNK ] and by spelling"),
        unknown,
        _inputs(tagger, batch),
        tagger,
        batch,
        # Tensors of inference cannot take part in what gradients are taken of.
        best_BT.clone(),
        tuple(written),
        probs_BTC.clone(),
    )


def _inputs(tagger: TrainedTagger, batch: TagBatch) -> Tensor:
    with torch.no_grad():
        return tagger.model.inputs(batch, plan=tagger.plan)
