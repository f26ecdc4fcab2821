"""Every case of the document has tests that are there, and no case is missing."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "cases.md"
LIST = ROOT.parent / "shared" / "cases" / "open_cases.md"
IDS = (
    *("A01", "A02", "A04", "A05", "A07", "A08", "A10", "A11", "A13", "A14", "A16", "A17"),
    *("A19", "A20", "B02", "B03", "B05", "B06", "B08", "B09", "B11", "B12", "B14", "B15"),
    *("C01", "C02", "C04", "C05", "C07", "C08", "D01", "D02", "D04", "D05", "D07", "D08"),
    *("D10", "D11", "E02", "E03", "E05", "E06", "E08", "E09", "F01", "F02", "F04", "F05"),
    *("G02", "G03", "G05", "G06"),
)
WAITING = {"F02", "F04", "F05"}
ROW = re.compile(r"^\| ([A-Z]\d\d) \| (.+?) \| (.+?) \|$", re.MULTILINE)


def rows() -> list[tuple[str, str, str]]:
    """The id, the fault, and what is written in the last column, of each case."""
    return ROW.findall(DOCUMENT.read_text(encoding="utf-8"))


@cache
def functions_in(path: Path) -> frozenset[str]:
    """The names of the test functions in a file, of those with parameters the function's own."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def named_tests(column: str) -> list[tuple[str, str]]:
    """The file and the name of each test in the last column, which holds nothing beside them."""
    found = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", column)
    assert column == " ".join(f"`{path}::{name}`" for path, name in found), column
    return found


def test_every_case_is_in_the_table_once() -> None:
    assert [case for case, _, _ in rows()] == list(IDS)
    assert all(fault.strip() for _, fault, _ in rows())


@pytest.mark.parametrize(("case", "column"), [(case, column) for case, _, column in rows()])
def test_every_test_that_is_named_is_there(case: str, column: str) -> None:
    if case in WAITING:
        assert column.startswith("waits: ")
        return
    tests = named_tests(column)
    assert tests
    assert len(set(tests)) == len(tests), "a test is named twice"
    for path, name in tests:
        assert (ROOT / path).is_file(), path
        assert name in functions_in(ROOT / path), f"{path} has no {name}"


def test_the_table_has_the_cases_of_the_list() -> None:
    if not LIST.is_file():
        pytest.skip("the list of cases is not beside this checkout")
    listed = re.findall(r"^### ([A-Z]\d\d)\b", LIST.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == list(IDS)
