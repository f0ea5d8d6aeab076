"""Pulls that found nothing and wait: woken by an arrival in their queue, or by their deadline.

A parked pull costs one small object and one heap entry; an arrival looks only at the pulls of its own queue.
What wakes up runs once more, and may not park again, except one whose filter let nothing through: it stays
parked behind what it has seen, so messages for others do not make it answer.

Mirrors: PullRequestHoldService.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from cometmq.broker.deadlines import Deadlines
from cometmq.net.routes import Call

PARKED_MAX: Final = 100_000
FORGET_STEP: Final = 1_000

QueueKey = tuple[str, int]


class ParkedPull:
    """One waiting pull. `offset` is the first one it has not looked at."""

    __slots__ = ("call", "context", "key", "offset")

    def __init__(self, key: QueueKey, offset: int, call: Call, context: Any) -> None:
        self.key = key
        self.offset = offset
        self.call = call
        self.context = context


def _is_waited_for(pull: ParkedPull) -> bool:
    return not pull.call.answered and pull.call.channel.is_open


class LongPolling:
    """The parked pulls by queue. `wake(pull, timed_out)` runs one again and says whether it is answered."""

    def __init__(self, wake: Callable[[ParkedPull, bool], bool]) -> None:
        self._wake = wake
        self._parked: dict[QueueKey, dict[ParkedPull, None]] = {}  # in the order in which they came
        self._deadlines = Deadlines(self._expire)
        self._count = 0
        self._forget_at = FORGET_STEP

    @property
    def count(self) -> int:
        return self._count

    def park(self, key: QueueKey, offset: int, timeout_s: float, call: Call, context: Any) -> bool:
        """Let a pull wait; False if too many wait already."""
        if len(self._deadlines) >= self._forget_at:
            self._forget_gone()
        if self._count >= PARKED_MAX:
            return False
        call.command.body = b""  # a view, even an empty one, would hold a whole receive buffer
        pull = ParkedPull(key, offset, call, context)
        self._parked.setdefault(key, {})[pull] = None
        self._count += 1
        self._deadlines.add(timeout_s, pull)
        return True

    def _forget_gone(self) -> None:
        """Let go of those that were answered early or whose connection is closed; their deadlines may be far."""
        self._deadlines.keep(_is_waited_for)
        waiting = {key: dict.fromkeys(filter(_is_waited_for, pulls)) for key, pulls in self._parked.items()}
        self._parked = {key: pulls for key, pulls in waiting.items() if pulls}
        self._count = sum(map(len, self._parked.values()))
        kept = len(self._deadlines)
        self._forget_at = min(2 * kept + FORGET_STEP, max(PARKED_MAX, kept + FORGET_STEP))

    def arrived(self, arrivals: Iterable[tuple[str, int, int]]) -> None:
        """Queues (topic, queue id, new max offset) have new messages."""
        if not self._count:
            return
        for topic, queue_id, max_offset in arrivals:
            pulls = self._parked.pop((topic, queue_id), None)
            if pulls is None:
                continue
            self._count -= len(pulls)
            still = [pull for pull in pulls if not self._try(pull, max_offset)]
            if still:
                self._parked.setdefault((topic, queue_id), {}).update(dict.fromkeys(still))
                self._count += len(still)

    def _try(self, pull: ParkedPull, max_offset: int) -> bool:
        """Whether a pull is done with: answered, or nobody is left to answer."""
        if not _is_waited_for(pull):
            return True
        return max_offset > pull.offset and self._wake(pull, False)

    def wake(self, key: QueueKey, wanted: Callable[[ParkedPull], bool]) -> None:
        """Answer some of those that wait on a queue."""
        pulls = self._parked.get(key, {})
        woken = [pull for pull in pulls if wanted(pull)]
        for pull in woken:
            self._unpark(pull)
        for pull in woken:
            if _is_waited_for(pull):
                self._wake(pull, True)

    def _unpark(self, pull: ParkedPull) -> bool:
        """Take a pull out; says whether it was parked."""
        pulls = self._parked.get(pull.key, {})
        if pull not in pulls:
            return False
        del pulls[pull]
        if not pulls:
            del self._parked[pull.key]
        self._count -= 1
        return True

    def wake_all(self) -> None:
        """Answer everyone, for example before stopping."""
        parked, self._parked, self._count = self._parked, {}, 0
        for pulls in parked.values():
            for pull in pulls:
                self._wake(pull, True)

    def _expire(self, pull: ParkedPull) -> None:
        if not pull.call.answered and self._unpark(pull) and pull.call.channel.is_open:
            self._wake(pull, True)

    def close(self) -> None:
        self._deadlines.close()
        self.wake_all()
