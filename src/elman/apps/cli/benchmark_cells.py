"""How the rows of a benchmark look: columns, units and colours, for each kind of row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from rich.text import Text

from elman.recipes.benchmark.report import BenchRow
from elman.recipes.benchmark.rows import Family

WIDE = 119
"""Columns of a terminal from which torch's setting is shown, and more of the kernel's reason."""

Layout = Literal["recurrence", "ragged", "model"]

TITLES: Mapping[Family, str] = MappingProxyType(
    {
        "recurrences": "Recurrences: one layer over whole sequences, input as wide as the state",
        "ragged": "Ragged batches: half of all positions are padding; torch packs its sequences",
        "word": "Word language model: a whole training step; 20 lanes, window 35, SGD, clipping",
        "generation": "Generation: one stream, a token at a time",
        "bfloat16": "Training with products in bfloat16, beside torch's best in any precision",
        "gpu": "The same recurrences on the GPU, where cuDNN runs both sides",
    }
)
SUBJECTS: Mapping[str, str] = MappingProxyType(
    {
        "elman/tanh": "Elman (tanh)",
        "elman/relu": "Elman (ReLU)",
        "gru/after/keep": "GRU (reset after)",
        "lstm": "LSTM",
    }
)
MODES: Mapping[str, str] = MappingProxyType(
    {"forward": "forward", "training": "training step", "generation": "generation"}
)


@dataclass(frozen=True)
class BenchColumn:
    """One column: its title, its width, and the text of a row's cell; figures stand right."""

    title: str
    width: int
    cell: Callable[[BenchRow], str | Text]
    left: bool = False


def layout_of(row: BenchRow) -> Layout:
    """Return which columns suit `row`."""
    if "V" in row.sizes:
        return "model"
    return "ragged" if row.family == "ragged" else "recurrence"


def group_of(row: BenchRow) -> str:
    """Return the heading that `row` stands under, or nothing where its sizes say it all."""
    if layout_of(row) == "model":
        return ""
    return f"{SUBJECTS.get(row.subject, row.subject)}, {MODES[row.mode]}"


def columns_of(layout: Layout, *, wide: bool) -> tuple[BenchColumn, ...]:
    """Return the columns of `layout` for a terminal that is `wide` or has 80 columns."""
    ends: tuple[BenchColumn, ...] = (
        BenchColumn("differs", 8, lambda row: difference_text(row.difference)),
        BenchColumn("kernel", 28 if wide else 14, lambda row: kernel_text(row, wide), left=True),
    )
    if wide:
        ends += (BenchColumn("torch's best", 22, lambda row: row.comparison.setting, left=True),)
    ratio = BenchColumn("ratio", 8, ratio_text)
    if layout == "model":
        return (
            BenchColumn("model", 25, _model, left=True),
            BenchColumn("elman", 10, lambda row: _per_second(row, "tokens_per_second")),
            BenchColumn("torch", 10, lambda row: _per_second(row, "torch_tokens_per_second")),
            ratio,
            *ends,
        )
    shape = BenchColumn("T,B,H", 12, _shape, left=True)
    ours = BenchColumn("elman", 9, lambda row: time_text(row.comparison.ours.median_seconds))
    if layout == "ragged":
        of_padded = BenchColumn("of padded", 11, lambda row: _share(row, "share_of_padded"))
        return (shape, ours, of_padded, _theirs("packed"), ratio, *ends)
    rate = BenchColumn("GFLOP/s", 9, lambda row: _whole(row, "gflops_per_second"))
    peak = BenchColumn("of peak", 8, lambda row: _share(row, "share_of_peak"))
    return (shape, ours, _theirs("torch"), ratio, rate, peak, *ends)


def heading_line(columns: tuple[BenchColumn, ...]) -> Text:
    """Return the titles of `columns`."""
    return _line(columns, [Text(column.title) for column in columns]).append("")


def row_line(row: BenchRow, columns: tuple[BenchColumn, ...]) -> Text:
    """Return one row as one line."""
    cells = [column.cell(row) for column in columns]
    return _line(columns, [cell if isinstance(cell, Text) else Text(cell) for cell in cells])


