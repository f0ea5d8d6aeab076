"""What a message says about its time, and how it is sent to wait for it.

    TIMER_DELAY_SEC, TIMER_DELAY_MS    from now on          ┐ the first that is there counts
    TIMER_DELIVER_MS                   since 1970           ┘

A message for the future goes to the timer topic, and remembers where it was going. `TIMER_OUT_MS` is the slot of the
wheel: the last whole tick strictly before the time, so that a slot T holds what is due in (T, T + precision].
A time that is past is no time: the message goes where it was going. A delay level beside it wins.

Mirrors: HookUtils.handleScheduleMessage, checkIfTimerMessage, transformTimerMessage, TimerMessageStore.isReject.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import Final

from cometmq.broker.inner_messages import InnerMessage
from cometmq.clock import Clock
from cometmq.errors import RequestRefused
from cometmq.model import properties
from cometmq.model.names import TIMER_TOPIC
from cometmq.store.config import StoreConfig

TIME_KEYS: Final = (properties.TIMER_DELAY_SEC, properties.TIMER_DELAY_MS, properties.TIMER_DELIVER_MS)
PRECISIONS_MS: Final = (100, 200, 500, 1000)

_PREPARED: Final = 0x4  # of a transaction: half, or rolled back
_LONG: Final = re.compile(r"[+-]?[0-9]{1,40}\Z")
_LONG_END: Final = 1 << 63


def precision_ms(wanted_ms: int) -> int:
    """The precision that a setting comes to: Java knows four."""
    return max((known for known in PRECISIONS_MS if known <= wanted_ms), default=PRECISIONS_MS[0])


def deliver_time_ms(found: Mapping[str, str], now_ms: int) -> int | None:
    """When a message is to be delivered; None if what it says is no number. Overflows wrap, as in Java."""
    for key, unit_ms, base_ms in zip(TIME_KEYS, (1000, 1, 1), (now_ms, now_ms, 0), strict=True):
        text = found.get(key)
        if text is not None:
            if not _LONG.match(text) or not -_LONG_END <= int(text) < _LONG_END:
                return None
            return (base_ms + int(text) * unit_ms + _LONG_END) % (2 * _LONG_END) - _LONG_END
    return None


class TimerStage:
    """Sends messages with a time to the timer topic."""

    def __init__(
        self,
        config: StoreConfig,
        clock: Clock,
        *,
        enabled: bool,
        waiting_at: Callable[[int], int],
        on_recall: Callable[[str, int], None],
    ) -> None:
        self._clock = clock
        self._enabled = enabled
        self._waiting_at = waiting_at
        self._on_recall = on_recall
        self._precision_ms = precision_ms(config.timer_precision_ms)
        self._delay_ms_max = config.timer_max_delay_sec * 1000
        self._slot_number_max = config.timer_congest_num_each_slot

    def __call__(self, message: InnerMessage) -> None:
        found = message.properties
        if message.sys_flag & _PREPARED or message.topic == TIMER_TOPIC:
            return
        if _delay_level(found) > 0:
            for key in TIME_KEYS:
                found.pop(key, None)
            return
        if properties.TIMER_OUT_MS in found or found.keys().isdisjoint(TIME_KEYS):
            return
        if not self._enabled:
            raise RequestRefused("SYSTEM_ERROR", "accurate timer message is not enabled, timerWheelEnable is false")
        now_ms = self._clock.now_ms()
        deliver_ms = deliver_time_ms(found, now_ms)
        if deliver_ms is None or deliver_ms - now_ms > self._delay_ms_max:
            raise self._illegal()
        recalled = found.get(properties.TIMER_DEL_UNIQKEY)
        if deliver_ms <= now_ms:
            if recalled is not None:
                raise self._illegal()
            return
        slot_ms = (deliver_ms - 1) // self._precision_ms * self._precision_ms
        self._check_congestion(slot_ms)
        found[properties.TIMER_OUT_MS] = str(slot_ms)
        found[properties.REAL_TOPIC] = message.topic
        found[properties.REAL_QUEUE_ID] = str(message.queue_id)
        message.topic, message.queue_id = TIMER_TOPIC, 0
        if recalled is not None:
            self._on_recall(recalled, slot_ms)

    def _illegal(self) -> RequestRefused:
        return RequestRefused(
            "MESSAGE_ILLEGAL",
            "timer message illegal, the delay time should not be bigger than the max delay "
            f"{self._delay_ms_max}ms; or if set del msg, the delay time should be bigger than the current time",
        )

    def _check_congestion(self, slot_ms: int) -> None:
        number, limit = self._waiting_at(slot_ms), self._slot_number_max
        if number <= limit:
            return
        if number < 2 * limit and random.randrange(1000) <= 1000 * (number - limit) / (limit + 0.1):
            return
        raise RequestRefused(
            "SYSTEM_ERROR",
            f"timer message is under flow control, max num limit is {2 * limit} or the current value is greater than "
            f"{limit} and less than {2 * limit}, trigger random flow control",
        )


def _delay_level(found: Mapping[str, str]) -> int:
    text = found.get(properties.DELAY, "0")
    return int(text) if _LONG.match(text) else 0
