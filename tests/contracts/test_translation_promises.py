"""Every promise of encoder-decoders, every way in which source and decoder meet."""

import pytest
from translation_promises import TRANSLATION_PROMISES, Meeting, all_meetings


@pytest.mark.parametrize("promise", TRANSLATION_PROMISES)
@pytest.mark.parametrize("meeting", all_meetings(), ids=str)
def test_encoder_decoders_keep_their_promise(meeting: Meeting, promise: str) -> None:
    TRANSLATION_PROMISES[promise](meeting)
