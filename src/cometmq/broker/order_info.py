"""What ordered pop has handed out of each queue: `consumerOrderInfo.json`.

A group that pops in order gets nothing more of a queue while it holds a message of it that is neither acknowledged
nor visible again. Of each queue only the last pop is remembered:

    table   topic@group → queue id →
            a        the attempt that popped; the same attempt may ask again and is not blocked by itself
            popTime  when; together with the queue it names this pop, so that a late acknowledgement changes nothing
            i        invisible time in ms
            o        queue offsets: the first as it is, the others as distances from it
            cm       bit set of those acknowledged, bit n for the n-th of `o`; 64 bits, pop hands out 32 at most
            ot       offset → visible again at, where it was changed
            oc       offset → times handed out before, where that is not 0
            l        when the queue was popped last

Bounded by the queues of topics and groups that exist; `clean` drops the rest, and what nobody popped for a day.
A restart finds every lock as it was saved: one lost with a kill lets messages be popped again, as with Java.

Mirrors: ConsumerOrderInfoManager, QueueLevelConsumerManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cometmq.broker.groups import Groups
from cometmq.broker.saved import Saved, Table
from cometmq.broker.topics import Topics
from cometmq.clock import Clock
from cometmq.model import names

log = logging.getLogger("cometmq.broker")

FORGET_AFTER_MS: Final = 24 * 3_600_000
OFFSETS_MAX: Final = 63  # one bit each in a positive Java long

POP_RETRY_SEPARATOR: Final = "+"  # of `%RETRY%group+topic`, the second form of pop's retry topics

ILLEGAL: Final = -1  # the acknowledged offset was not popped
NOT_NOW: Final = -2  # another pop has taken the queue since: nothing to commit

WhenFree = Callable[[str, str, int, int], None]  # topic, group, queue id, free at (ms since 1970)


@dataclass(slots=True)
class OrderInfo:
    """The last pop of one queue by one group."""

    attempt_id: str | None
    pop_time_ms: int
    invisible_time_ms: int
    offsets: list[int]
    last_consume_ms: int
    acknowledged: int = 0  # bit set over `offsets`
    next_visible_ms: dict[int, int] = field(default_factory=dict)
    consumed_counts: dict[int, int] | None = None

    def blocks(self, attempt_id: str | None, invisible_time_ms: int, now_ms: int) -> bool:
        """Must another pop wait? A pop that named no invisible time takes the one of who asks."""
        if self.attempt_id is not None and self.attempt_id == attempt_id:
            return False
        if self.offsets and self.invisible_time_ms <= 0:
            self.invisible_time_ms = invisible_time_ms
        return any(now_ms < visible_ms for visible_ms in self._visible_times())

    def free_at_ms(self, now_ms: int) -> int | None:
        """When to look again: at the time at which the first message still held comes back. None: nobody knows."""
        if not self.offsets:
            return None
        for visible_ms in self._visible_times():
            if self.invisible_time_ms <= 0:
                return None
            if now_ms < visible_ms:
                return visible_ms
        return now_ms

    def _visible_times(self) -> Iterator[int]:
        """Of the messages that are not acknowledged."""
        default_ms = self.pop_time_ms + self.invisible_time_ms
        for index, offset in enumerate(self.offsets):
            if not self.acknowledged >> index & 1:
                yield self.next_visible_ms.get(offset, default_ms)

    @property
    def next_offset(self) -> int:
        """The first that is not acknowledged, or the one after the last."""
        for index, offset in enumerate(self.offsets):
            if not self.acknowledged >> index & 1:
                return offset
        return self.offsets[-1] + 1

    def count_after(self, before: OrderInfo) -> None:
        """Count what was in the pop before as handed out once more, unless it is the same attempt again."""
        if before.attempt_id is not None and before.attempt_id == self.attempt_id:
            self.consumed_counts = before.consumed_counts or {}
            return
        earlier = before.consumed_counts or {}
        again = set(before.offsets)
        self.consumed_counts = {offset: earlier.get(offset, 0) + 1 for offset in self.offsets if offset in again}

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {} if self.attempt_id is None else {"a": self.attempt_id}
        fields |= {"cm": self.acknowledged, "i": self.invisible_time_ms, "l": self.last_consume_ms}
        fields["o"] = [*self.offsets[:1], *(offset - self.offsets[0] for offset in self.offsets[1:])]
        if self.consumed_counts is not None:
            fields["oc"] = self.consumed_counts
        if self.next_visible_ms:
            fields["ot"] = self.next_visible_ms
        return fields | {"popTime": self.pop_time_ms}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> OrderInfo:
        offsets = [int(offset) for offset in fields.get("o") or ()]
        counts = fields.get("oc")
        return cls(
            fields.get("a"),
            int(fields.get("popTime") or 0),
            int(fields.get("i") or 0),
            [*offsets[:1], *(offsets[0] + distance for distance in offsets[1:])],
            int(fields.get("l") or 0),
            int(fields.get("cm") or 0),
            {int(offset): int(time_ms) for offset, time_ms in (fields.get("ot") or {}).items()},
            None if counts is None else {int(offset): int(count) for offset, count in counts.items()},
        )


class OrderInfos(Saved):
    """Every queue that is popped in order. `when_free` is told when to wake who waits for a queue."""

    def __init__(self, table: Table, topics: Topics, groups: Groups, clock: Clock) -> None:
        super().__init__(table, self.to_json)
        self._topics = topics
        self._groups = groups
        self._clock = clock
        self._queues: dict[str, dict[int, OrderInfo]] = {}
        self.when_free: WhenFree | None = None
        self.load(self._read)

    def _read(self, saved: dict[str, Any]) -> None:
        for key, queues in (saved.get("table") or {}).items():
            self._queues[key] = {int(queue_id): OrderInfo.from_json(fields) for queue_id, fields in queues.items()}

    def to_json(self) -> dict[str, Any]:
        """The whole table as `consumerOrderInfo.json` holds it."""
        self.clean()
        return {
            "orderInfoCount": len(self._queues),
            "orderedConsumptionLevel": "QUEUE",
            "table": {
                key: {queue_id: info.to_json() for queue_id, info in queues.items()}
                for key, queues in self._queues.items()
            },
        }

    def get(self, topic: str, group: str, queue_id: int) -> OrderInfo | None:
        return self._queues.get(f"{topic}@{group}", {}).get(queue_id)

    def __len__(self) -> int:
        """Of pairs of a topic and a group."""
        return len(self._queues)

    def locked(self) -> Iterator[tuple[str, str, int, int]]:
        """Topic, group, queue and free-at time of each lock that still holds: for a start that must wake waiters."""
        now_ms = self._clock.now_ms()
        for key, queues in self._queues.items():
            topic, _, group = key.partition("@")
            for queue_id, info in queues.items():
                free_at_ms = info.free_at_ms(now_ms)
                if free_at_ms is not None and free_at_ms > now_ms:
                    yield topic, group, queue_id, free_at_ms

    # --- popping

    def blocked(
        self, topic: str, group: str, queue_id: int, invisible_time_ms: int, attempt_id: str | None = None
    ) -> bool:
        """Must this pop leave the queue alone?"""
        info = self.get(topic, group, queue_id)
        return info is not None and info.blocks(attempt_id, invisible_time_ms, self._clock.now_ms())

    def update(
        self,
        topic: str,
        group: str,
        queue_id: int,
        offsets: Sequence[int],
        pop_time_ms: int,
        invisible_time_ms: int,
        attempt_id: str | None = None,
    ) -> str:
        """Messages were popped; returns their part of the reply's order count info, which has no trailing `;`."""
        if not 0 < len(offsets) <= OFFSETS_MAX:
            raise ValueError(f"{len(offsets)} messages popped in order at once; 1 to {OFFSETS_MAX} are possible")
        info = OrderInfo(attempt_id, pop_time_ms, invisible_time_ms, list(offsets), self._clock.now_ms())
        queues = self._queues.setdefault(f"{topic}@{group}", {})
        before = queues.get(queue_id)
        if before is not None:
            info.count_after(before)
        queues[queue_id] = info
        self._changed(topic, group, queue_id, info)
        return order_count_info(topic, queue_id, info)

    def commit_and_next(self, topic: str, group: str, queue_id: int, offset: int, pop_time_ms: int) -> int:
        """A message is acknowledged; returns the offset to commit, or `ILLEGAL`, or `NOT_NOW`."""
        info = self.get(topic, group, queue_id)
        if info is None:
            return offset + 1
        if not info.offsets:
            return ILLEGAL
        if pop_time_ms != info.pop_time_ms:
            return NOT_NOW
        if offset not in info.offsets:
            return ILLEGAL
        info.acknowledged |= 1 << info.offsets.index(offset)
        self._changed(topic, group, queue_id, info)
        return info.next_offset

    def update_next_visible_time(
        self, topic: str, group: str, queue_id: int, offset: int, pop_time_ms: int, next_visible_ms: int
    ) -> None:
        """A message comes back at another time; a pop that is not the last one changes nothing."""
        info = self.get(topic, group, queue_id)
        if info is not None and info.pop_time_ms == pop_time_ms and offset in info.offsets:
            info.next_visible_ms[offset] = next_visible_ms
            self._changed(topic, group, queue_id, info)

    def _changed(self, topic: str, group: str, queue_id: int, info: OrderInfo) -> None:
        self.mark()
        if self.when_free is not None:
            free_at_ms = info.free_at_ms(self._clock.now_ms())
            if free_at_ms is not None:
                self.when_free(topic, group, queue_id, free_at_ms)

    # --- forgetting

    def clear_block(self, topic: str, group: str, queue_id: int) -> None:
        """The group's offset was reset: what it holds of the queue does not count any more."""
        if self._queues.get(f"{topic}@{group}", {}).pop(queue_id, None) is not None:
            self.mark()

    def remove(self, topic: str, group: str) -> None:
        if self._queues.pop(f"{topic}@{group}", None) is not None:
            self.mark()

    def removed(self, keys: Iterable[str]) -> None:
        """Topics or groups are deleted (topic@group): one made anew is held by nobody."""
        for key in keys:
            if self._queues.pop(key, None) is not None:
                self.mark()

    def clean(self) -> None:
        """Forget topics, groups and queues that are gone, and queues that nobody popped for a day."""
        oldest_ms = self._clock.now_ms() - FORGET_AFTER_MS
        for key, queues in list(self._queues.items()):
            topic_name, _, group = key.partition("@")
            topic = self._topics.get(topic_name)
            queue_count = topic.read_queue_nums if topic is not None and group in self._groups else 0
            gone = [
                queue_id
                for queue_id, info in queues.items()
                if queue_id >= queue_count or info.last_consume_ms < oldest_ms
            ]
            for queue_id in gone:
                del queues[queue_id]
            if not queues:
                del self._queues[key]
            if gone or not queues:
                log.info("order info of %s: queues %s are forgotten", key, gone)
                self.mark()


def order_count_info(topic: str, queue_id: int, info: OrderInfo) -> str:
    """How often each message was handed out before: `0 qo0%5 1;0 qo0%6 1;0 0 0`.

    Only messages that were have a part of their own; the last part is the least of all, for clients that know no other.
    """
    retry = 0 if not topic.startswith(names.RETRY_PREFIX) else 2 if POP_RETRY_SEPARATOR in topic else 1
    counts = info.consumed_counts or {}
    parts = [f"{retry} qo{queue_id}%{offset} {count}" for offset, count in counts.items()]
    least = min(counts.values()) if counts and len(counts) == len(info.offsets) else 0
    return ";".join([*parts, f"{retry} {queue_id} {least}"])
