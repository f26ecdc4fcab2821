"""The small Transformer against its equations in NumPy, one step after the other."""

import math

import numpy as np
import pytest
import torch

from elman.config.model_settings import ModelSettings
from elman.kernels.dispatch import KernelPlan
from elman.models.transformer import TransformerBlock, TransformerLanguageModel

SIZE, WIDTH, HEADS, LAYERS, REACH = 6, 8, 2, 2, 4
PLAN = KernelPlan()


def model_of(positions: str) -> TransformerLanguageModel:
    settings = ModelSettings(
        kind="transformer",
        hidden_size=WIDTH,
        num_heads=HEADS,
        num_layers=LAYERS,
        context_length=REACH,
        positions=positions,  # type: ignore[arg-type]
    )
    generator = torch.Generator().manual_seed(3)
    model = TransformerLanguageModel(settings, SIZE, generator).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.4, generator=generator)
    return model


def array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def normalised(x: np.ndarray, norm: torch.nn.LayerNorm) -> np.ndarray:
    centred = x - x.mean()
    return centred / math.sqrt(centred.var() + norm.eps) * array(norm.weight) + array(norm.bias)


def turned(x: np.ndarray, place: int) -> np.ndarray:
    half = len(x) // 2
    angles = [place * 10_000.0 ** (-i / half) for i in range(half)]
    pairs = [
        (
            x[i] * math.cos(a) - x[i + half] * math.sin(a),
            x[i + half] * math.cos(a) + x[i] * math.sin(a),
        )
        for i, a in enumerate(angles)
    ]
    return np.array([one for one, _ in pairs] + [two for _, two in pairs])


def slow_logits(model: TransformerLanguageModel, ids: list[int]) -> np.ndarray:
    """Every step from the whole text, no cache, no batch."""
    rotary = model.places is None
    xs = []
    for t, token in enumerate(ids):
        x = array(model.embedding.weight)[token]
        xs.append(x if rotary else x + array(model.places)[t % REACH])  # type: ignore[arg-type]
    for block in model.blocks:
        assert isinstance(block, TransformerBlock)
        parts = [
            array(block.weight_qkv) @ normalised(x, block.attention_norm) + array(block.bias_qkv)
            for x in xs
        ]
        after = []
        for t, x in enumerate(xs):
            first = max(t - REACH + 1, 0) if rotary else t - t % REACH
            found = []
            for head in range(HEADS):
                a = WIDTH // HEADS
                part = slice(head * a, (head + 1) * a)
                q, k, v = (
                    [p[offset * WIDTH : (offset + 1) * WIDTH][part] for p in parts]
                    for offset in range(3)
                )
                if rotary:
                    q, k = ([turned(one, j) for j, one in enumerate(each)] for each in (q, k))
                scores = np.array([q[t] @ k[j] / math.sqrt(a) for j in range(first, t + 1)])
                weights = np.exp(scores - scores.max())
                weights /= weights.sum()
                found.append(sum(w * v[first + j] for j, w in enumerate(weights)))
            x = x + array(block.weight_output) @ np.concatenate(found) + array(block.bias_output)
            inner = array(block.weight_inner) @ normalised(x, block.inner_norm)
            inner = inner + array(block.bias_inner)
            gelu = np.array([0.5 * z * (1 + math.erf(z / math.sqrt(2))) for z in inner])
            after.append(x + array(block.weight_outer) @ gelu + array(block.bias_outer))
        xs = after
    states = np.stack([normalised(x, model.norm) for x in xs])
    return states @ array(model.readout.weight).T + array(model.readout.bias)


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_the_model_is_its_equations(positions: str) -> None:
    model = model_of(positions)
    ids = np.random.default_rng(1).integers(0, SIZE, 11).tolist()
    output = model(torch.tensor([ids]), plan=PLAN)
    got = array(output.readout.logits(output.states_BTH))[0]
    np.testing.assert_allclose(got, slow_logits(model, ids), rtol=1e-10, atol=1e-10)


def test_far_on_in_a_text_rotary_places_are_as_exact_as_at_its_beginning() -> None:
    model = model_of("rotary").float()
    ids_BT = torch.tensor([[1, 2, 3, 4, 5, 0, 1]])
    near = model(ids_BT, plan=PLAN).states_BTH[:, REACH:]
    state = model.zero_state(1)
    far = (type(state[0])(torch.full((1, 1), 10**6)), *state[1:])
    assert torch.allclose(model(ids_BT, far, plan=PLAN).states_BTH[:, REACH:], near, atol=1e-5)
