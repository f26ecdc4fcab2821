"""Searches that cannot be are refused in the words that were typed."""

import pytest

from elman.apps.cli.options import naming_options
from elman.apps.cli.search_options import SearchOptions, asked_search
from elman.decoding.beam import BeamSettings
from elman.decoding.translation_steps import TranslationSearch
from elman.errors import SettingError


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (SearchOptions(beam=0), "--beam must be an int >= 1; got 0"),
        (SearchOptions(beam=-1), "--beam must be an int >= 1; got -1"),
        (SearchOptions(n_best=0), "--n-best must be an int from 1 to --beam; got 0 with --beam 1"),
        (
            SearchOptions(beam=2, n_best=3),
            "--n-best must be an int from 1 to --beam; got 3 with --beam 2",
        ),
        (SearchOptions(coverage=-1.0), "--coverage must be a finite number >= 0; got -1"),
        (SearchOptions(coverage=float("nan")), "--coverage must be a finite number >= 0; got nan"),
        (SearchOptions(min_length=-1), "--min-length must be an int >= 0; got -1"),
        (SearchOptions(max_length=-1), "--max-length must be an int >= 0; got -1"),
        (
            SearchOptions(min_length=9, max_length=3),
            "--max-length must be 0 or at least --min-length; got 3 with --min-length 9",
        ),
    ],
)
def test_a_search_that_cannot_be_names_the_option_as_typed(
    options: SearchOptions, told: str
) -> None:
    with pytest.raises(SettingError) as refused:
        asked_search(options)
    assert str(refused.value) == told


def test_searches_that_can_be_are_as_they_were() -> None:
    assert asked_search(SearchOptions()) == TranslationSearch()
    assert asked_search(SearchOptions(min_length=9)).longest(1) == 12
    beam = BeamSettings(3, 3, "average", coverage=0.5)
    assert asked_search(SearchOptions(beam=3, n_best=3, coverage=0.5)).beam == beam


def test_only_the_fields_named_are_told_as_options() -> None:
    with pytest.raises(SettingError) as kept, naming_options("beam"):
        raise SettingError("a beam takes no stop text", got="beam")
    assert str(kept.value) == "a beam takes no stop text; got beam"
    with pytest.raises(SettingError) as told, naming_options("top_p", "top_k"):
        raise SettingError("top_p cannot be used", got="2", allowed="0 < top_p <= 1")
    assert str(told.value) == "--top-p cannot be used; got 2; allowed: 0 < --top-p <= 1"
