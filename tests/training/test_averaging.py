from contextlib import ExitStack

import numpy as np
import pytest
import torch
from tiny_runs import assert_same_bits, tiny_model

from elman.errors import RunError
from elman.training.averaging import WeightAverage


def test_the_average_is_the_sum_of_discounted_weights_over_the_sum_of_discounts() -> None:
    model, decay = tiny_model(), 0.9
    average = WeightAverage(model, decay)
    draw = np.random.default_rng(2)
    history = []
    for _ in range(7):
        values = draw.normal(size=tuple(model.readout.bias.shape))
        with torch.no_grad():
            model.readout.bias.copy_(torch.tensor(values))
        history.append(values.astype(np.float32).astype(np.float64))
        average.update(model)
    discounts = decay ** np.arange(6, -1, -1)
    expected = (discounts[:, None] * history).sum(0) / discounts.sum()
    found = average.tensors["readout.bias"].double().numpy()
    # float32 throughout: a few units in the last place of values around 1.
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_after_one_update_the_average_is_the_weights() -> None:
    model = tiny_model()
    average = WeightAverage(model, 0.99)
    average.update(model)
    assert_same_bits(average.tensors, {n: p.data for n, p in model.named_parameters()})


def test_the_model_holds_the_average_inside_and_its_own_bits_afterwards() -> None:
    model = tiny_model(tie_weights=True)
    average = WeightAverage(model, 0.5)
    average.update(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    own = {name: parameter.data.clone() for name, parameter in model.named_parameters()}
    inside = ExitStack()
    inside.enter_context(average.in_place_of_weights(model))
    assert_same_bits(average.tensors, {n: p.data for n, p in model.named_parameters()})
    assert model.readout.weight is model.embedding.weight
    assert not inside.__exit__(KeyError, KeyError("an error inside"), None)
    assert_same_bits(own, {name: parameter.data for name, parameter in model.named_parameters()})


def test_before_the_first_update_the_model_stays_as_it_is() -> None:
    model = tiny_model()
    own = {name: parameter.data.clone() for name, parameter in model.named_parameters()}
    with WeightAverage(model, 0.5).in_place_of_weights(model):
        assert_same_bits(own, {name: p.data for name, p in model.named_parameters()})


def test_an_average_of_other_weights_is_refused() -> None:
    model = tiny_model()
    with pytest.raises(RunError, match="does not fit"):
        WeightAverage(model, 0.5).restore({"other": torch.zeros(1)}, 1)
