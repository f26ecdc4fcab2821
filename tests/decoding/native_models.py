"""Models, prompts and ways of choosing for the tests of native generation, all from one seed."""

import numpy as np
import pytest
import torch

from elman.config.model_settings import ModelSettings
from elman.decoding.filters import SamplingSettings
from elman.decoding.generation import Generation
from elman.decoding.packing import pack_for_generation
from elman.decoding.sampling import draw, numbers_drawn
from elman.kernels import native_module
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_generation import NativeGenerator
from elman.kernels.native_module import NOT_BUILT
from elman.models.recurrent import RecurrentLanguageModel
from elman.seeding import generator

built = pytest.mark.skipif(native_module.native is None, reason=NOT_BUILT)

BOUNDARY = 1e-4
"""Of the unit interval: draws as close to the boundary between two ids may fall on either side."""

CELLS: tuple[dict[str, object], ...] = (
    {"kind": "elman"},
    {"kind": "elman", "activation": "relu"},
    {"kind": "elman", "activation": "identity", "bias": "one"},
    {"kind": "gru"},
    {"kind": "gru", "update": "replace", "bias": "none"},
    {"kind": "gru", "reset": "before"},
    {"kind": "gru", "reset": "before", "update": "replace"},
    {"kind": "lstm"},
    {"kind": "lstm", "bias": "none"},
    {"kind": "lstm", "peepholes": True},
    {"kind": "lstm", "coupled": True},
    {"kind": "lstm", "projection_size": 5},
    {"kind": "lstm", "peepholes": True, "coupled": True, "projection_size": 3},
    {"kind": "mgu"},
    {"kind": "mingru"},
    {"kind": "minlstm"},
)
FORMS: tuple[dict[str, object], ...] = (
    {},
    {"tie_weights": True},
    {"input": "one-hot"},
    {"residual": True, "layer_norm": "layers"},
    {"residual": True},
    {"layer_norm": "layers", "num_layers": 3},
    {"num_layers": 1},
)
GREEDY = SamplingSettings(temperature=0)


def small_model(
    settings: dict[str, object], vocabulary_size: int, seed: int, *, scale: float = 0.5
) -> RecurrentLanguageModel:
    """A model of random weights and biases whose distributions depend on what was read."""
    shape = {"embedding_size": 6, "hidden_size": 19, "num_layers": 2} | settings
    model = RecurrentLanguageModel(
        ModelSettings(**shape),  # type: ignore[arg-type]
        vocabulary_size,
        generator(seed, "initialisation"),
    )
    draws = generator(seed, "order")
    with torch.no_grad():
        for parameter in model.parameters():
            size = parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else 2.0
            noise = torch.randn(parameter.shape, generator=draws)
            parameter.add_(noise * (2 * scale / size))
    return model


def random_ids(draws: np.random.Generator, vocabulary_size: int, length: int) -> list[int]:
    """A prompt."""
    return [int(n) for n in draws.integers(0, vocabulary_size, length)]


def random_sampling(draws: np.random.Generator, vocabulary_size: int) -> SamplingSettings:
    """Any of the ways of choosing, most of them with a filter or two."""
    return SamplingSettings(
        temperature=float(draws.choice([0.0, 0.5, 1.0, 1.7])),
        top_k=int(draws.choice([0, 1, 3, vocabulary_size, int(draws.integers(1, 400))])),
        top_p=float(draws.choice([1.0, 0.9, 0.5, float(draws.uniform(0.01, 1))])),
        min_p=float(draws.choice([0.0, 0.05, 1.0])),
        seed=int(draws.integers(0, 2**62)),
    )


def packed_of(model: RecurrentLanguageModel) -> NativeGenerator:
    packed, how = pack_for_generation(model, KernelPlan())
    assert packed is not None, how
    return packed


def written(
    model: RecurrentLanguageModel,
    prompt: list[int],
    sampling: SamplingSettings,
    count: int,
    packed: NativeGenerator | None,
) -> list[int]:
    generation = Generation(model, sampling, plan=KernelPlan(), packed=packed)
    generation.feed(prompt)
    told: list[int] = []
    generation.run(count, lambda token: told.append(token) or False)  # type: ignore[func-returns-value]
    return told


def assert_same_tokens(
    model: RecurrentLanguageModel, prompt: list[int], sampling: SamplingSettings, told: list[int]
) -> None:
    """`told` is what the readable loop writes; where they part, the draw was near a boundary."""
    expected = written(model.double(), prompt, sampling, len(told), None)
    model.float()
    if told == expected:
        return
    place = next(n for n, (a, b) in enumerate(zip(told, expected, strict=True)) if a != b)
    with torch.no_grad():
        ids_BT = torch.tensor([[*prompt, *expected[:place]]])
        output = model.double()(ids_BT, plan=KernelPlan("reference"))
        logits = output.readout.logits(output.states_BTH[0, -1]).numpy()
    model.float()
    noise, position = np.random.default_rng(0), place * numbers_drawn(sampling)
    near = {
        draw(logits + noise.normal(0, BOUNDARY, len(logits)), sampling, position)
        for _ in range(200)
    }
    assert told[place] in near, f"token {place}: {told[place]}, not one of {near}"
