"""Series whose label is in their order alone: they rise and then fall, or fall and then rise."""

from collections.abc import Iterator

import numpy as np

from elman.data.series import Series

RISE_THEN_FALL, FALL_THEN_RISE = "rise-then-fall", "fall-then-rise"
NUM_PAIRS = 1000
SHORTEST, LONGEST = 8, 24


def rise_and_fall(num_pairs: int = NUM_PAIRS, *, seed: int = 1) -> Iterator[Series]:
    """Yield pairs of series with the very same readings, one for each label.

    Each pair has 8 to 24 readings, drawn from a normal distribution around a level of its own. The
    first series of it climbs to the largest in its middle and comes down again; the second goes
    down to the smallest and climbs. Which side of the turn a reading is on is drawn, once for each
    series. Whatever ignores order (a mean, a maximum, a histogram) says the same of both, and is
    right for exactly one: at chance by construction. Lines count from 1.
    """
    draw = np.random.default_rng(seed)
    for pair in range(num_pairs):
        size = int(draw.integers(SHORTEST, LONGEST + 1))
        readings = np.round(draw.normal(draw.normal(0.0, 2.0), 1.0, size), 3)
        rising = np.sort(readings)
        for place, (label, ascending) in enumerate(
            ((RISE_THEN_FALL, rising), (FALL_THEN_RISE, rising[::-1]))
        ):
            before = draw.permutation(size - 1) < (size - 1) // 2
            turned = np.concatenate(
                [ascending[:-1][before], ascending[-1:], ascending[:-1][~before][::-1]]
            )
            yield Series(tuple(turned.tolist()), label, 2 * pair + place + 1)
