"""The committable offset, whatever is put, taken, finished, put back or forgotten."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cometmq.client.message import ReceivedMessage
from cometmq.client.process_queue import ProcessQueue, QueueLimits, Slot
from cometmq.model.queue import MessageQueue
from cometmq.wire.record import Record

QUEUE = MessageQueue("t", "b", 0)


def message(offset: int, size: int = 100) -> ReceivedMessage:
    record = Record("t", 0, 0, offset, 0, 0, 0, bytes(8), 0, bytes(8), 0, 0, b"x", "", 0, size)
    return ReceivedMessage(record, "b")


puts = st.tuples(
    st.just("put"), st.lists(st.integers(0, 3), max_size=6), st.integers(0, 3), st.integers(0, 3)
)  # gaps before each message, how many are filtered out behind the last, how many come a second time
takes = st.tuples(st.just("take"), st.integers(1, 5))
ends = st.tuples(st.sampled_from(["finish", "fail"]), st.integers(0, 100))
resets = st.tuples(st.just("reset"), st.integers(0, 50))


@given(st.integers(0, 5), st.lists(puts | takes | ends | ends | resets, max_size=60))
@example(0, [("put", [0, 0], 0, 0), ("take", 2), ("fail", 0), ("fail", 0), ("take", 2)])
@settings(max_examples=300, deadline=None)
def test_nothing_unfinished_is_skipped(end: int, steps: list[tuple[Any, ...]]) -> None:
    """Against a model that remembers every offset which was put and is not finished."""
    queue = ProcessQueue(QUEUE, end, QueueLimits(20, 2000, 30))
    unfinished: set[int] = set()
    taken: list[Slot] = []
    for name, *numbers in steps:
        if name == "put":
            gaps, filtered, again = numbers
            at, offsets = end - again, []
            for gap in gaps:
                offsets.append(at + gap)
                at += gap + 1
            new = [offset for offset in offsets if offset >= end]
            assert queue.put([message(offset) for offset in offsets], at + filtered) == len(new)
            unfinished.update(new)
            end = max(end, at + filtered)
        elif name == "take":
            slots = queue.take(numbers[0])
            assert [slot.offset for slot in slots] == sorted(slot.offset for slot in slots)
            taken += slots
        elif name == "reset":
            end = numbers[0]
            queue.reset(end)
            unfinished.clear()
        elif taken:
            slot = taken.pop(numbers[0] % len(taken))
            if name == "fail":
                queue.put_back([slot])
                continue
            if not slot.is_finished:
                unfinished.discard(slot.offset)
            queue.finish([slot, slot])
        assert queue.committable == min(unfinished, default=end)
        assert (queue.count, queue.size) == (len(unfinished), 100 * len(unfinished))


@given(st.lists(st.integers(1, 600), min_size=5, max_size=12), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_room_and_the_word_of_it(sizes: list[int], random: Random) -> None:
    heard: list[bool] = []
    queue = ProcessQueue(QUEUE, 0, QueueLimits(4, 1000, 10))
    queue.on_room = lambda: heard.append(queue.has_room)
    put = 0
    while queue.has_room and put < len(sizes):
        queue.put([message(put, sizes[put])], put + 1)
        put += 1
    assert queue.count <= 4
    assert queue.size < 1000 + 600
    taken = queue.take(10)
    random.shuffle(taken)
    for slot in taken:
        queue.finish([slot])
    assert queue.has_room
    assert heard
    assert all(heard)


def test_a_message_that_stays_holds_pulls_back_by_span() -> None:
    queue = ProcessQueue(QUEUE, 0, QueueLimits(1000, 1000_000, 10))
    queue.put([message(offset) for offset in range(12)], 12)
    first, *others = queue.take(12)
    queue.finish(others)
    assert (queue.committable, queue.count, queue.has_room) == (0, 1, False)
    queue.finish([first])
    assert (queue.committable, queue.has_room, queue.is_idle) == (12, True, True)


def test_what_was_forgotten_is_not_put_back() -> None:
    queue = ProcessQueue(QUEUE, 0, QueueLimits())
    queue.put([message(0)], 1)
    slots = queue.take(1)
    queue.reset(7)
    queue.finish(slots)
    queue.put_back(slots)
    assert (queue.committable, queue.count, queue.waiting_count) == (7, 0, 0)
