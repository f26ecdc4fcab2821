"""Native entry points with several wrong arguments at once: an answer, or an error of Python's."""

import random

import pytest
from hostile_native import native_subjects
from hypothesis import given, settings
from hypothesis import strategies as st
from outcomes import outcome_of_use

from elman.kernels import native_module
from elman.kernels.native_module import NOT_BUILT

pytestmark = pytest.mark.skipif(native_module.native is None, reason=NOT_BUILT)
SUBJECTS = {subject.name: subject for subject in native_subjects()}


@pytest.mark.parametrize("name", SUBJECTS)
@settings(max_examples=150)
@given(draw=st.randoms(use_true_random=False))
def test_any_mixture_of_arguments_is_answered_or_refused(name: str, draw: random.Random) -> None:
    outcome = outcome_of_use(SUBJECTS[name].attempt(draw).use)
    assert outcome.kind in ("answered", "refused"), outcome.told


@pytest.mark.parametrize("name", SUBJECTS)
def test_some_mixtures_are_answered_and_some_are_refused(name: str) -> None:
    uses = [SUBJECTS[name].attempt(random.Random(seed)).use for seed in range(60)]
    assert {outcome_of_use(use).kind for use in uses} == {"answered", "refused"}
