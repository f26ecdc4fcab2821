"""What an encoder-decoder is made of: where the source enters, its first state, its noise."""

from dataclasses import replace

import pytest
import torch

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.models.encoder_decoder import EncoderDecoder

PLAN = KernelPlan("reference")
SETTINGS = ModelSettings(
    task="translate",
    kind="gru",
    attention="additive",
    embedding_size=4,
    hidden_size=6,
    bidirectional=True,
)


def model_of(settings: ModelSettings, *, seed: int = 1) -> EncoderDecoder:
    generator = torch.Generator().manual_seed(seed)
    model = EncoderDecoder(settings, 9, 7, generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.4, generator=generator)
    return model.double()


def features(model: EncoderDecoder, source: list[int]) -> torch.Tensor:
    output = model(
        torch.tensor([source]),
        torch.tensor([len(source)]),
        torch.tensor([[1, 3, 2]]),
        plan=PLAN,
    )
    return output.features_BTF[0]


def test_a_fixed_context_of_the_state_makes_the_first_state_and_enters_nothing_else() -> None:
    settings = replace(SETTINGS, attention="none", context="state")
    model = model_of(settings)
    assert model.decoder.stack.input_size == settings.embedding_size
    assert model.decoder.output_size == settings.hidden_size
    read = model.read(torch.tensor([[2, 3]]), torch.tensor([2]), plan=PLAN)
    assert read.view == (None, None)
    _, final = model.encoder(torch.tensor([[2, 3]]), torch.tensor([2]), plan=PLAN)
    both_BH = torch.cat((final[0][0], final[1][0]), dim=1)
    want_BH = both_BH @ model.bridge.weight[0].T + model.bridge.bias[0]
    torch.testing.assert_close(read.state.stack[0][0], want_BH, rtol=0, atol=1e-12)


def test_a_fixed_context_of_the_output_is_seen_by_the_output_layer_alone() -> None:
    model = model_of(replace(SETTINGS, attention="none", context="output"))
    assert model.bridge is None
    one, other = features(model, [2, 3, 4]), features(model, [5, 6])
    torch.testing.assert_close(one[:, :6], other[:, :6], rtol=0, atol=0)
    assert (one[:, 6:] - other[:, 6:]).abs().max() > 1e-3
    torch.testing.assert_close(one[0, 6:], one[2, 6:], rtol=0, atol=0)


def test_a_fixed_context_of_the_transition_enters_every_update_from_a_state_of_zeros() -> None:
    model = model_of(replace(SETTINGS, attention="none", context="transition"))
    assert model.bridge is None
    assert model.decoder.stack.input_size == SETTINGS.embedding_size + 12
    assert model.decoder.output_size == SETTINGS.hidden_size
    read = model.read(torch.tensor([[2, 3]]), torch.tensor([2]), plan=PLAN)
    assert (read.state.stack[0][0] == 0).all()
    one, other = features(model, [2, 3, 4]), features(model, [5, 6])
    assert ((one - other).abs().max(dim=1).values > 1e-4).all()


def test_with_attention_the_context_enters_where_it_is_said_to() -> None:
    widths = {}
    for context in ("transition", "output", "both"):
        model = model_of(replace(SETTINGS, context=context))
        widths[context] = (model.decoder.stack.input_size, model.decoder.output_size)
    assert widths == {"transition": (16, 6), "output": (4, 18), "both": (16, 18)}


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("encoder_size", [0, 5])
def test_an_lstm_decoder_begins_with_h_and_c_of_the_last_valid_step(
    bidirectional: bool, encoder_size: int
) -> None:
    settings = replace(
        SETTINGS,
        kind="lstm",
        bidirectional=bidirectional,
        encoder_size=encoder_size,
        num_layers=2,
    )
    model = model_of(settings)
    source_BS = torch.tensor([[2, 3, 8, 8], [4, 5, 6, 7]])
    lengths_B = torch.tensor([2, 4])
    first = model.read(source_BS, lengths_B, plan=PLAN).state.stack
    alone = model.read(source_BS[:1, :2], lengths_B[:1], plan=PLAN).state.stack
    assert len(first) == 2
    for layer, own in zip(first, alone, strict=True):
        for part, want in zip(layer, own, strict=True):
            assert part.shape == (2, 6)
            torch.testing.assert_close(part[:1], want, rtol=0, atol=1e-12)
    assert (first[1].c_BH - first[1].h_BH).abs().max() > 1e-3


@pytest.mark.parametrize("query", ["previous", "current"])
@pytest.mark.parametrize("kind", ["ordinary", "locked"])
def test_noise_is_the_same_at_once_and_step_by_step(kind: str, query: str) -> None:
    """One seed, one set of masks: dropout, of weights and of the state, and zoneout."""
    settings = replace(
        SETTINGS,
        query=query,
        kind="lstm",
        num_layers=2,
        dropout=0.4,
        embedding_dropout=0.3,
        dropout_kind=kind,
        recurrent_dropout=0.3,
        zoneout=0.2,
        zoneout_cell=0.1,
        weight_dropout=0.3,
        token_dropout=0.2,
    )
    model = model_of(settings)
    read = model.read(torch.tensor([[2, 3, 4]]), torch.tensor([3]), plan=PLAN)
    ids_BT = torch.tensor([[1, 3, 2, 5]])
    found = [
        steps(
            ids_BT, read.state, read.view, plan=PLAN, generator=torch.Generator().manual_seed(8)
        ).features_BTF
        for steps in (model.decoder, model.decoder.read_stepwise)
    ]
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-12)


def test_tied_targets_share_one_matrix_with_the_output() -> None:
    model = EncoderDecoder(
        replace(SETTINGS, tie_weights=True), 9, 7, torch.Generator().manual_seed(1)
    )
    assert model.readout.weight is model.decoder.embedding.weight
    assert model.readout.projection.shape == (4, 18)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("batch_size", [2, 7])
def test_a_long_neighbour_changes_neither_state_nor_attention(kind: str, batch_size: int) -> None:
    model = model_of(replace(SETTINGS, kind=kind, num_layers=2)).float()
    generator = torch.Generator().manual_seed(2)
    source_BS = torch.randint(2, 9, (batch_size, 40), generator=generator)
    lengths_B = torch.full((batch_size,), 40)
    lengths_B[0] = 2
    inputs_BT = torch.tensor([[1, 3, 4]]).expand(batch_size, -1)
    together = model(source_BS, lengths_B, inputs_BT, plan=PLAN)
    alone = model(source_BS[:1, :2], lengths_B[:1], inputs_BT[:1], plan=PLAN)
    for got, want in (
        (together.features_BTF[:1], alone.features_BTF),
        (together.weights_BTS[:1, :, :2], alone.weights_BTS),
    ):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-6)
    states = [
        model.encoder(ids, lengths, plan=PLAN)[0]
        for ids, lengths in ((source_BS, lengths_B), (source_BS[:1, :2], lengths_B[:1]))
    ]
    torch.testing.assert_close(states[0][:1, :2], states[1], rtol=0, atol=1e-6)
