"""Three readings of a clue: every number of *red key is* and *blue key is* as a fraction.

    h_t = relu(x_t W_x + ½ h_{t−1});   z_t = h_t + [1/8, 0];   p_t = softmax(z_t)

The same weights act three times; each state is half of the one before, plus what is read.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from elman.recipes.lab.clue_reader import ClueReader, as_texts
from elman.recipes.lab.exact_rnn import Row, added, token_ids
from elman.recipes.lab.experiment import Experiment, Measured, Value


def short_clue_findings(reader: ClueReader) -> Iterator[Measured]:
    """Yield what stands in the fixture, and every number of the three readings of both clues."""
    model, parameters = reader.fixture.model, reader.parameters()
    rows = [as_texts(row) for row in parameters["embeddings"]]
    table = list(zip(model.tokens, token_ids(model, model.tokens), rows, strict=True))
    yield Measured("003-02", [list(row) for row in table], "each token, its id and its embedding")
    red = reader.read(reader.fixture.cases["short"]["red"])
    blue = reader.read(reader.fixture.cases["short"]["blue"])
    clipped = as_texts(reader.activate((Fraction(-1), Fraction(1, 2))))
    is_kept = all(step.affine == step.new for step in (*red, *blue))
    yield Measured("003-03", [clipped, is_kept], "f([−1, ½]), and whether a_t = h_t in all steps")
    for claim, step in zip(("003-04", "003-05", "003-06"), red, strict=True):
        how = f"the states before and after {step.token}"
        yield Measured(claim, [as_texts(step.old), as_texts(step.new)], how)
    matrices = [[as_texts(row) for row in parameters[name]] for name in _AFTER_EMBEDDINGS]
    count = sum(len(row) for matrix in parameters.values() for row in matrix)
    yield Measured("003-07", [*matrices, count], "W_x, W_o, W_h, b, b_o, and how many in all")
    last, chances = red[-1], reader.probabilities(red[-1].logits)
    yield Measured("003-08", [as_texts(last.new), as_texts(last.logits)], "h_3 and z_3 of red")
    yield Measured("003-09", [chances[0] / chances[1], *chances], "p(red) / p(blue) = e^(3/8), p")
    for claim, step in zip(("003-10", "003-11", "003-12"), red, strict=True):
        found: Value = [as_texts(step.logits), reader.probabilities(step.logits)]
        yield Measured(claim, found, f"logits and probabilities after {step.token}")
    sums = [sum(reader.probabilities(step.logits)) for step in red]
    hidden = [str(sum(step.new)) for step in red]
    yield Measured("003-13", [sums, hidden], "Σ p_t and Σ h_t of the three readings of red")
    yield Measured("003-14", [as_texts(step.new) for step in blue], "the states of blue")
    wins: Value = [as_texts(blue[-1].logits), reader.probabilities(blue[-1].logits)[1]]
    yield Measured("003-15", wins, "the last logits of blue, and p(blue)")
    yield Measured(
        "003-25",
        _chain(reader),
        "what a small change of h_0 makes of h_1, h_2, h_3, each of the last",
    )


_AFTER_EMBEDDINGS = (
    "input_weights",
    "output_weights",
    "recurrent_weights",
    "hidden_bias",
    "output_bias",
)


def _chain(reader: ClueReader) -> list[str]:
    """Return dh_1/dh_0, dh_2/dh_1, dh_3/dh_2 and dh_3/dh_0 of the first unit, by differences."""
    words, change = reader.fixture.cases["short"]["red"], Fraction(1, 8)
    found, steps = [], reader.read(words)
    spans = ((0, 1), (1, 2), (2, 3), (0, 3))
    for start, stop in spans:
        old = steps[start].old
        other = added(old, (change, *(Fraction(0) for _ in old[1:])))
        moved = reader.read(words[start:stop], other)[-1].new[0]
        found.append(str((moved - steps[stop - 1].new[0]) / change))
    return found


def _run() -> Iterable[Measured]:
    """Return the findings by the trained classes, held against the fractions."""
    from elman.recipes.lab.clue_production import compared

    return compared(short_clue_findings)


def _draw(path: Path) -> None:
    """Draw the three readings unfolded: what goes in, the state, what is answered."""
    from elman.recipes.panels import draw_panels

    draw_panels(path, [_unfolded_red, _unfolded_blue])


def _unfolded_red(axes: Any) -> None:
    _unfolded(axes, "red", "tab:red")


def _unfolded_blue(axes: Any) -> None:
    _unfolded(axes, "blue", "tab:blue")


def _unfolded(axes: Any, clue: str, colour: str) -> None:
    from elman.recipes.lab.clue_production import production_reader

    reader = production_reader()
    kept = f"× {reader.parameters()['recurrent_weights'][0][0]}"
    for place, step in enumerate(reader.read(reader.fixture.cases["short"][clue])):
        chances = reader.probabilities(step.logits)
        answer = reader.choice(step.logits)
        read = f"{step.token}\n{_shown(step.x)}"
        logits = f"{_shown(step.logits)}\n{answer} {max(chances):.4f}"
        box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": colour}
        axes.text(place, 0.0, read, ha="center", va="center")
        axes.text(place, 1.0, _shown(step.new), ha="center", va="center", bbox=box)
        axes.text(place, 2.0, logits, ha="center", va="center", color=f"tab:{answer}")
        _arrow(axes, (place, 0.22), (place, 0.82))
        _arrow(axes, (place, 1.18), (place, 1.78))
        _arrow(axes, (place - 0.68, 1.0), (place - 0.32, 1.0))
        axes.text(place - 0.5, 1.07, kept if place else _shown(step.old), ha="center", color="gray")
    axes.set(xlim=(-0.85, 2.5), ylim=(-0.4, 2.35), xticks=range(3), yticks=(0.0, 1.0, 2.0))
    axes.set_xticklabels([f"reading {place + 1}" for place in range(3)])
    axes.set_yticklabels(["word, x", "state h", "logits,\nanswer"])
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def _arrow(axes: Any, start: tuple[float, float], stop: tuple[float, float]) -> None:
    axes.annotate("", stop, start, arrowprops={"arrowstyle": "->", "color": "gray"})


def _shown(row: Row) -> str:
    return f"[{', '.join(as_texts(row))}]"


SHORT_CLUE = Experiment(
    "short-clue",
    "three readings of a clue, every number a fraction",
    "document 003, 11.2 and 11.3, tables 11.1 to 11.3, figure 11.1",
    _run,
    _draw,
)
