"""The documents agree with the code and with the house rules."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_of_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_no_document_holds_a_placeholder(path: Path) -> None:
    assert not re.search(r"@@|\bTBD\b", path.read_text(encoding="utf-8"))


def test_settings_document_is_the_one_the_code_makes() -> None:
    from elman.config.reference import settings_reference

    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8").strip() == (
        settings_reference().strip()
    )


def test_every_command_of_the_readme_is_one_of_the_command(tmp_path: Path) -> None:
    from elman.apps.cli.main import build_app

    app = build_app()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^elman (?!demo:)(.+)$", readme, flags=re.MULTILINE)
    assert len(commands) >= 5
    for command in commands:
        words = command.replace('"', "").split()
        app.parse_args(words, exit_on_error=False, print_error=False)


def test_pins_satisfy_the_ranges() -> None:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = whole["project"]
    names = [
        re.split(r"[<>=]", requirement)[0]
        for requirement in (
            *whole["build-system"]["requires"],
            *project["dependencies"],
            *(name for extra in project["optional-dependencies"].values() for name in extra),
        )
    ]
    pinned = re.findall(r"^([\w-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert set(names) == set(pinned)


def test_nothing_in_the_tree_knows_where_it_was_made() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    for name in tracked:
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".txt"} and path.is_file():
            text = path.read_text(encoding="utf-8")
            assert "/" + "work/" not in text, name
