"""Durations as a person types them."""

import pytest

from elman.apps.cli.options import duration_seconds
from elman.errors import SettingError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("90s", 90.0), ("2m", 120.0), ("1h30m", 5400.0)]
)
def test_a_bare_number_is_one_of_seconds(text: str, seconds: float) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["0", "-5s", "soon"])
def test_what_is_refused_is_told_all_that_would_do(text: str) -> None:
    with pytest.raises(SettingError) as refused:
        duration_seconds(text)
    assert str(refused.value) == (
        f"--budget must be a duration above 0; got {text!r}; allowed: a number of seconds, or "
        "numbers with h, m or s, such as 90, 90s or 1h30m"
    )
