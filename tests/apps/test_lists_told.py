"""A list that is cut says how much of it is missing."""

import pytest

from elman.apps.cli.tag_output import tag_warnings
from elman.apps.cli.training_view import tell_names
from elman.errors import first_few


@pytest.mark.parametrize(
    ("count", "shown"), [(0, ""), (1, "a0"), (2, "a0, a1"), (3, "a0, a1 and 1 more")]
)
def test_the_first_few_are_named_and_the_others_counted(count: int, shown: str) -> None:
    assert first_few([f"a{number}" for number in range(count)], 2) == shown


def test_files_beyond_four_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    tell_names([f"{number}.txt" for number in range(6)])
    assert capsys.readouterr().err == "files: 0.txt, 1.txt, 2.txt, 3.txt and 2 more\n"


def test_tags_that_are_unknown_come_by_their_numbers_however_they_were_kept() -> None:
    unknown = {f"T{number:02d}": 1 + (number == 11) for number in range(12)}
    for kept in (unknown, dict(reversed(unknown.items()))):
        (told,) = tag_warnings({"tokens": {"unknown_labels": kept}, "spans": None})
        assert told.startswith("training has not the tags T11 (2), T00 (1), T01 (1)")
        assert "T08 (1) and 2 more: these tokens count as wrong" in told