def detail_lines(row: BenchRow) -> list[str]:
    """Return what a row of a model has beside its columns, in sentences short enough for a line."""
    figures, told = row.figures, []
    if "updates_compared" in figures:
        apart = difference_text(row.difference)
        told.append(
            f"losses of {figures['updates_compared']} updates differ by {apart} nats per token "
            "at most"
        )
        told.append(_memory(row))
    if "far_position" in figures:
        told.append(
            f"reads {_bytes(figures['weight_bytes'])} a token: "
            f"{_share(row, 'share_of_bandwidth')} of the {_bytes(figures['read_bytes_per_second'])}"
            "/s that such an array gives"
        )
        told.append(
            f"a token at position {figures['far_position']:,} takes "
            f"{figures['far_time_ratio']:.2f} times one at position 10"
        )
    return told


def kernel_text(row: BenchRow, wide: bool) -> Text:
    """Return how the row ran: the kernel's own words where it is native or there is room."""
    if not row.agrees:
        return Text("wrong values", style="bold red")
    standing = row.kernel.standing
    style = {"native": "green", "given to torch": "cyan", "miss": "yellow"}[standing]
    if standing == "native":
        return Text(row.kernel.told, style=style)
    return Text(f"{standing}: {_why(row)}" if wide and _why(row) else standing, style=style)


def ratio_text(row: BenchRow) -> Text:
    """Return the ratio; one that counts stands out, one of a fallback does not."""
    if row.ratio is None:
        return Text("–", style="red")
    if row.kernel.standing != "native":
        return Text(f"{row.ratio:.2f}×", style="bright_black")
    return Text(f"{row.ratio:.2f}×", style="bold green" if row.ratio >= 1.0 else "bold yellow")


def difference_text(difference: float) -> str:
    """Return a difference with one digit; 0 says that both sides gave the same bits."""
    return "0" if difference == 0.0 else f"{difference:.0e}"


def time_text(seconds: float) -> str:
    """Return `seconds` with three digits and the unit that suits them."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{_three_digits(seconds / scale)} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _theirs(title: str) -> BenchColumn:
    return BenchColumn(title, 9, lambda row: time_text(row.comparison.theirs.median_seconds))


def _line(columns: tuple[BenchColumn, ...], cells: list[Text]) -> Text:
    line = Text("  ")
    for column, cell in zip(columns, cells, strict=True):
        cell = cell.copy()
        cell.truncate(column.width, overflow="ellipsis")
        if column.left:
            gap = "" if len(line) == 2 else "  "
            line.append(gap).append_text(cell).append(" " * (column.width - cell.cell_len))
        else:
            line.append(" " * (column.width - cell.cell_len)).append_text(cell)
    line.rstrip()
    return line


def _model(row: BenchRow) -> str:
    precision = row.figures.get("precision")
    return row.subject if precision is None else f"{row.subject}, {precision}"


def _shape(row: BenchRow) -> str:
    return ",".join(str(row.sizes[axis]) for axis in ("T", "B", "H"))


def _why(row: BenchRow) -> str:
    """Return the reason of a fallback without the name of what ran, which is told before it."""
    return row.kernel.told.partition(": ")[2]


def _three_digits(value: float) -> str:
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}"


def _number(row: BenchRow, name: str) -> float | None:
    value = row.figures.get(name)
    return float(value) if isinstance(value, int | float) else None


def _whole(row: BenchRow, name: str) -> str:
    value = _number(row, name)
    return "–" if value is None else f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}"


def _per_second(row: BenchRow, name: str) -> str:
    return f"{_whole(row, name)}/s"


def _share(row: BenchRow, name: str) -> str:
    value = _number(row, name)
    return "–" if value is None else f"{value:.0%}".replace("%", " %")


def _bytes(value: object) -> str:
    """Return a number of bytes as MB or GB of ten to the sixth or ninth."""
    if not isinstance(value, int | float):
        return "–"
    unit, scale = ("GB", 1e9) if value >= 1e9 else ("MB", 1e6)
    return f"{_three_digits(value / scale)} {unit}"


def _memory(row: BenchRow) -> str:
    figures = row.figures
    if figures.get("peak_bytes") is None:
        return "peak memory: this system does not tell"
    return (
        f"peak memory {_bytes(figures['peak_bytes'])}, {_share(row, 'share_of_torch_memory')} of "
        f"torch's {_bytes(figures['torch_peak_bytes'])} "
        f"({_bytes(figures['bytes_before_model'])} before the model)"
    )
