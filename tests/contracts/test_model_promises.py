"""Every promise of models that answer a whole row, for every kind of them."""

import pytest
from model_promises import MODEL_PROMISES, ModelSubject, all_models


@pytest.mark.parametrize("promise", MODEL_PROMISES)
@pytest.mark.parametrize("subject", all_models(), ids=str)
def test_models_keep_their_promise(subject: ModelSubject, promise: str) -> None:
    MODEL_PROMISES[promise](subject)
