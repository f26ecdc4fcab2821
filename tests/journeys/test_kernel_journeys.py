"""What ran is told on standard error when asked for, and only the native path may be missing."""

from pathlib import Path

import pytest

from conftest import Elman
from elman.kernels.native_module import native_level


@pytest.mark.parametrize("verb", ["score", "generate"])
@pytest.mark.parametrize("kernels", ["", "reference"])
def test_verbose_tells_the_kernels_and_changes_no_output(
    elman: Elman, stream_run: Path, story: Path, verb: str, kernels: str
) -> None:
    options = [story] if verb == "score" else ["--seed", "3", "--max-tokens", "9"]
    quiet = elman(verb, stream_run, *options, ELMAN_KERNELS=kernels)
    told = elman(verb, stream_run, *options, "--verbose", ELMAN_KERNELS=kernels)
    assert told.stdout == quiet.stdout
    assert "kernels: " not in quiet.stderr
    module = f"native module, {native_level()}" if native_level() else "torch; the native module"
    assert f"kernels: {module}" in told.stderr
    expected = "native: " if native_level() and not kernels else "reference: "
    assert expected in told.stderr
