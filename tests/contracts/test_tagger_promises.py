"""Every promise of a tagger, and mistakes that must turn one red."""

import pytest
import torch
from tagger_promises import TAGGER_PROMISES, TaggerSubject, all_taggers

from elman.layers.masks import valid_positions
from elman.models import spelling
from elman.models.tagger import SequenceTagger


@pytest.mark.parametrize("promise", TAGGER_PROMISES)
@pytest.mark.parametrize("subject", all_taggers(), ids=str)
def test_a_tagger_keeps_its_promise(subject: TaggerSubject, promise: str) -> None:
    TAGGER_PROMISES[promise](subject)


class MeanTagger(SequenceTagger):
    """The loss is a mean of the means of sentences."""

    def tag_nats(self, emissions_BTC, tags_BT, lengths_B, *, label_smoothing=0.0):
        rows = [
            super(MeanTagger, self).tag_nats(*(part[row : row + 1] for part in parts)) / length
            for parts in [(emissions_BTC, tags_BT, lengths_B)]
            for row, length in enumerate(lengths_B.tolist())
        ]
        return torch.stack(rows).mean()


class GreedyTagger(SequenceTagger):
    """Tags are chosen one by one, whatever the chain and the scheme say."""

    def best_tags(self, emissions_BTC, lengths_B, allowed=None):
        valid_BT = valid_positions(lengths_B, emissions_BTC.shape[1])
        return emissions_BTC.argmax(dim=2).masked_fill(~valid_BT, 0)


class PaddedTagger(SequenceTagger):
    """The backward reader begins at the padding."""

    def forward(self, batch, *, plan, generator=None):
        full_B = torch.full_like(batch.lengths_B, batch.ids_BT.shape[1])
        return super().forward(batch._replace(lengths_B=full_B), plan=plan, generator=generator)


@pytest.mark.parametrize(
    ("mutant", "promise"),
    [
        (MeanTagger, "loss_is_a_sum_over_sentences"),
        (GreedyTagger, "best_tags_are_the_best_of_all_that_are_allowed"),
        (PaddedTagger, "padding_is_invisible_to_the_tags"),
        (PaddedTagger, "a_sentence_is_the_same_alone_and_in_any_batch"),
    ],
)
@pytest.mark.parametrize("head", ["softmax", "crf"])
def test_mutant_of_a_tagger_is_caught(mutant, promise: str, head: str) -> None:
    with pytest.raises(AssertionError):
        TAGGER_PROMISES[promise](TaggerSubject("lstm", head, 3, mutant))


@pytest.mark.parametrize(
    "promise", ["equals_numpy_sentence_by_sentence", "padding_is_invisible_to_the_tags"]
)
def test_a_spelling_whose_padded_end_is_taken_is_caught(promise: str, monkeypatch) -> None:
    def last_step(states_BTH, lengths_B, *, num_directions=1):
        return torch.cat((states_BTH[:, -1, :3], states_BTH[:, 0, 3:]), dim=1)

    monkeypatch.setattr(spelling, "final_states", last_step)
    with pytest.raises(AssertionError):
        TAGGER_PROMISES[promise](TaggerSubject("lstm", "crf", 3))
