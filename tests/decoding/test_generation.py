"""Generations as values: against the whole sequence read anew at each step, and each other."""

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from elman.config.model_settings import ModelSettings
from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import (
    PROMPT_CHUNK,
    Generation,
    last_logits,
)
from elman.decoding.generation_state import GenerationState, reseed
from elman.errors import RunError, SettingError
from elman.kernels.dispatch import KernelPlan
from elman.models.language import ModelOutput
from elman.models.recurrent import RecurrentLanguageModel
from elman.seeding import generator

V = 11
GREEDY = SamplingSettings(temperature=0)


def random_model(
    kind: str = "lstm", *, dropout: float = 0.0, hidden_size: int = 12, tie: bool = False
) -> RecurrentLanguageModel:
    shape = ModelSettings(
        kind=kind,  # type: ignore[arg-type]
        embedding_size=6,
        hidden_size=hidden_size,
        num_layers=2,
        dropout=dropout,
        tie_weights=tie,
    )
    model = RecurrentLanguageModel(shape, V, generator(3, "initialisation"))
    draws = generator(3, "order")
    with torch.no_grad():  # distributions that depend on what was read, so that ids differ
        for parameter in model.parameters():
            scale = 0.9 if parameter.dim() > 1 else 0.1
            parameter.add_(torch.randn(parameter.shape, generator=draws) * scale)
    return model


def random_prompt(length: int, seed: int = 1) -> list[int]:
    return np.random.default_rng(seed).integers(0, V, length).tolist()


def alone(
    model: RecurrentLanguageModel, prompt: list[int], sampling: SamplingSettings, count: int
) -> list[int]:
    generation = Generation(model, sampling, plan=KernelPlan())
    generation.feed(prompt)
    return list(generation.tokens(count))


class CountingModel(RecurrentLanguageModel):
    """Notes how many ids each call reads."""

    def forward(  # type: ignore[override]
        self, ids_BT: torch.Tensor, *args: object, plan: KernelPlan
    ) -> ModelOutput:
        self.calls.append(ids_BT.shape[1])
        return super().forward(ids_BT, *args, plan=plan)  # type: ignore[arg-type]


def counting_model() -> CountingModel:
    shape = ModelSettings(kind="gru", embedding_size=6, hidden_size=12)
    model = CountingModel(shape, V, generator(3, "initialisation"))
    model.calls = []
    return model


@pytest.mark.parametrize("kind", ["elman", "gru", "lstm"])
def test_greedy_generation_is_the_argmax_of_the_whole_sequence_read_anew(kind: str) -> None:
    model = random_model(kind)
    read = random_prompt(5)
    told = alone(model, read, GREEDY, 30)
    for token in told:
        with torch.no_grad():
            output = model(torch.tensor([read]), plan=KernelPlan("reference"))
            logits = output.readout.logits(output.states_BTH[0, -1])
        assert token == int(logits.argmax())
        read = [*read, token]


def test_a_prompt_is_read_once_and_each_token_costs_one_step() -> None:
    model = counting_model()
    told = alone(model, random_prompt(7), GREEDY, 10)
    assert len(told) == 10
    assert model.calls == [6] + [1] * 10
    assert sum(model.calls) == 7 + 10 - 1


def test_a_step_late_costs_what_an_early_one_does() -> None:
    model = counting_model()
    generation = Generation(model, SamplingSettings(), plan=KernelPlan())
    generation.feed([1])
    sizes = set()
    for _ in range(2000):
        generation.step()
        sizes.add(sum(tensor.numel() for tensor in generation.state().tensors().values()))
    assert model.calls == [1] * 2000
    assert len(sizes) == 1


def test_a_long_prompt_is_read_in_pieces_of_bounded_size() -> None:
    model = counting_model()
    prompt = random_prompt(3 * PROMPT_CHUNK + 5)
    generation = Generation(model, GREEDY, plan=KernelPlan())
    generation.feed(prompt)
    assert sum(model.calls) == len(prompt) - 1
    assert max(model.calls) == PROMPT_CHUNK
    with torch.no_grad():
        whole = model(torch.tensor([prompt]), plan=KernelPlan("reference"))
        expected = int(whole.readout.logits(whole.states_BTH[0, -1]).argmax())
    assert generation.step() == expected


def test_a_prompt_fed_in_parts_is_the_same_prompt() -> None:
    model, prompt = random_model(), random_prompt(20)
    generation = Generation(model, GREEDY, plan=KernelPlan())
    for part in (prompt[:1], [], prompt[1:2], prompt[2:13], prompt[13:]):
        generation.feed(part)
    assert list(generation.tokens(20)) == alone(model, prompt, GREEDY, 20)


