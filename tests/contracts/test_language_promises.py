"""Every promise of language models, for every kind of them."""

import pytest
from language_promises import (
    LANGUAGE_PROMISES,
    LanguageSubject,
    all_language_models,
    why_not_for_language,
)


@pytest.mark.parametrize("promise", LANGUAGE_PROMISES)
@pytest.mark.parametrize("subject", all_language_models(), ids=str)
def test_language_models_keep_their_promise(subject: LanguageSubject, promise: str) -> None:
    if why := why_not_for_language(promise, subject):
        pytest.skip(f"not applicable, because {why}")
    LANGUAGE_PROMISES[promise](subject)
