"""Each difference between the two presets, named: in the settings and in the model."""

import pytest
import torch

from elman.config.checks import check_settings
from elman.config.settings import Settings
from elman.config.toml_file import apply_overrides
from elman.layers.attention import AdditiveAttention, ProjectedAttention
from elman.models.encoder_decoder import EncoderDecoder
from elman.recipes.presets import PRESETS
from elman.recipes.translate import BASE
from elman.training.schedules import rate

SIZES = ("model.hidden_size=6", "model.embedding_size=4")
DIFFERENCES = {
    "model.bidirectional": (False, True),
    "model.attention": ("projected", "additive"),
    "model.attention_bias": (True, False),
    "model.query": ("current", "previous"),
    "model.context": ("output", "transition"),
    "model.bridge": ("copy", "tanh"),
    "model.bridge_from": ("all", "backward"),
    "model.reset": ("after", "before"),
    "model.update": ("keep", "replace"),
    "model.initialisation": ("uniform", "orthogonal"),
    "training.schedule": ("cosine", "constant"),
    "training.schedule_unit": ("epoch", "update"),
    "training.warmup_updates": (0, BASE.training.warmup_updates),
}


def settings_of(preset: str, *more: str) -> Settings:
    settings = apply_overrides(BASE, (*PRESETS[preset], *SIZES, *more))
    check_settings(settings)
    return settings


def model_of(preset: str) -> EncoderDecoder:
    return EncoderDecoder(settings_of(preset).model, 9, 7, torch.Generator().manual_seed(1))


def test_the_presets_differ_in_these_settings_and_no_others() -> None:
    lecture, bahdanau = settings_of("lecture"), settings_of("bahdanau")
    found = {}
    for section in ("text", "data", "model", "training"):
        ours, theirs = getattr(lecture, section), getattr(bahdanau, section)
        for name in ours.__dataclass_fields__:
            values = getattr(ours, name), getattr(theirs, name)
            if values[0] != values[1]:
                found[f"{section}.{name}"] = values
    assert found == DIFFERENCES


def test_the_lectures_encoder_reads_one_way_and_the_other_one_both() -> None:
    assert model_of("lecture").encoder.stack.num_directions == 1
    assert model_of("bahdanau").encoder.stack.num_directions == 2


def test_the_lectures_scores_are_unscaled_products_with_a_projected_query() -> None:
    model = model_of("lecture")
    attention = model.decoder.attention
    assert isinstance(attention, ProjectedAttention)
    assert attention.bias is not None
    with torch.no_grad():
        attention.bias.normal_()
    query_BH, keys_BSK = torch.randn(1, 6), torch.randn(1, 3, 6)
    memory = attention.prepare(keys_BSK, torch.ones(1, 3, dtype=torch.bool))
    scores_S = keys_BSK[0] @ (attention.weight @ query_BH[0] + attention.bias)
    torch.testing.assert_close(
        attention.attend(query_BH, memory).weights_BTS[0], scores_S.softmax(dim=0)
    )


def test_bahdanaus_scores_are_those_of_a_small_network() -> None:
    assert isinstance(model_of("bahdanau").decoder.attention, AdditiveAttention)


def test_the_lectures_context_enters_the_output_alone_and_the_other_one_the_transition() -> None:
    lecture, bahdanau = model_of("lecture").decoder, model_of("bahdanau").decoder
    assert (lecture.stack.input_size, lecture.output_size) == (4, 12)
    assert (bahdanau.stack.input_size, bahdanau.output_size) == (4 + 12, 6)
    assert lecture.runs_at_once
    assert not bahdanau.runs_at_once


def test_the_first_state_is_copied_or_a_tanh_of_the_backward_reader() -> None:
    from elman.kernels.dispatch import KernelPlan

    plan = KernelPlan("reference")
    source_BS, lengths_B = torch.tensor([[2, 3, 8]]), torch.tensor([2])
    lecture, bahdanau = model_of("lecture"), model_of("bahdanau")
    _, final = lecture.encoder(source_BS, lengths_B, plan=plan)
    first = lecture.read(source_BS, lengths_B, plan=plan).state.stack
    assert torch.equal(first[0][0], final[0][0])
    _, final = bahdanau.encoder(source_BS, lengths_B, plan=plan)
    first = bahdanau.read(source_BS, lengths_B, plan=plan).state.stack
    want_BH = torch.tanh(final[1][0] @ bahdanau.bridge.weight[0].T)
    torch.testing.assert_close(first[0][0], want_BH)


def test_the_lectures_rate_is_a_cosine_that_moves_once_an_epoch_from_the_first_update_on() -> None:
    training = settings_of("lecture", "training.learning_rate=1.0").training
    rates = [rate(n, training, total_updates=12, updates_per_epoch=3) for n in range(1, 13)]
    assert rates[0] == rates[1] == rates[2] == 1.0
    assert len(set(rates)) == 4
    assert rates == sorted(rates, reverse=True)


def test_a_setting_of_a_person_is_laid_over_a_preset() -> None:
    assert settings_of("lecture", "model.query=previous").model.query == "previous"


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_says_nothing_twice(preset: str) -> None:
    keys = [override.partition("=")[0] for override in PRESETS[preset]]
    assert len(keys) == len(set(keys))
