"""The messages of one queue between the pull and the end of their consumption: pure state.

    …finished | unfinished, with finished ones among them … | next_offset
              ^ committable                                   where the next pull begins

Messages are put in the order of the queue, taken in that order, and finished in any. What is committed is the offset of
the lowest unfinished message, or `next_offset` if there is none; so a message is never skipped, whatever is finished
before it, and messages that the broker filtered out do not hold the offset back.
Invariant: `committable` never passes a message that was put and not finished.

Mirrors: ProcessQueue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cometmq.client.message import ReceivedMessage
from cometmq.model.queue import MessageQueue


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How much of one queue is held at most: messages, their bytes, and the distance from first to last offset."""

    count: int = 1000
    size: int = 100 * 1024 * 1024
    span: int = 2000


class Slot:
    """A message in a process queue."""

    __slots__ = ("is_finished", "message", "offset")

    def __init__(self, message: ReceivedMessage) -> None:
        self.message = message
        self.offset = message.record.queue_offset
        self.is_finished = False


class ProcessQueue:
    """See the module. `on_room` is called when messages may be pulled again after there was no room."""

    def __init__(self, queue: MessageQueue, next_offset: int, limits: QueueLimits) -> None:
        self.queue = queue
        self.next_offset = next_offset
        self.limits = limits
        self.count = 0
        self.size = 0
        self.is_dropped = False  # it is another member's now: nothing more is taken from it
        self.last_pulled_s = 0.0  # by the loop's clock, for who wants to know
        self.last_consumed_s = 0.0
        self.on_room: Callable[[], None] | None = None
        self._slots: deque[Slot] = deque()  # from the lowest unfinished on
        self._waiting: deque[Slot] = deque()

    def put(self, messages: Iterable[ReceivedMessage], next_offset: int) -> int:
        """Take what a pull brought; returns how many were new. What lies before `next_offset` is here already."""
        added = 0
        for message in messages:
            if message.record.queue_offset < self.next_offset:
                continue
            slot = Slot(message)
            self._slots.append(slot)
            self._waiting.append(slot)
            self.size += message.record.size
            self.next_offset = slot.offset + 1
            added += 1
        self.count += added
        self.next_offset = max(self.next_offset, next_offset)
        return added

    def take(self, count: int) -> list[Slot]:
        """The next messages to consume."""
        waiting = self._waiting
        if count == 1 and waiting:
            return [waiting.popleft()]
        return [waiting.popleft() for _ in range(min(count, len(waiting)))]

    def put_back(self, slots: list[Slot]) -> None:
        """These were taken and are to be taken again, in their old places."""
        waiting, back = self._waiting, [slot for slot in slots if not slot.is_finished]
        last = max((slot.offset for slot in back), default=-1)
        while waiting and waiting[0].offset < last:
            back.append(waiting.popleft())
        waiting.extendleft(sorted(back, key=lambda slot: slot.offset, reverse=True))

    def finish(self, slots: Iterable[Slot]) -> None:
        """These are done with; the same twice counts once."""
        for slot in slots:
            if not slot.is_finished:
                slot.is_finished = True
                self.count -= 1
                self.size -= slot.message.record.size
        while self._slots and self._slots[0].is_finished:
            self._slots.popleft()
        if self.on_room is not None and self.has_room:
            self.on_room()

    def reset(self, offset: int) -> None:
        """Go on from another offset; what was here is forgotten, also by those who still consume it."""
        for slot in self._slots:
            slot.is_finished = True
        self._slots.clear()
        self._waiting.clear()
        self.count = self.size = 0
        self.next_offset = offset
        if self.on_room is not None:
            self.on_room()

    @property
    def waiting(self) -> Iterable[Slot]:
        """What was put and not taken, in order."""
        return self._waiting

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether nothing that was taken is unfinished."""
        return self.count == len(self._waiting)

    @property
    def committable(self) -> int:
        return self._slots[0].offset if self._slots else self.next_offset

    @property
    def has_room(self) -> bool:
        limits = self.limits
        return (
            self.count < limits.count
            and self.size < limits.size
            and (not self._slots or self.next_offset - self._slots[0].offset <= limits.span)
        )