@pytest.mark.parametrize("temperature", [0, 1.0])
def test_sixteen_interleaved_generations_equal_each_alone(temperature: float) -> None:
    model = random_model()
    prompts = [random_prompt(1 + 3 * n, seed=n) for n in range(16)]
    sampling = [SamplingSettings(temperature=temperature, seed=n) for n in range(16)]
    expected = [alone(model, p, s, 64) for p, s in zip(prompts, sampling, strict=True)]
    assert len({tuple(ids) for ids in expected}) > 8
    for round_number in range(5):
        generations = [Generation(model, s, plan=KernelPlan()) for s in sampling]
        told: list[list[int]] = [[] for _ in prompts]
        order = np.random.default_rng(round_number)
        for number in order.permutation(16):
            generations[number].feed(prompts[number])
        for _ in range(64):
            for number in order.permutation(16):
                told[number].append(generations[number].step())
        assert told == expected


def test_a_request_after_a_failed_one_is_unaffected() -> None:
    model, prompt = random_model(), random_prompt(4)
    expected = alone(model, prompt, SamplingSettings(seed=9), 20)
    broken = Generation(model, SamplingSettings(), plan=KernelPlan())
    broken.feed(prompt)
    broken.step()
    with pytest.raises(SettingError, match="a prompt holds an id outside the vocabulary; got 11"):
        broken.feed([3, V])
    assert alone(model, prompt, SamplingSettings(seed=9), 20) == expected


@pytest.mark.parametrize("kind", ["elman", "gru", "lstm"])
@pytest.mark.parametrize("stop_after", [0, 1, 17])
@pytest.mark.parametrize("prompt_length", [1, 9])
def test_an_exported_state_goes_on_as_if_never_stopped(
    kind: str, stop_after: int, prompt_length: int
) -> None:
    model, prompt = random_model(kind), random_prompt(prompt_length)
    sampling = SamplingSettings(temperature=0.9, top_k=8, top_p=0.95, min_p=0.01, seed=5)
    expected = alone(model, prompt, sampling, 40)
    first = Generation(model, sampling, plan=KernelPlan())
    first.feed(prompt)
    told = list(first.tokens(stop_after))
    tensors, facts = first.state().tensors(), json.loads(json.dumps(first.state().facts()))
    first.step()  # what was exported does not follow
    second = Generation(model, GREEDY, plan=KernelPlan())
    second.restore(GenerationState.from_parts(tensors, facts, model))
    told += list(second.tokens(40 - stop_after))
    assert told == expected
    assert second.num_generated == 40


def test_a_restored_state_can_be_restored_twice() -> None:
    model = random_model()
    generation = Generation(model, SamplingSettings(seed=2), plan=KernelPlan())
    generation.feed(random_prompt(3))
    generation.step()
    state = generation.state()
    first = list(generation.tokens(15))
    generation.restore(state)
    assert list(generation.tokens(15)) == first


def test_a_state_can_go_on_with_another_seed_or_other_settings() -> None:
    model, prompt = random_model(), random_prompt(6)
    generation = Generation(model, SamplingSettings(seed=2), plan=KernelPlan())
    generation.feed(prompt)
    state = generation.state()
    generation.restore(reseed(state, 8))
    assert list(generation.tokens(15)) == alone(model, prompt, SamplingSettings(seed=8), 15)
    generation.restore(replace(state, sampling=GREEDY))
    assert list(generation.tokens(15)) == alone(model, prompt, GREEDY, 15)


def test_a_state_of_another_model_is_refused() -> None:
    generation = Generation(random_model("lstm"), GREEDY, plan=KernelPlan())
    generation.feed([1, 2])
    tensors, facts = generation.state().tensors(), generation.state().facts()
    with pytest.raises(RunError, match=r"cell\.0\.h of sizes \[1, 12\] where this model has"):
        GenerationState.from_parts(tensors, facts, random_model("lstm", hidden_size=8))
    gru = Generation(random_model("gru"), GREEDY, plan=KernelPlan())
    gru.feed([1, 2])
    with pytest.raises(RunError, match=r"no cell\.0\.c"):
        GenerationState.from_parts(gru.state().tensors(), facts, random_model("lstm"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("last_id", V),
        ("last_id", -1),
        ("last_id", True),
        ("ended", 0),
        ("started", None),
        ("num_generated", 1.5),
        ("position", -1),
        ("temperature", -1.0),
        ("top_k", "many"),
    ],
)
def test_damaged_facts_of_a_state_are_refused(name: str, value: object) -> None:
    model = random_model()
    generation = Generation(model, GREEDY, plan=KernelPlan())
    generation.feed([1, 2])
    tensors, facts = generation.state().tensors(), dict[str, object](generation.state().facts())
    with pytest.raises(RunError, match="does not fit this model"):
        GenerationState.from_parts(tensors, facts | {name: value}, model)
    del facts[name]
    with pytest.raises(RunError, match="does not fit this model"):
        GenerationState.from_parts(tensors, facts, model)


