"""Steps and numbers carried, counted; a sampler that reads everything again is noticed."""

import pytest
from planted_faults import verdicts

from elman.layers import recurrence
from elman.recipes.lab import constant_state
from elman.recipes.lab.constant_state import CONSTANT_STATE


@pytest.mark.parametrize(("prompt", "sampled"), [(1, 1), (1, 6), (4, 1), (3, 3)])
def test_a_prefix_is_read_once(prompt: int, sampled: int) -> None:
    carried, again = constant_state._steps_to_sample(prompt=prompt, sampled=sampled)
    assert carried == prompt + sampled - 1
    assert again == sum(prompt + length for length in range(sampled))


def test_steps_made_twice_turn_the_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    right = recurrence._loop

    def twice(cell, x_BTE, state, noise):  # type: ignore[no-untyped-def]
        right(cell, x_BTE, state, noise)
        return right(cell, x_BTE, state, noise)

    monkeypatch.setattr(recurrence, "_loop", twice)
    found = verdicts(CONSTANT_STATE)
    assert found["000-04"] == found["000-06"] == "differs"
