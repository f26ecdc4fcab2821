"""The compiled module is there where it has to be, and the level in use is one that is offered."""

import os

import pytest

from elman.errors import SettingError
from elman.kernels import native_module
from elman.kernels.native_module import LEVEL_VARIABLE, NOT_BUILT, native_level, native_levels


@pytest.mark.skipif(
    os.environ.get("ELMAN_REQUIRE_NATIVE", "0") != "1", reason="only where the build must succeed"
)
def test_the_native_module_is_built() -> None:
    assert native_level() != ""


@pytest.mark.skipif(not native_levels(), reason=NOT_BUILT)
def test_levels_end_with_the_one_of_every_processor_and_can_be_forced(monkeypatch) -> None:
    monkeypatch.delenv(LEVEL_VARIABLE, raising=False)
    assert native_levels()[-1] == "baseline"
    assert native_level() == native_levels()[0]
    for level in native_levels():
        monkeypatch.setenv(LEVEL_VARIABLE, level)
        assert native_level() == level
    monkeypatch.setenv(LEVEL_VARIABLE, "AVX9000")
    with pytest.raises(SettingError, match=r"ELMAN_LEVEL must name .* got 'AVX9000'; allowed: "):
        native_level()


def test_without_the_module_there_is_no_level(monkeypatch) -> None:
    monkeypatch.setattr(native_module, "native", None)
    assert native_levels() == ()
    assert native_level() == ""
