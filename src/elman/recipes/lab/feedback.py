"""Right next tokens under a teacher are not a right sequence of one's own.

    forced: p(y_t | right y_{<t}, x)      free: p(y_t | own ŷ_{<t}, x)

A sequence is right only if all of its steps are, and one wrong token stands before all later ones.
Measured on models that have learnt the task that reverses names in part.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from elman.decoding.translation_steps import TranslationSearch, search_answers
from elman.evaluation.translation_report import forced_score, num_in_place
from elman.kernels.dispatch import KernelPlan
from elman.recipes.lab.experiment import Experiment, Measured
from elman.recipes.lab.instruments import TEN_SEEDS
from elman.recipes.lab.reversal_task import TrainedReverser, trained_reverser
from elman.recipes.panels import draw_panels

_UPDATES = 150


class _Accuracy(NamedTuple):
    """Shares of held-out targets: tokens under a teacher, tokens in place, whole names right."""

    forced: float
    free: float
    exact: float


def _run() -> Iterator[Measured]:
    """Yield by how much whole names fall short of tokens under a teacher, at least."""
    found = [_accuracy(trained_reverser(seed, updates=_UPDATES)) for seed in TEN_SEEDS]
    short = [one.forced - one.exact for one in found]
    mean = _Accuracy(*(sum(part) / len(found) for part in zip(*found, strict=True)))
    yield Measured(
        "000-32",
        min(short),
        f"ten models after {_UPDATES} updates, on 200 names held out: share of right tokens under "
        "a teacher less share of names written right, the least of the seeds (from "
        f"{min(short):.3f} to {max(short):.3f}; means {mean.forced:.3f} forced, {mean.free:.3f} of "
        f"tokens in place when writing freely, {mean.exact:.3f} of names)",
        tuple(tuple(one) for one in found),
    )


def _accuracy(trained: TrainedReverser) -> _Accuracy:
    model, held_out, ids = trained.model, trained.held_out, trained.letters.ids
    plan = KernelPlan()
    batches = (held_out.batch(0, index) for index in range(held_out.batches_per_epoch(0)))
    forced = forced_score([model], batches, boundary_id=ids.boundary_id, plan=plan)
    sources = [list(map(int, line)) for line in held_out.sources]
    targets = [list(map(int, line)) for line in held_out.targets]
    answers = search_answers([model], sources, ids, TranslationSearch(), plan=plan)
    pairs = [(list(several[0].ids), right) for several, right in zip(answers, targets, strict=True)]
    in_place = sum(num_in_place(own, right) for own, right in pairs)
    return _Accuracy(
        forced.num_right / forced.num_tokens,
        in_place / forced.num_tokens,
        sum(own == right for own, right in pairs) / len(pairs),
    )


def _draw(path: Path) -> None:
    """Draw the three shares of one model as it learns."""
    draw_panels(path, [_course])


def _course(axes: Any) -> None:
    updates = (25, 50, 100, 150, 200)
    found = [_accuracy(trained_reverser(1, updates=number)) for number in updates]
    names = ("tokens, under a teacher", "tokens in place, freely", "names right, freely")
    for place, name in enumerate(names):
        axes.plot(updates, [one[place] for one in found], marker="o", label=name)
    axes.set(xlabel="updates", ylabel="share of 200 names held out", ylim=(0, 1))


FEEDBACK = Experiment(
    "feedback",
    "right tokens under a teacher against right sequences of one's own",
    "document 000, Conditional generation adds a second sequence",
    _run,
    _draw,
    takes="minutes",
)
