"""The pause before the next try."""

from __future__ import annotations

from typing import Any

import pytest

from cometmq.broker.retry.policy import next_delay_ms


@pytest.mark.parametrize(
    ("policy", "delays_ms"),
    [
        (None, {-1: 10_000, 0: 10_000, 1: 30_000, 15: 7_200_000, 99: 7_200_000}),
        ({"type": "CUSTOMIZED"}, {0: 10_000}),
        ({"type": "EXPONENTIAL"}, {0: 10_000}),
        ({"type": "NONSENSE", "customizedRetryPolicy": {"next": [1, 2, 3]}}, {0: 10_000}),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2, 3, 4]}}, {0: 3, 1: 4, 2: 4}),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [7]}}, {0: 7, 5: 7}),
        (
            {"type": "EXPONENTIAL", "exponentialRetryPolicy": {}},
            {-3: 5_000, 0: 5_000, 1: 10_000, 3: 40_000, 40: 7_200_000},
        ),
        (
            {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 100, "max": 1_000, "multiplier": 3}},
            {0: 100, 1: 300, 2: 900, 3: 1_000},
        ),
    ],
)
def test_next_delay(policy: dict[str, Any] | None, delays_ms: dict[int, int]) -> None:
    assert {times: next_delay_ms(policy, times) for times in delays_ms} == delays_ms
