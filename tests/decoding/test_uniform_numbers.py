"""Random numbers of a position: the published answers, and the same ones natively."""

import numpy as np
import pytest

from elman.kernels import native_module
from elman.kernels.native_module import NOT_BUILT
from elman.seeding import philox, uniform_at

ONES = 0xFFFFFFFF
KNOWN_ANSWERS = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)
"""Philox4x32, ten rounds: the vectors that come with Random123 of the paper's authors."""


@pytest.mark.parametrize(("counter", "key", "block"), KNOWN_ANSWERS)
def test_philox_gives_the_known_answers(counter, key, block) -> None:
    assert philox(counter, key) == block


def test_numbers_are_uniform_and_those_of_other_keys_are_others() -> None:
    numbers = np.array([[uniform_at(key, n) for n in range(4000)] for key in (1, 2, 2**63 - 1)])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    np.testing.assert_allclose(numbers.mean(1), 0.5, atol=0.02)  # 4.4 deviations of 4,000 draws
    np.testing.assert_allclose(numbers.var(1), 1 / 12, atol=0.006)
    assert len(np.unique(numbers)) == numbers.size
    assert np.abs(np.corrcoef(numbers) - np.eye(3)).max() < 0.07


@pytest.mark.skipif(native_module.native is None, reason=NOT_BUILT)
def test_the_native_generator_has_the_same_numbers() -> None:
    draws = np.random.default_rng(4)
    for _ in range(2000):
        key, position = (int(n) for n in draws.integers(0, 2**64, 2, dtype=np.uint64))
        assert native_module.native.uniform(key, position) == uniform_at(key, position)
    for position in (0, 1, 2**32 - 1, 2**32, 10**6, 2**64 - 1):
        assert native_module.native.uniform(0, position) == uniform_at(0, position)
