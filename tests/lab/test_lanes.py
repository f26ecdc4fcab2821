"""Lanes: the document's rule in torch's words, and a lane that starts elsewhere is found."""

import numpy as np
import pytest
import torch

from elman.data.streams import StreamBatches
from elman.recipes.lab import checking, lanes


def verdicts() -> dict[str, str]:
    report = checking.run_experiments([lanes.LANES])
    return {finding.claim.name: finding.verdict for finding in report.findings}


@pytest.mark.parametrize("num_ids", [24, 25, 26, 27, 30])
def test_the_other_rule_is_that_of_equal_columns(num_ids: int) -> None:
    ids = torch.arange(1, num_ids + 1)
    columns = ids[: num_ids // 4 * 4].reshape(4, -1).T
    assert lanes._trimmed_targets(num_ids) == set(columns[1:].flatten().tolist())


def test_every_token_but_the_first_is_a_target_once() -> None:
    stream = lanes._stream(3)
    pairs = [pair for index in range(2) for pair in lanes._pairs(stream.batch(0, index))]
    assert sorted(target for _, target in pairs) == list(range(2, 25))
    assert all(target == read + 1 for read, target in pairs)


def test_a_lane_that_starts_one_too_late_turns_all_tables_red(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = StreamBatches.__init__

    def begin(self, *others, **named):  # type: ignore[no-untyped-def]
        whole(self, *others, **named)
        self._lane_starts_B = self._lane_starts_B + (np.arange(self.batch_size) == 1)

    assert set(verdicts().values()) == {"holds"}
    monkeypatch.setattr(StreamBatches, "__init__", begin)
    assert set(verdicts().values()) == {"differs"}
