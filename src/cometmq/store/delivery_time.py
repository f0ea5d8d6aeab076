"""What the ConsumeQueue of the schedule topic holds where other queues hold the hash of the tags: when to deliver.

Mirrors: CommitLog.checkMessageAndReturnSize (its delay branch), ScheduleMessageService.computeDeliverTimestamp.
"""

from __future__ import annotations

import re
from typing import Final

from cometmq.errors import StoreError

_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL: Final = re.compile(r"\+?[0-9]{1,10}")


class DeliveryTimes:
    """`messageDelayLevel` at work: level n waits `delays_ms[n - 1]`, and a level beyond the last is the last."""

    def __init__(self, levels: str) -> None:
        self.delays_ms = delay_levels_ms(levels)

    def tags_code(self, level_text: str, store_time_ms: int, otherwise: int) -> int:
        """When a message of this level is due; `otherwise` if the text is no level."""
        if not _LEVEL.fullmatch(level_text) or not self.delays_ms:
            return otherwise
        level = min(int(level_text), len(self.delays_ms))
        return store_time_ms + self.delays_ms[level - 1] if level > 0 else otherwise


def delay_levels_ms(text: str) -> list[int]:
    """`messageDelayLevel` as milliseconds; level n is the n-th."""
    try:
        return [int(word[:-1]) * _UNIT_MS[word[-1]] for word in text.split()]
    except (ValueError, KeyError):
        raise StoreError(f"messageDelayLevel {text!r} is not a list like '1s 5s 1m 2h'") from None
