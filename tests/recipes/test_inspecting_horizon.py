"""What is concluded of how far back a model looks: no more than was asked and chance allows."""

import pytest

from elman.evaluation.reach import ReachCurve
from elman.inspection.horizon import PerturbationCurve
from elman.recipes.inspecting.horizon_view import HorizonView

BACKS = (0, 1, 2, 5, 10)


def view(nats: tuple[float, ...], order: tuple[float, ...], width: float) -> HorizonView:
    perturbed = PerturbationCurve(BACKS, nats, (0.01,) * len(BACKS), 50)
    shuffled = ReachCurve("shuffled", BACKS[1:], order, (width,) * (len(BACKS) - 1), 50)
    return HorizonView(perturbed, shuffled, BACKS, nats)


@pytest.mark.parametrize(
    ("nats", "at_least", "at_most", "told"),
    [
        ((1.0, 0.5, 0.02, 0.001, 0.0), 3, 5, "between 3 and 5 tokens:"),
        ((1.0, 0.001, 0.0, 0.0, 0.0), 1, 1, "the model uses 1 token:"),
        ((1.0, 0.5, 0.001, 0.0, 0.0), 2, 2, "the model uses 2 tokens:"),
        ((1.0, 0.5, 0.3, 0.2, 0.1), 11, None, "at least 11 tokens:"),
        ((0.0, 0.0, 0.0, 0.0, 0.0), 0, 0, "the model uses 0 tokens:"),
    ],
)
def test_a_horizon_is_as_exact_as_what_was_asked(
    nats: tuple[float, ...], at_least: int, at_most: int | None, told: str
) -> None:
    found = view(nats, (2.0, 1.5, 1.0, 1.0), 0.1)
    assert told in found.told
    whole = found.to_json()
    assert whole["perturbation"]["horizon"] == {"at_least": at_least, "at_most": at_most}  # type: ignore[index]
    assert whole["conclusion"] == found.told


@pytest.mark.parametrize(
    ("width", "beyond", "told"),
    [
        (0.1, 2, "the order of what is more than 2 back matters"),
        (0.3, 1, "the order of what is more than 1 back matters"),
        (0.6, None, "that the order of tokens matters is not seen at 50 places (± 0.6 nats)"),
    ],
)
def test_order_matters_only_as_far_as_intervals_part(
    width: float, beyond: int | None, told: str
) -> None:
    found = view((1.0, 0.5, 0.02, 0.001, 0.0), (2.0, 1.5, 1.0, 1.0), width)
    assert found.order_beyond == beyond
    assert told in found.told
