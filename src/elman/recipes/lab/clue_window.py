"""What a window of the last words can see of a clue, and what it cannot.

    h = f(Σ_d x_{T−d} W_d),  d = 0 … N − 1;   z = h + [1/8, 0]

A word outside the window changes nothing: texts that differ there alone get one answer. N = 2 sees
*key is* whatever the clue was; N = T sees the clue, and moves the boundary no further than that.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from elman.recipes.lab.clue_reader import (
    ClueReader,
    as_texts,
    right_by_reading,
    right_by_window,
    with_retention,
)
from elman.recipes.lab.experiment import Experiment, Measured, Value


def clue_window_findings(reader: ClueReader) -> Iterator[Measured]:
    """Yield what windows see of the short and the long pair, and how many of each they pass."""
    short, long = reader.fixture.cases["short"], reader.fixture.cases["long"]
    length = reader.fixture.window_length
    seen = [_words_seen(reader, words, length) for words in short.values()]
    yield Measured("003-01", seen, "the words whose change a window of two shows")
    rows = [as_texts(row) for row in reader.window_rows(length)]
    view = reader.look(short["red"], length)
    chance = reader.probabilities(view.logits)[0]
    found: Value = [rows, as_texts(view.hidden), chance]
    yield Measured("003-16", found, "the window's weights, its hidden units at *key is*, p(red)")
    passed = [right_by_reading(reader, "short"), right_by_window(reader, "short", length)]
    yield Measured("003-17", passed, "right answers of the network and of the window, short pair")
    least = [_least_window(reader, pair) for pair in (short, long)]
    yield Measured("003-36", least, "the smallest window that tells the short, the long pair apart")
    whole = len(long["blue"])
    keeping = with_retention(reader, Fraction(1))
    before = reader.parameters()
    window, network = right_by_window(reader, "long", whole), right_by_reading(keeping, "long")
    changed = [name for name, old in before.items() if old != reader.parameters()[name]]
    how = "right long answers of a window of nine and of a network that keeps its state; changed"
    yield Measured("003-32", [window, network, changed], f"{how} parameters")


def _words_seen(reader: ClueReader, words: Sequence[str], length: int) -> list[str]:
    """Return the words that another word in their place would change the hidden units."""
    seen, before = [], reader.look(words, length).hidden
    for place, word in enumerate(words):
        other = "blue" if word == "red" else "red"
        changed = [*words[:place], other, *words[place + 1 :]]
        if reader.look(changed, length).hidden != before:
            seen.append(word)
    return seen


def _least_window(reader: ClueReader, pair: Mapping[str, Sequence[str]]) -> int:
    """Return the length from which on the hidden units of the two texts differ."""
    red, blue = pair["red"], pair["blue"]
    length = 1
    while reader.look(red, length).hidden == reader.look(blue, length).hidden:
        length += 1
    return length


def _run() -> Iterable[Measured]:
    """Return the findings by the trained classes, held against the fractions."""
    from elman.recipes.lab.clue_production import compared

    return compared(clue_window_findings)


def _draw(path: Path) -> None:
    """Draw what is answered to the blue clue by windows of every length, for both pairs."""
    from elman.recipes.panels import draw_panels

    draw_panels(path, [_chances])


def _chances(axes: Any) -> None:
    from elman.recipes.lab.clue_production import production_reader

    reader = production_reader()
    lengths = range(1, 13)
    for case, marker in (("short", "s"), ("long", "o")):
        words = reader.fixture.cases[case]["blue"]
        chances = [reader.probabilities(reader.look(words, n).logits)[1] for n in lengths]
        label = f"{len(words)} tokens"
        axes.plot(lengths, chances, marker=marker, drawstyle="steps-post", label=label)
    axes.axhline(0.5, color="gray", linestyle=":")
    axes.text(12, 0.505, "blue above, red below", ha="right", color="gray")
    axes.set(xticks=lengths, xlabel="tokens in the window", ylabel="p(blue), clue blue")


CLUE_WINDOW = Experiment(
    "clue-window",
    "what a window of the last words sees of a clue",
    "document 003, 11.1 and 11.3, exercise 4",
    _run,
    _draw,
)
