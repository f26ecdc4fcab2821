"""Loading a model never executes code: nothing that could is anywhere in the package."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "elman"
FORBIDDEN = re.compile(
    r"\bpickle\b|torch\.load\b|torch\.save\b|\bmarshal\b|\bshelve\b|\bdill\b|\bjoblib\b"
    r"|(?<![\w.])(?:eval|exec|compile)\(|__import__"
)
# np.load reads pickles unless it is told not to.
ALLOWED = re.compile(
    r"allow_pickle=False|No pickle|torch\.load\(|torch\.save\(model\.state_dict\(\)"
)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_no_module_can_load_code(path: Path) -> None:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = FORBIDDEN.search(ALLOWED.sub("", line))
        assert found is None, f"{path.name}:{number}: {line.strip()}"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_arrays_are_read_without_objects(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "numpy.load"):
            given = {word.arg: ast.unparse(word.value) for word in node.keywords}
            assert given.get("allow_pickle") == "False", f"{path.name}:{node.lineno}"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_files_of_torch_are_read_as_tensors_alone_and_never_written(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
            given = {word.arg: ast.unparse(word.value) for word in node.keywords}
            assert given.get("weights_only") == "True", f"{path.name}:{node.lineno}"
        assert not (isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.save")


@pytest.mark.parametrize(
    "line",
    ["import pickle", "torch.save(x, p)", "eval(text)", "y = exec(text)", "__import__('os')"],
)
def test_the_search_finds_what_it_looks_for(line: str) -> None:
    assert FORBIDDEN.search(line)
    assert not FORBIDDEN.search("model.eval() and re.compile(r'x')")
