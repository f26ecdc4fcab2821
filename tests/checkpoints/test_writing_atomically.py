import sys
from pathlib import Path

import pytest

from elman.atomic_files import STANDARD_OUTPUT, writing_atomically
from elman.errors import RunError


def test_a_table_takes_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    path.write_text("old")

    def fail_half_way() -> None:
        with writing_atomically(path) as file:
            file.write("new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert path.read_text() == "old"
    with writing_atomically(path) as file:
        file.write("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["table.tsv"]


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.tsv", tmp_path / "link.tsv"
    real.write_text("old")
    link.symlink_to(real)
    with writing_atomically(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_standard_output_is_written_to_and_never_replaced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with writing_atomically(STANDARD_OUTPUT) as file:
        assert file is sys.stdout
        file.write("row\n")
    assert capsys.readouterr().out == "row\n"


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot write"), writing_atomically(tmp_path / "no" / "t"):
        pass
