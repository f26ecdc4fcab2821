"""Every promise of layers, every registered cell, direction, depth and option."""

import pytest
from stack_promises import STACK_PROMISES, StackSubject, all_stacks, why_not_for_stack


@pytest.mark.parametrize("promise", STACK_PROMISES)
@pytest.mark.parametrize("subject", all_stacks(), ids=str)
def test_layers_keep_their_promise(subject: StackSubject, promise: str) -> None:
    reason = why_not_for_stack(promise, subject)
    if reason:
        pytest.skip(f"not applicable, because {reason}")
    STACK_PROMISES[promise](subject)
