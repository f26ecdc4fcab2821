"""A clue nine words back: it still arrives, and no longer decides.

    h_9 = ½⁸ h_1 = 1/256;   blue wins while its unit is above 1/8, the bias of red

The two states differ, which a window's do not: what is lost is the margin, not the clue. In exact
fractions nothing can have been rounded away. The fourth reading brings blue to 1/8, a tie, and a
tie goes to the first candidate, red.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from elman.recipes.lab.clue_reader import (
    ClueReader,
    as_texts,
    right_by_reading,
    right_by_window,
)
from elman.recipes.lab.exact_rnn import ExactStep
from elman.recipes.lab.experiment import Experiment, Measured, Value


def long_clue_findings(reader: ClueReader) -> Iterator[Measured]:
    """Yield the states and answers nine words after a clue, and where the answer is lost."""
    pair, window = reader.fixture.cases["long"], reader.fixture.window_length
    steps = {clue: reader.read(words) for clue, words in pair.items()}
    kept = steps["red"][-1].new[0] / steps["red"][0].new[0]
    yield Measured("003-18", [len(pair["red"]), str(kept)], "words, and h_9 / h_1 of the clue")
    for claim, clue in (("003-19", "red"), ("003-20", "blue")):
        last, view = steps[clue][-1], reader.look(pair[clue], window)
        answer = reader.choice(last.logits)
        rows = [as_texts(view.logits), as_texts(last.new), as_texts(last.logits)]
        yield Measured(
            claim,
            [*rows, reader.probabilities(last.logits)[0], answer, answer == clue],
            f"{clue}: the window's logits, h_9, z_9, p(red), the answer, whether it is right",
        )
    passed = [right_by_reading(reader, "long"), right_by_window(reader, "long", window)]
    yield Measured("003-21", passed, "right answers of the network and of the window, long pair")
    views = [reader.probabilities(reader.look(words, window).logits) for words in pair.values()]
    chances = [reader.probabilities(steps[clue][-1].logits) for clue in pair]
    same = [views[0] == views[1], chances[0] == chances[1]]
    yield Measured("003-22", same, "whether the pair has one distribution: window, network")
    blue = steps["blue"][-1]
    bias = reader.parameters()["output_bias"][0][0]
    left = [str(blue.new[1]), str(bias), reader.choice(blue.logits)]
    yield Measured("003-23", left, "blue's unit, red's bias, the answer: not 0, and too small")
    yield Measured("003-27", _first_losing(reader, steps["blue"]), "update, h, z, the answer")


def _first_losing(reader: ClueReader, steps: Iterable[ExactStep]) -> Value:
    """Return the number of the first reading after which blue is not answered, and its row."""
    for number, step in enumerate(steps, start=1):
        answer = reader.choice(step.logits)
        if answer != "blue":
            return [number, as_texts(step.new), as_texts(step.logits), answer]
    return []


def _run() -> Iterable[Measured]:
    """Return the findings by the trained classes, held against the fractions."""
    from elman.recipes.lab.clue_production import compared

    return compared(long_clue_findings)


def _draw(path: Path) -> None:
    """Draw the clue's unit over the nine readings beside what it must exceed, and the answers."""
    from elman.recipes.panels import draw_panels

    draw_panels(path, [_units, _chances])


def _units(axes: Any) -> None:
    from elman.recipes.lab.clue_production import production_reader

    reader = production_reader()
    words = reader.fixture.cases["long"]["blue"]
    steps = reader.read(words)
    bias = reader.parameters()["output_bias"][0][0]
    for answer in ("blue", "red"):
        chosen = [n for n, step in enumerate(steps) if reader.choice(step.logits) == answer]
        heights = [float(steps[n].new[1]) for n in chosen]
        axes.bar(chosen, heights, color=f"tab:{answer}", label=f"answers {answer}")
        for place, height in zip(chosen, heights, strict=True):
            told = str(steps[place].new[1])
            axes.text(place, height * 1.08, told, ha="center", va="bottom", fontsize=8)
    axes.axhline(float(bias), color="gray", linestyle=":")
    axes.text(8.5, float(bias) * 1.08, f"bias of red {bias}", ha="right", color="gray")
    axes.set(yscale="log", ylim=(1 / 512, 2), ylabel="blue's unit of the state")
    axes.set_yticks([2.0**-n for n in (8, 6, 4, 2, 0)])
    axes.set_yticklabels(["1/256", "1/64", "1/16", "1/4", "1"])
    axes.minorticks_off()
    axes.set_xticks(range(len(words)))
    axes.set_xticklabels(words, rotation=45, ha="right")


def _chances(axes: Any) -> None:
    from elman.recipes.lab.clue_production import production_reader

    reader = production_reader()
    for clue, words in reader.fixture.cases["long"].items():
        readings = range(1, len(words) + 1)
        chances = [reader.probabilities(step.logits)[1] for step in reader.read(words)]
        axes.plot(readings, chances, "o-", color=f"tab:{clue}", label=f"clue {clue}")
    blind = reader.probabilities(reader.look(words, reader.fixture.window_length).logits)[1]
    axes.axhline(blind, color="gray", linestyle="--", label="window of two, either clue")
    axes.axhline(0.5, color="gray", linestyle=":")
    axes.set(xlabel="reading", ylabel="p(blue)", xticks=readings)


LONG_CLUE = Experiment(
    "long-clue",
    "a clue nine words back arrives and no longer decides",
    "document 003, 11.3 and 11.5, table 11.4",
    _run,
    _draw,
)
