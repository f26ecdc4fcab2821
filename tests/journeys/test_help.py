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


def test_a_wrong_setting_is_refused_before_torch_is_loaded() -> None:
    code = (
        "import sys\n"
        "from elman.apps.cli.main import run\n"
        "try:\n"
        "    run(['train', 'lm', '--data', 'x', '--out', 'y', '--set', 'model.kind=grue'])\n"
        "finally:\n"
        "    assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert 'got "grue"; did you mean gru?' in done.stderr


def test_the_version_is_that_of_the_package(elman: Elman) -> None:
    import elman as package

    assert elman("--version").stdout.strip() == package.__version__


def test_an_unknown_verb_names_the_nearest(elman: Elman) -> None:
    done = elman("genrate", "run")
    assert done.returncode == 2
    assert "generate" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("compare", "elman compare needs PATHS; got none; see elman compare --help"),
        ("score", "elman score needs RUN; got none; see elman score --help"),
        ("predict run", "elman predict needs FILE; got none; see elman predict --help"),
        ("train lm", "elman train lm needs --out; got none; see elman train lm --help"),
        (
            "train lm --out run --budget -5s",
            "--budget needs a value; got -5s, which begins with - and is taken for an option; "
            "a value that begins so is given as --budget=-5s; see elman train lm --help",
        ),
        (
            "score run file --per-token --json",
            "--per-token needs a value; got the option --json; see elman score --help",
        ),
        ("score run --mix", "--mix needs a value; got none; see elman score --help"),
        (
            "trian lm",
            "elman has no such command; got trian; allowed: demo, score, compare, predict, "
            "generate, inspect, diagnose, lab, convert, bench, train, data; did you mean train? "
            "see elman --help",
        ),
        (
            "train xyzzy",
            "elman train has no such command; got xyzzy; allowed: lm, classify, tag, translate, "
            "ladder; see elman train --help",
        ),
        ("score run --bogus", "Unknown option: --bogus. Did you mean --verbose? see elman score"),
    ],
)
def test_a_mistake_in_the_options_is_told_in_the_words_that_are_typed(
    elman: Elman, arguments: str, told: str
) -> None:
    done = elman(*arguments.split())
    assert done.returncode == 2
    assert done.stderr.startswith(f"elman: {told}")
    assert done.stderr.count("\n") == 1
