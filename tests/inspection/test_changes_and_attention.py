"""Weights before and after, and matrices of attention: figures by hand."""

import math

import pytest
import torch

from elman.inspection.attention_figures import attention_figures
from elman.inspection.changes import parameter_changes


def test_a_change_is_told_parameter_by_parameter() -> None:
    before = {"a": torch.tensor([3.0, 4.0]), "b": torch.zeros(2, 2), "c": torch.ones(1)}
    after = {"c": torch.ones(1), "a": torch.tensor([3.0, 4.5]), "b": torch.eye(2)}
    a, b, c = parameter_changes(before, after)
    assert (a.name, a.norm_before, a.norm_of_change, a.largest, a.equal) == (
        "a",
        5,
        0.5,
        0.5,
        False,
    )
    assert a.relative == pytest.approx(0.1)
    assert b.relative is None
    assert b.norm_of_change == pytest.approx(math.sqrt(2))
    assert c.equal
    assert c.norm_of_change == 0.0


def test_other_names_and_shapes_are_refused_and_nan_is_a_change() -> None:
    with pytest.raises(KeyError, match="b"):
        parameter_changes({"a": torch.ones(1)}, {"b": torch.ones(1)})
    with pytest.raises(ValueError, match="a: "):
        parameter_changes({"a": torch.ones(1)}, {"a": torch.ones(2)})
    (found,) = parameter_changes({"a": torch.ones(1)}, {"a": torch.tensor([math.nan])})
    assert not found.equal


def test_attention_has_entropy_a_place_and_what_fell_on_padding() -> None:
    weights = torch.tensor([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.2, 0.3, 0.5]]])
    found = attention_figures(weights, torch.tensor([2]), torch.tensor([3]))
    assert found.entropy_BU[0].tolist() == pytest.approx([math.log(2), 0.0, 1.0296530], abs=1e-6)
    assert found.place_BU[0].tolist() == [0, 0, 2]
    assert found.on_padding_BU[0].tolist() == pytest.approx([0.0, 0.0, 0.5])
    shorter = attention_figures(weights, torch.tensor([3]), torch.tensor([1]))
    assert shorter.place_BU[0].tolist() == [0, -1, -1]
    assert shorter.entropy_BU[0, 1:].tolist() == [0.0, 0.0]
