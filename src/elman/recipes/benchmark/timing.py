"""Times of several ways to do the same, measured in turns, and what one is beside another."""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from elman.recipes.benchmark.rows import Effort

Clock = Callable[[], float]

CLEARLY_SLOWER = 1.3
"""A setting of torch this much slower than torch's best in the pilot is not measured further."""

LONG_CALL_SECONDS = 0.01
"""Calls of this length are measured well by a single one."""

HOPELESS = 3.0
"""A long call that takes this many times the quickest at first is made no more."""

LONG_CALLS_KEPT = 2
"""Settings of torch that are measured further where calls are long: the best of the pilot."""


class StopAskedError(Exception):
    """A person asked to stop: the row being measured is given up, those before it are kept."""


@dataclass(frozen=True)
class Contender:
    """One way to do the work: `call` does it, within `around`, which is entered untimed.

    A call does the work `pieces` times, such as for so many tokens; times are those of one piece.
    """

    call: Callable[[], object]
    around: Callable[[], AbstractContextManager[object]] = nullcontext
    pieces: int = 1


@dataclass(frozen=True)
class Timing:
    """Seconds of one piece of work: the median and the least of `num_repeats` samples."""

    median_seconds: float
    least_seconds: float
    num_repeats: int
    calls_per_sample: int

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return {
            "median_seconds": self.median_seconds,
            "least_seconds": self.least_seconds,
            "num_repeats": self.num_repeats,
            "calls_per_sample": self.calls_per_sample,
        }


@dataclass(frozen=True)
class Comparison:
    """Elman's time, the best time of torch, the setting that gave it, and all that were tried.

    `tried` holds seconds of each setting of torch: the median, or the pilot's least where that was
    not measured further. `beside` holds other ways of Elman's own, measured in the turns.
    """

    ours: Timing
    theirs: Timing
    setting: str
    tried: Mapping[str, float]
    beside: Mapping[str, Timing] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """How many times as fast Elman is as torch, by medians: above 1 is faster."""
        return self.theirs.median_seconds / self.ours.median_seconds

    @property
    def least_ratio(self) -> float:
        """The same by least times, which other work on the machine disturbs less."""
        return self.theirs.least_seconds / self.ours.least_seconds

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return {
            "elman": self.ours.to_json(),
            "torch": self.theirs.to_json(),
            "torch_setting": self.setting,
            "torch_settings_tried_seconds": dict(self.tried),
            "ratio": self.ratio,
            "ratio_of_least_times": self.least_ratio,
        }


@dataclass
class Stopwatch:
    """Measures contenders in turns, A B A B …, so that a drift of the machine meets them all.

    `should_stop` is asked between two samples; `StopAskedError` is raised where it says so.
    """

    effort: Effort
    clock: Clock = time.perf_counter
    should_stop: Callable[[], bool] = bool
    _own: str = field(default="elman", init=False)

    def compare(
        self,
        ours: Contender,
        theirs: Mapping[str, Contender],
        *,
        beside: Mapping[str, Contender] | None = None,
    ) -> Comparison:
        """Return `ours` beside the best of `theirs`, all in turns, and those `beside` as well.

        Every call is made once unmeasured; a pilot then drops the settings of torch that are
        clearly slower than its best, and of long calls all but the best few.
        """
        more = beside or {}
        calls = {self._own: ours, **more, **theirs}
        pilot = self._pilot(calls)
        dropped = _dropped({name: pilot[name] for name in theirs})
        kept = {name: contender for name, contender in calls.items() if name not in dropped}
        timings = self._in_turns(kept, pilot)
        own = timings.pop(self._own)
        others = {name: timings.pop(name) for name in more}
        setting = min(timings, key=lambda name: timings[name].median_seconds)
        tried = {
            name: timings[name].median_seconds if name in timings else pilot[name]
            for name in theirs
        }
        return Comparison(own, timings[setting], setting, tried, others)

    def interleaved(self, contenders: Mapping[str, Contender]) -> dict[str, Timing]:
        """Return the timing of each contender, measured in turns after one unmeasured call."""
        return self._in_turns(contenders, self._pilot(contenders))

    def _pilot(self, contenders: Mapping[str, Contender]) -> dict[str, float]:
        """Return the least seconds of a few single calls, after one that is not counted."""
        seconds = {name: self._sample(way, 1) for name, way in contenders.items()}
        quickest = min(seconds.values())
        for name, contender in contenders.items():
            if quickest < LONG_CALL_SECONDS or seconds[name] <= HOPELESS * quickest:
                samples = range(self.effort.pilot_samples)
                seconds[name] = min(self._sample(contender, 1) for _ in samples)
        return seconds

    def _in_turns(
        self, contenders: Mapping[str, Contender], pilot: Mapping[str, float]
    ) -> dict[str, Timing]:
        effort = self.effort
        call_seconds = {
            name: max(pilot[name] * contender.pieces, 1e-9)
            for name, contender in contenders.items()
        }
        counts = {
            name: max(1, math.ceil(effort.sample_seconds / seconds))
            for name, seconds in call_seconds.items()
        }
        round_seconds = sum(counts[name] * call_seconds[name] for name in contenders)
        wanted = math.ceil(effort.row_seconds / round_seconds)
        num_repeats = min(max(wanted, effort.least_repeats), effort.most_repeats)
        samples: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(num_repeats):
            for name, contender in contenders.items():
                samples[name].append(self._sample(contender, counts[name]))
        return {
            name: Timing(statistics.median(taken), min(taken), num_repeats, counts[name])
            for name, taken in samples.items()
        }

    def _sample(self, contender: Contender, num_calls: int) -> float:
        """Return the seconds of one piece, the mean over `num_calls` calls in a row."""
        if self.should_stop():
            raise StopAskedError
        with contender.around():
            started = self.clock()
            for _ in range(num_calls):
                contender.call()
            return (self.clock() - started) / (num_calls * contender.pieces)


def _dropped(pilot: Mapping[str, float]) -> set[str]:
    """Return the settings of torch that are not measured further, by the seconds of the pilot."""
    ranked = sorted(pilot, key=lambda name: pilot[name])
    best = pilot[ranked[0]]
    dropped = {name for name in ranked if pilot[name] > CLEARLY_SLOWER * best}
    if best >= LONG_CALL_SECONDS:
        dropped.update(ranked[LONG_CALLS_KEPT:])
    return dropped
