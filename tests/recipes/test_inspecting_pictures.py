"""Pictures of the views: what stands where, and that no token is taken for a formula."""

import itertools
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from elman.evaluation.attention_picture import draw_attention
from elman.evaluation.picture_labels import token_label
from elman.evaluation.reach import ReachCurve
from elman.inspection.horizon import PerturbationCurve
from elman.recipes.inspecting.gate_view import GateSummary, LayerGates
from elman.recipes.inspecting.horizon_view import HorizonView
from elman.recipes.inspecting.pictures import gates_plot, horizon_plot, trace_plots
from elman.recipes.inspecting.tracing import TracedToken, UnitStep
from elman.recipes.panels import PANEL_INCHES, Plot, WidePlot

figures = pytest.importorskip("matplotlib.figure", reason="pip install elman[metrics]")


def drawn(plot: Plot) -> Any:
    axes = figures.Figure(figsize=PANEL_INCHES).subplots()
    plot(axes)
    axes.figure.canvas.draw()
    return axes


@pytest.mark.parametrize(
    ("token", "label"),
    [
        ("a b\n", "a␣b⏎"),
        ("$x$", r"\$x\$"),
        ("[ S ]", "[S]"),
        ("\x07", r"\x07"),
        ("unforgettable", "unforgettable"),
        ("unforgettable, all of it", "unforgettable,␣…"),
    ],
)
def test_a_label_shows_blanks_and_is_no_formula(token: str, label: str) -> None:
    assert token_label(token, 16) == label


def layer_gates(name: str, time_constants: tuple[float, ...]) -> LayerGates:
    gate = GateSummary(name, 0.1, 0.25, 0.5, ())
    return LayerGates(0, "", "a cell", 9, (gate,), (), time_constants)


def test_cells_that_carry_nothing_have_their_ends_drawn_and_no_empty_panel() -> None:
    axes = drawn(gates_plot([layer_gates("preactivation", (0.0, 0.0))]))
    assert [bar.get_height() for bar in axes.patches] == [0.25, 0.5]
    assert "carry" not in axes.get_title(loc="left")
    axes = drawn(gates_plot([layer_gates("forget", (2.0, 5.0))]))
    assert axes.get_lines()[0].get_ydata().tolist() == [5.0, 2.0]


def test_the_horizon_has_every_distance_at_its_place() -> None:
    backs = (0, 1, 2, 5, 10, 100, 150, 200)
    nats = tuple(10.0**-place for place in range(len(backs)))
    curve = PerturbationCurve(backs, nats, (0.0,) * len(backs), 30)
    view = HorizonView(curve, cast(ReachCurve, None), backs, nats)
    axes = drawn(horizon_plot(view))
    assert axes.get_lines()[0].get_xdata().tolist() == list(backs)
    places = axes.transData.transform([(back, 1.0) for back in backs])[:, 0]
    gaps = np.diff(places) / np.diff(np.log1p(backs))
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-6)
    boxes = [tick.get_window_extent() for tick in axes.get_xticklabels()]
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))


@pytest.mark.parametrize("units", [1, 8])
def test_a_trace_has_bars_between_title_and_heat_map_and_says_what_it_shows(units: int) -> None:
    subject = SimpleNamespace(mark_title="bits of surprise at each token", mark_shift=1)
    steps = tuple(UnitStep(unit, "", {"h": 0.0}, {}, {"h": 0.5}) for unit in range(units))
    rows = [
        TracedToken(place, "$a$", cast(Any, SimpleNamespace(mark=float(place))), steps)
        for place in range(80)
    ]
    (plot,) = trace_plots(cast(Any, subject), rows, 0)
    assert isinstance(plot, WidePlot)
    assert plot.inches > 10.0
    axes = drawn(plot)
    assert axes.get_xlabel() == "token read (1 to 60 of 80)"
    assert axes.get_xticklabels()[0].get_text() == r"\$a\$"
    (bars,) = axes.child_axes
    assert [bar.get_x() + bar.get_width() / 2 for bar in bars.patches] == list(range(1, 60))
    assert [bar.get_height() for bar in bars.patches] == [float(place) for place in range(59)]
    assert axes.get_window_extent().y1 < bars.get_window_extent().y0
    title = bars.title if bars.title.get_text() else bars._left_title
    assert bars.get_window_extent().y1 <= title.get_window_extent().y0


def test_attention_has_a_title_and_a_scale(tmp_path: Any) -> None:
    path = tmp_path / "attention.svg"
    assert draw_attention(np.eye(2), ["a", "$"], ["b", "$x$"], path)
    told = path.read_text(encoding="utf-8")
    for text in ("where each target token looks", "weight (a row sums to 1)"):
        assert f"<!-- {text} -->" in told
