"""One number changed at a time: fillers, the retention of the state, the bias of red.

    h_T = r^{T−1} for a clue read first;   blue wins iff r^{T−1} > b

so that at T = 9 the answer flips at r = b^{1/8} = 8^{−1/8} for b = 1/8, and at b = 1/256 for r = ½.
With r = 1 the clue is kept for ever, and so is every other one: the state counts, without bound.
"""

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from elman.recipes.lab.clue_reader import ClueReader, as_texts, with_retention
from elman.recipes.lab.experiment import Experiment, Measured, Value

_REPEATS = (1, 2, 3, 10, 100)
_MOST_FILLERS = 12
_HALVINGS = 44
"""Halvings of an interval of at most ½: the flip is known to 3e-14."""


def clue_sweep_findings(reader: ClueReader) -> Iterator[Measured]:
    """Yield where the answer to blue flips, over fillers, retention and bias; what r = 1 does."""
    rows = [_after_fillers(reader, fillers) for fillers in range(_MOST_FILLERS)]
    least = next((fillers for fillers, row in enumerate(rows) if row[2] == "red"), None)
    yield Measured("003-28", [*rows[:3], least], "h, z, answer of 0, 1, 2 fillers; the first red")
    blue = reader.fixture.cases["long"]["blue"]
    keeping = with_retention(reader, Fraction(1))
    last = keeping.read(blue)[-1]
    chance = keeping.probabilities(last.logits)[1]
    answer = keeping.choice(last.logits)
    found: Value = [as_texts(last.new), as_texts(last.logits), answer, chance]
    yield Measured("003-29", found, "h_9, z_9, the answer and p(blue) with retention 1")
    repeated = keeping.read(["blue"] * _REPEATS[-1])
    units = [str(repeated[number - 1].new[1]) for number in _REPEATS]
    after_red = keeping.read(["red"], repeated[9].new)[-1]
    leaking = reader.read(["blue"] * 10)[-1].new[1]
    yield Measured(
        "003-30",
        [units, as_texts(after_red.new), str(leaking)],
        f"blue's unit after {', '.join(map(str, _REPEATS))} blues with retention 1; the state where"
        " a red follows ten; blue's unit after ten with retention ½",
    )
    kept, bias = _flip_of_retention(reader), _flip_of_bias(reader)
    found = [float(kept), str(bias)]
    yield Measured("003-33", found, "the retention, the bias of red at which long blue turns red")


def _after_fillers(reader: ClueReader, fillers: int) -> tuple[Value, Value, Value]:
    """Return h, z and the answer after blue, so many fillers, and the end of the short text."""
    first, *end = reader.fixture.cases["short"]["blue"]
    last = reader.read([first, *["filler"] * fillers, *end])[-1]
    return as_texts(last.new), as_texts(last.logits), reader.choice(last.logits)


def _flip_of_retention(reader: ClueReader) -> Fraction:
    return _flip(lambda r: _answers_blue(with_retention(reader, r)), Fraction(1), Fraction(1, 2))


def _flip_of_bias(reader: ClueReader) -> Fraction:
    return _flip(lambda b: _answers_blue(_with_bias(reader, b)), Fraction(0), Fraction(1, 8))


def _with_bias(reader: ClueReader, bias: Fraction) -> ClueReader:
    return reader.changed({"output_bias": ((bias, Fraction(0)),)})


def _answers_blue(reader: ClueReader) -> bool:
    return reader.choice(reader.read(reader.fixture.cases["long"]["blue"])[-1].logits) == "blue"


def _flip(is_blue: Callable[[Fraction], bool], blue: Fraction, red: Fraction) -> Fraction:
    """Return the value nearest to `blue` that was found to answer red, by halving the interval."""
    for _ in range(_HALVINGS):
        middle = (blue + red) / 2
        blue, red = (middle, red) if is_blue(middle) else (blue, middle)
    return red


def _run() -> Iterable[Measured]:
    """Return the findings by the trained classes, held against the fractions."""
    from elman.recipes.lab.clue_production import compared

    return compared(clue_sweep_findings)


def _draw(path: Path) -> None:
    """Draw p(blue) for the blue clue over fillers, over the retention and over the bias of red."""
    from elman.recipes.panels import draw_panels

    draw_panels(path, [_over_fillers, _over_retention, _over_bias])


def _over_fillers(axes: Any) -> None:
    reader = _produced()
    first, *end = reader.fixture.cases["short"]["blue"]
    numbers = range(_MOST_FILLERS)
    lasts = [reader.read([first, *["filler"] * number, *end])[-1] for number in numbers]
    units = [float(last.new[1]) for last in lasts]
    answers = [reader.choice(last.logits) for last in lasts]
    bias = reader.parameters()["output_bias"][0][0]
    _coloured(axes, list(map(float, numbers)), units, answers)
    axes.axhline(float(bias), color="gray", linestyle=":")
    told = f"bias of red {bias}"
    axes.text(_MOST_FILLERS - 1, float(bias) * 1.15, told, ha="right", color="gray")
    axes.set(
        yscale="log", xlabel="fillers between clue and question", ylabel="blue's unit at the end"
    )
    axes.set_yticks([2.0**-n for n in (2, 4, 6, 8, 10, 12)])
    axes.set_yticklabels([f"1/{2**n}" for n in (2, 4, 6, 8, 10, 12)])
    axes.minorticks_off()


def _over_retention(axes: Any) -> None:
    flip = _flip_of_retention(_produced())
    _margins(axes, [Fraction(n, 100) for n in range(50, 101)], with_retention)
    axes.axvline(float(flip), color="gray", linestyle=":")
    axes.text(float(flip) - 0.01, 0.4, f"{float(flip):.4f}", ha="right", color="gray")
    axes.set(xlabel="retention, with a bias of 1/8", ylabel="logit of blue − of red")


def _over_bias(axes: Any) -> None:
    flip = _flip_of_bias(_produced())
    _margins(axes, [Fraction(n, 6400) for n in range(51)], _with_bias)
    axes.axvline(float(flip), color="gray", linestyle=":")
    axes.text(float(flip) + 0.0001, 0.001, f"{flip}, a tie", color="gray")
    axes.set(xlabel="bias of red, with a retention of ½", ylabel="logit of blue − of red")


def _produced() -> ClueReader:
    from elman.recipes.lab.clue_production import production_reader

    return production_reader()


def _margins(
    axes: Any, values: list[Fraction], change: Callable[[ClueReader, Fraction], ClueReader]
) -> None:
    """Draw what the nine readings of long blue leave between the logits, for each value."""
    margins, answers, reader = [], [], _produced()
    for value in values:
        changed = change(reader, value)
        logits = changed.read(reader.fixture.cases["long"]["blue"])[-1].logits
        margins.append(float(logits[1] - logits[0]))
        answers.append(changed.choice(logits))
    _coloured(axes, list(map(float, values)), margins, answers)
    axes.axhline(0.0, color="gray", linestyle=":")


def _coloured(axes: Any, xs: list[float], ys: list[float], answers: list[str]) -> None:
    """Draw points in the colours of the answers."""
    axes.plot(xs, ys, color="lightgray", zorder=1)
    for answer in ("blue", "red"):
        places = [place for place, one in enumerate(answers) if one == answer]
        axes.scatter(
            [xs[place] for place in places],
            [ys[place] for place in places],
            s=18,
            color=f"tab:{answer}",
            label=f"answers {answer}",
            zorder=2,
        )


CLUE_SWEEPS = Experiment(
    "clue-sweeps",
    "where the answer flips over fillers, retention and bias",
    "document 003, exercises 1 and 2, and 11.3",
    _run,
    _draw,
)