def test_a_state_of_an_earlier_version_is_refused_by_that_name() -> None:
    model = random_model()
    generation = Generation(model, GREEDY, plan=KernelPlan())
    generation.feed([1, 2])
    tensors, facts = generation.state().tensors(), dict[str, object](generation.state().facts())
    del facts["position"]
    tensors["sampling_generator"] = torch.Generator().get_state()
    with pytest.raises(RunError, match="of an earlier version of elman"):
        GenerationState.from_parts(tensors, facts, model)


def test_a_stop_mark_ends_a_generation_and_is_not_told() -> None:
    model, prompt = random_model(), random_prompt(4)
    told = alone(model, prompt, GREEDY, 12)
    stop = told[5]
    generation = Generation(model, GREEDY, plan=KernelPlan(), stop_ids={stop})
    generation.feed(prompt)
    assert list(generation.tokens(12)) == told[: told.index(stop)]
    assert generation.ended
    assert list(generation.tokens(12)) == []
    with pytest.raises(SettingError, match="ended with a stop mark"):
        generation.step()
    generation.feed([1])
    assert not generation.ended
    generation.step()


def test_forbidden_ids_are_never_generated() -> None:
    model = random_model()
    generation = Generation(model, SamplingSettings(), plan=KernelPlan(), forbidden_ids=(0, 1, 2))
    generation.feed([0])
    assert set(generation.tokens(300)) == set(range(3, V))
    with pytest.raises(SettingError, match="every token is forbidden"):
        Generation(model, GREEDY, plan=KernelPlan(), forbidden_ids=range(V))
    with pytest.raises(SettingError, match="outside the vocabulary"):
        Generation(model, GREEDY, plan=KernelPlan(), forbidden_ids=(V,))


def test_a_generation_needs_a_first_id() -> None:
    generation = Generation(random_model(), GREEDY, plan=KernelPlan())
    generation.feed([])
    with pytest.raises(SettingError, match="something to follow"):
        generation.step()
    with pytest.raises(SettingError, match="no state before its first id"):
        generation.state()


def test_generation_uses_no_dropout_and_leaves_the_model_as_it_is() -> None:
    model = random_model(dropout=0.5)
    model.train()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = alone(model, [1, 2], GREEDY, 20)
    assert alone(model, [1, 2], GREEDY, 20) == first
    assert model.training
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_no_graph_is_built_and_exported_tensors_can_be_learnt_from() -> None:
    generation = Generation(random_model(), GREEDY, plan=KernelPlan())
    generation.feed([1, 2, 3])
    generation.step()
    for name, tensor in generation.state().tensors().items():
        assert tensor.grad_fn is None
        assert not tensor.is_inference(), name


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    model = counting_model()
    generation = Generation(model, GREEDY, plan=KernelPlan())
    generation.feed([1])
    tokens: Iterator[int] = generation.tokens(1_000_000)
    assert model.calls == []
    next(tokens)
    assert model.calls == [1]


@pytest.mark.parametrize("tie", [False, True])
def test_the_fast_product_of_one_vector_is_the_readout(tie: bool) -> None:
    model = random_model(tie=tie)
    with torch.inference_mode():
        output = model(torch.tensor([[1, 2, 3]]), plan=KernelPlan())
        expected = output.readout.logits(output.states_BTH[0, -1])
        fast = last_logits(output, KernelPlan())
        slow = last_logits(output, KernelPlan("reference"))
    assert fast.shape == expected.shape
    np.testing.assert_allclose(
        fast.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6
    )  # float32 rounding
    np.testing.assert_array_equal(np.asarray(slow), expected.numpy())
    wide = model.double()
    with torch.inference_mode():
        output = wide(torch.tensor([[1, 2, 3]]), plan=KernelPlan())
        expected = output.readout.logits(output.states_BTH[0, -1])
        assert torch.equal(torch.as_tensor(last_logits(output, KernelPlan())), expected)
