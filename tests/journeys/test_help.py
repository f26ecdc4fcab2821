import subprocess
import sys
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

Elman = Callable[..., "CompletedProcess[str]"]


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["train", "--help"], ["train", "lm", "--help"], ["score", "-h"], ["bench", "-h"]],
)
def test_help_is_on_standard_output_and_its_exit_status_is_zero(
    elman: Elman, arguments: list[str]
) -> None:
    done = elman(*arguments)
    assert done.returncode == 0
    assert "Usage: elman" in done.stdout
    assert done.stderr == ""


def test_help_does_not_import_what_takes_long() -> None:
    code = (
        "import sys\n"
        "from elman.apps.cli.main import build_app\n"
        "build_app()\n"
        "heavy = {'torch', 'numpy', 'tokenizers', 'safetensors', 'pydantic'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_that_of_the_package(elman: Elman) -> None:
    import elman as package

    assert elman("--version").stdout.strip() == package.__version__


def test_an_unknown_verb_names_the_nearest(elman: Elman) -> None:
    done = elman("genrate", "run")
    assert done.returncode == 2
    assert "generate" in done.stderr
    assert done.stderr.count("\n") == 1
