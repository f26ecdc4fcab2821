"""Tables of `elman inspect`: figures are never cut, tokens and candidates give way."""

from io import StringIO

import pytest
from rich.text import Text

from elman.apps.cli.inspect_cells import print_fitted, shown_token
from elman.apps.cli.inspect_likeliest import print_likeliest
from elman.apps.cli.output import ResultConsole

LONG = "counterrevolutionaries"


@pytest.mark.parametrize("columns", [30, 60, 80, 160])
def test_figures_are_whole_on_any_screen(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    figures = ["12.34", "1,234", "0.567"]
    row = [shown_token(LONG), Text(f"{LONG} ? *"), *map(Text, figures)]
    shares = [[(LONG, 0.5), ("of", 0.25), (f"{LONG}s", 0.125)]]
    print_likeliest(
        ("read", "next", "bits", "rank", "p"), [row], shares, left=(0, 1), tokens=(0, 1)
    )
    title, line, *more = capsys.readouterr().out.splitlines()
    assert all(figure in line.split() for figure in figures)
    assert "? *" in line
    assert "50 %" in line
    assert max(len(title), len(line)) <= max(columns, 60)
    assert bool(more) == (columns < 160)


def test_a_table_wider_than_the_screen_is_not_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    names = [f"gate {number}" for number in range(8)]
    row = [shown_token(LONG), *(Text(f"{number / 8:+.3f}") for number in range(8))]
    print_fitted(("read", *names), [row], left=(0,), tokens=(0,))
    title, line = capsys.readouterr().out.splitlines()
    assert " ".join(title.split()) == " ".join(("read", *names))
    assert [float(cell) for cell in line.split()[1:]] == [number / 8 for number in range(8)]


def test_a_reader_who_has_gone_is_no_fault() -> None:
    class Gone(StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        ResultConsole(file=Gone()).print("x")
