"""A benchmark of tiny shapes, and a clock that moves only when it is told to."""

from dataclasses import dataclass, field

from elman.recipes.benchmark.rows import Effort, ModelSizes, Programme, Shape
from elman.recipes.benchmark.timing import Contender, Stopwatch
from elman.recipes.benchmark.workbench import Workbench

ONCE = Effort(sample_seconds=0.0, row_seconds=0.0, least_repeats=1, most_repeats=1)
TINY = Programme(
    effort=ONCE,
    shapes=(Shape(3, 2, 5), Shape(1, 2, 5)),
    ragged=(Shape(6, 4, 5),),
    bfloat16=(Shape(3, 2, 5),),
    word=(ModelSizes(2, 6, 11),),
    bfloat16_word=(),
    generation=(ModelSizes(2, 6, 11),),
    loss_steps=3,
    memory_steps=1,
    tokens_per_call=4,
    torch_tokens_per_call=2,
    checked_tokens=8,
    carry_seconds=3600.0,
    far_position=20,
    peak_size=16,
)


def tiny_bench() -> Workbench:
    return Workbench(TINY, Stopwatch(ONCE))


@dataclass
class HandClock:
    """A clock for tests; `taking` gives work that lasts as long as it is told."""

    now: float = 0.0
    order: list[str] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def taking(self, name: str, *seconds: float) -> Contender:
        """Return work that takes the given seconds in its calls, the last ones for all later."""
        left = list(seconds)

        def call() -> None:
            self.order.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return Contender(call)
