"""docs/settings.md and the code say the same."""

from pathlib import Path

from elman.config.fields import setting_facts
from elman.config.reference import settings_reference

ROOT = Path(__file__).resolve().parents[2]


def test_the_documentation_holds_the_reference_that_the_code_makes() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert settings_reference() in page, "docs/settings.md is old: make docs"


def test_every_setting_has_a_meaning_a_range_and_a_row() -> None:
    rows = [line for line in settings_reference().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [facts.key for facts in setting_facts()]
    for facts in setting_facts():
        assert facts.meaning.endswith("."), facts.key
        assert facts.allowed, facts.key
    # A border inside a cell would shift the columns.
    assert {row.replace("\\|", "").count("|") for row in rows} == {5}


def test_a_row_tells_range_and_default() -> None:
    assert (
        "| `model.hidden_size` | an integer >= 1 | `384` | Units in each layer (H). |"
        in settings_reference()
    )
