"""The layout of the project, held by a test: change the layout and this file together."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "elman"

# Rank of every unit directly under elman/, as ARCHITECTURE.md lists them. Imports point down.
RANKS = {
    "errors": 0,
    "rows": 0,
    "atomic_files": 1,
    "shapes": 1,
    "config": 1,
    "seeding": 1,
    "text": 2,
    "cells": 2,
    "kernels": 2,
    "processes": 2,
    "data": 3,
    "layers": 3,
    "models": 4,
    "losses": 4,
    "training": 5,
    "evaluation": 5,
    "decoding": 5,
    "inspection": 5,
    "checkpoints": 5,
    "recipes": 6,
    "apps": 7,
}
ARROWS = {
    "config": "TOML ↔ frozen dataclasses",
    "text": "text ↔ ids",
    "cells": "(x_t, state) → state",
    "kernels": "(x_t, state) → state",
    "data": "ids → batches",
    "layers": "x over time → states over time",
    "models": "(ids, state) → (states, readout, state)",
    "training": "loss → better weights",
    "evaluation": "model + data → numbers",
    "decoding": "logits → ids → text",
    "inspection": "model + batch → gates, gradients",
    "checkpoints": "model ↔ disk",
    "recipes": "config → finished run",
    "apps": "person → recipes",
}
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
OPTIONAL_PACKAGES = {"matplotlib", "onnx", "onnxruntime", "keras", "sacrebleu", "seqeval", "jiwer"}

MODULES = sorted(PACKAGE.rglob("*.py"))
PYTHON_FILES = sorted(
    path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def unit_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """Every absolute module that `path` imports, wherever the statement stands, with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: imports are absolute"
            yield node.module or "", node.lineno


def functions_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_every_unit_has_a_rank() -> None:
    units = {unit_of(path) for path in MODULES} - {"__init__", "__main__"}
    assert units <= RANKS.keys(), f"units without a rank: {sorted(units - RANKS.keys())}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_down(path: Path) -> None:
    unit = unit_of(path)
    if unit in {"__init__", "__main__"}:
        return
    for module, line in imports_of(path):
        parts = module.split(".")
        if parts[0] != "elman" or len(parts) == 1 or parts[1] == unit:
            continue
        assert RANKS[parts[1]] < RANKS[unit], (
            f"{name_of(path)}:{line}: {unit} (rank {RANKS[unit]}) must not import "
            f"{parts[1]} (rank {RANKS[parts[1]]})"
        )


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_optional_packages_are_imported_only_where_they_are_used(path: Path) -> None:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            assert name.split(".")[0] not in OPTIONAL_PACKAGES, f"{name_of(path)}:{node.lineno}"


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_files_and_functions_stay_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= MAX_FILE_LINES, f"{name_of(path)} has {lines} lines"
    for function in functions_of(path):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        assert length <= MAX_FUNCTION_LINES, f"{name_of(path)}: {function.name} has {length} lines"


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_no_module_has_a_vague_name(path: Path) -> None:
    parts = {part.removesuffix(".py") for part in path.relative_to(ROOT).parts}
    assert not parts & VAGUE_NAMES


def test_no_public_name_is_defined_twice() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name_of(path))
    twice = {name: where for name, where in homes.items() if len(where) > 1}
    assert not twice


@pytest.mark.parametrize("unit", sorted(ARROWS))
def test_a_folder_opens_with_its_arrow(unit: str) -> None:
    docstring = ast.get_docstring(
        ast.parse((PACKAGE / unit / "__init__.py").read_text(encoding="utf-8"))
    )
    assert docstring is not None
    assert docstring.startswith(ARROWS[unit]), docstring


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_function_takes_arbitrary_keywords(path: Path) -> None:
    for function in functions_of(path):
        assert function.args.kwarg is None, f"{name_of(path)}:{function.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_keeps_mutable_state(path: Path) -> None:
    mutable = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, mutable):
            names = [
                target.id
                for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
                if isinstance(target, ast.Name)
            ]
            assert names == ["__all__"], (
                f"{name_of(path)}:{node.lineno}: use a tuple or a mapping proxy"
            )


def test_architecture_lists_every_rank() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for unit, rank in RANKS.items():
        assert any(
            line.startswith(f"| {rank} |") and f"`{unit}" in line for line in text.splitlines()
        ), f"ARCHITECTURE.md has no row of rank {rank} for {unit}"
