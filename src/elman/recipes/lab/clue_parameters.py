"""A run changes states and no parameter; a step of training changes parameters.

    run:   h_t = f(h_{t−1}, x_t; W), W fixed;   training:  W ← W − rate · ∂(−log p(target))/∂W

That a state moved from [1, 0] to [1/4, 0] says nothing of learning: the digest of all numbers does.
States go on from where they were unless they are reset: between texts they should be, and before
every word they must not be.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from elman.recipes.lab.clue_reader import ClueReader, as_texts
from elman.recipes.lab.exact_rnn import Matrix, matrices_digest
from elman.recipes.lab.experiment import Experiment, Measured, Value

TRAINING_RATE = Fraction(1)


def clue_parameter_findings(reader: ClueReader) -> Iterator[Measured]:
    """Yield what a run and what a step of training change, and what resets do to the answers."""
    short, blue = reader.fixture.cases["short"], reader.fixture.cases["long"]["blue"]
    before = matrices_digest(reader.parameters())
    states = {step.new for step in reader.read(blue)}
    is_same = matrices_digest(reader.parameters()) == before
    trained = reader.trained(blue, "blue", TRAINING_RATE).parameters()
    changed = [name for name, old in reader.parameters().items() if trained[name] != old]
    how = "whether the digest outlasts a run, its states that differ, what one step changes"
    yield Measured("003-24", [is_same, len(states), changed], how)
    red = reader.read(short["red"])
    resets = [_reset_before_each(reader, words) for words in short.values()]
    is_same = matrices_digest(reader.parameters()) == before
    found: Value = [as_texts(red[0].new), as_texts(red[-1].new), is_same, resets]
    yield Measured("003-31", found, "h_1, h_3, whether the digest is the same; reset at each word")
    carried = reader.read(short["blue"], red[-1].new)[-1]
    alone = reader.read(short["blue"])[-1]
    found = [as_texts(row) for row in (carried.new, carried.logits, alone.logits)]
    yield Measured("003-34", found, "h and z of short blue read after short red, z of it alone")


def _reset_before_each(reader: ClueReader, words: Iterable[str]) -> Value:
    """Return the last state and the answer where each word is read from zeros."""
    *_, last = (reader.read([word])[-1] for word in words)
    return [as_texts(last.new), reader.choice(last.logits)]


def _run() -> Iterable[Measured]:
    """Return the findings by the trained classes, held against the fractions."""
    from elman.recipes.lab.clue_production import compared

    return compared(clue_parameter_findings)


def _draw(path: Path) -> None:
    """Draw what a run and a step of training change, and the state that was not reset."""
    from elman.recipes.panels import draw_panels

    draw_panels(path, [_changes, _carried])


def _changes(axes: Any) -> None:
    from elman.recipes.lab.clue_production import production_reader

    reader = production_reader()
    blue = reader.fixture.cases["long"]["blue"]
    before = reader.parameters()
    reader.read(blue)
    after_run = _largest_changes(before, reader.parameters())
    trained = reader.trained(blue, "blue", TRAINING_RATE).parameters()
    places = range(len(before))
    after_step = _largest_changes(before, trained)
    axes.barh(places, after_step, 0.6, color="tab:green", alpha=0.8)
    for place, (run, step) in enumerate(zip(after_run, after_step, strict=True)):
        axes.text(step * 1.15, place, f"{step:.2g}; by a run {run:g}", va="center")
    axes.set(xscale="log", xlim=(1e-3, 50), xlabel="largest change by a step of training, rate 1")
    axes.set_yticks(places)
    axes.set_yticklabels([name.replace("_", " ") for name in before])
    axes.invert_yaxis()


def _largest_changes(before: Mapping[str, Matrix], after: Mapping[str, Matrix]) -> list[float]:
    """Return by how much the number that changed most of each name is another one."""
    pairs = (zip(_flat(after[name]), _flat(before[name]), strict=True) for name in before)
    return [max(abs(float(one - other)) for one, other in pair) for pair in pairs]


def _flat(matrix: Matrix) -> list[Fraction]:
    return [one for row in matrix for one in row]


def _carried(axes: Any) -> None:
    from elman.recipes.lab.clue_production import production_reader

    reader = production_reader()
    short = reader.fixture.cases["short"]
    first = reader.read(short["red"])
    words = [*short["red"], *short["blue"]]
    for old, style, label in ((None, "--", "reset"), (first[-1].new, "-", "carried")):
        steps = [*first, *reader.read(short["blue"], old)]
        for unit, colour in enumerate(("red", "blue")):
            heights = [float(step.new[unit]) for step in steps]
            name = f"{colour}'s unit, {label}"
            axes.plot(range(6), heights, f"o{style}", color=f"tab:{colour}", label=name, alpha=0.7)
    axes.axvline(2.5, color="gray", linestyle=":")
    axes.set(ylabel="state", xticks=range(6), ylim=(-0.06, 1.35))
    axes.legend(frameon=False, ncols=2, loc="upper center")
    axes.set_xticklabels(words)


CLUE_PARAMETERS = Experiment(
    "clue-parameters",
    "a run changes states and no parameter, a step of training changes parameters",
    "document 003, 11.4, table 11.5, exercise 3",
    _run,
    _draw,
)
