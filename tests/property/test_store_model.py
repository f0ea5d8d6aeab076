"""The store against a plain model: lists of bodies per queue, and how far they were written.

Any sequence of sends, batches, writes, flushes, dispatches, maintenance, deletions, clean stops and kills; after each
open the store holds what the model says: everything written, nothing else, at the same offsets. Kills keep what was
given to the system (a power cut is another test's).
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.store.kit import HandClock, bodies, open_small, send, settle

from cometmq.store.config import ASYNC_FLUSH, SYNC_FLUSH
from cometmq.wire.record import decode_records

TOPICS = st.sampled_from(["A", "B"])
QUEUE_IDS = st.sampled_from([0, 1])
BODIES = st.binary(max_size=900)
Key = tuple[str, int]


class StoreAgainstModel(RuleBasedStateMachine):
    """`sent` is what was appended, `written` how many of it a kill keeps, `seen` how many readers may see."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.clock = HandClock()
        self.mode = SYNC_FLUSH
        self.sent: dict[Key, list[bytes]] = {}
        self.written: dict[Key, int] = {}
        self.flushed: dict[Key, int] = {}
        self.seen: dict[Key, int] = {}
        self.open()
        # The checkpoint cannot speak of a message at offset 0: one that is never deleted takes it.
        send(self.store, b"first", "first")
        settle(self.store)

    def open(self) -> None:
        self.store = open_small(self.root, clock=self.clock, flush_disk_type=self.mode)

    def teardown(self) -> None:
        self.store.abandon()
        shutil.rmtree(self.root)

    @rule(topic=TOPICS, queue_id=QUEUE_IDS, body=BODIES)
    def append(self, topic: str, queue_id: int, body: bytes) -> None:
        self.clock.ms += 1
        queue = self.sent.setdefault((topic, queue_id), [])
        placed = send(self.store, body, topic, queue_id, keys=f"{topic}{queue_id}-{len(queue)}")
        assert placed.queue_offset == len(queue)
        queue.append(body)

    @rule(topic=TOPICS, queue_id=QUEUE_IDS, some=st.lists(st.binary(max_size=200), min_size=1, max_size=6))
    def append_batch(self, topic: str, queue_id: int, some: list[bytes]) -> None:
        queue = self.sent.setdefault((topic, queue_id), [])
        keys = [f"{topic}{queue_id}-{len(queue) + n}" for n in range(len(some))]
        items = [
            (0, body, f"KEYS\x01{key}\x02".encode(), None, key, None) for body, key in zip(some, keys, strict=True)
        ]
        placed = self.store.append_batch(topic, queue_id, items)
        assert (placed.queue_offset, len(placed.physical_offsets)) == (len(queue), len(some))
        queue += some

    @rule(topic=TOPICS, queue_id=QUEUE_IDS)
    def append_prepared(self, topic: str, queue_id: int) -> None:
        send(self.store, b"half", topic, queue_id, sys_flag=4)

    @rule()
    def write(self) -> None:
        self.store.write()
        self.written = {key: len(queue) for key, queue in self.sent.items()}

    @rule()
    def flush(self) -> None:
        assert self.store.flush_log() == self.store.written_offset
        self.flushed = dict(self.written)

    @rule()
    def dispatch(self) -> None:
        confirmed = self.flushed if self.mode == SYNC_FLUSH else self.written
        arrivals = {(topic, queue_id): offset for topic, queue_id, offset in self.store.dispatch()}
        grown = {key: count for key, count in confirmed.items() if count > self.seen.get(key, 0)}
        assert arrivals == grown
        self.seen.update(grown)

    @rule(thorough=st.booleans())
    def maintain(self, thorough: bool) -> None:
        assert self.store.maintain(thorough=thorough)
        if thorough:
            self.flushed = dict(self.written)

    @rule(topic=TOPICS)
    def delete_topic(self, topic: str) -> None:
        # What was sent and not yet seen goes with the topic; to keep the model plain, everything is seen first.
        self.write()
        self.flush()
        self.dispatch()
        self.store.delete_topic(topic)
        for table in (self.sent, self.written, self.flushed, self.seen):
            for queue_id in (0, 1):
                table.pop((topic, queue_id), None)
        self.maintain(thorough=True)

    def _reopened(self, kept: dict[Key, int]) -> None:
        self.sent = {key: queue[: kept.get(key, 0)] for key, queue in self.sent.items()}
        self.written = {key: len(queue) for key, queue in self.sent.items()}
        self.flushed = dict(self.written)
        self.seen = dict(self.written)

    @rule(mode=st.sampled_from([SYNC_FLUSH, ASYNC_FLUSH]))
    def stop_and_start(self, mode: str) -> None:
        self.store.close()
        assert not (self.root / "abort").exists()
        self.mode = mode
        self.open()
        assert self.store.recovered_cleanly
        self._reopened({key: len(queue) for key, queue in self.sent.items()})

    @rule(mode=st.sampled_from([SYNC_FLUSH, ASYNC_FLUSH]))
    def kill_and_start(self, mode: str) -> None:
        self.store.abandon()
        self.mode = mode
        self.open()
        assert not self.store.recovered_cleanly
        self._reopened(self.written)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        for (topic, queue_id), queue in self.sent.items():
            seen = self.seen.get((topic, queue_id), 0)
            assert self.store.max_offset(topic, queue_id) == seen
            assert self.store.next_offset(topic, queue_id) == len(queue)
            assert bodies(self.store, topic, queue_id) == queue[:seen]

    @precondition(lambda self: any(self.seen.values()))
    @rule(data=st.data(), count=st.integers(0, 40))
    def read_quickly(self, data: st.DataObject, count: int) -> None:
        """The short cut of a usual pull brings what the patient way brings, or nothing."""
        topic, queue_id = data.draw(st.sampled_from([key for key, count in self.seen.items() if count]))
        offset = data.draw(st.integers(-1, self.seen[topic, queue_id] + 1))
        quick = self.store.quick.units(topic, queue_id, offset, count)
        frame = None
        if quick is not None:
            frame = self.store.quick.framed(b"size" + b"head", quick.units, queue_id, offset)
        found = self.store.read(topic, queue_id, offset, count)
        one_segment = len({at // self.store.config.mapped_file_size_commit_log for at, _ in found.ranges}) == 1
        assert (frame is not None) == (count > 0 and one_segment and not found.cold)
        if quick is not None and frame is not None:
            body = b"".join(self.store.slices(found.ranges))
            assert frame == (4 + len(body)).to_bytes(4, "big") + b"head" + body
            assert quick[1:] == (found.next_offset, found.min_offset, found.max_offset)

    @precondition(lambda self: any(self.seen.values()))
    @rule(data=st.data())
    def find(self, data: st.DataObject) -> None:
        topic, queue_id = data.draw(st.sampled_from([key for key, count in self.seen.items() if count]))
        offset = data.draw(st.integers(0, self.seen[topic, queue_id] - 1))
        ranges = self.store.query(topic, f"{topic}{queue_id}-{offset}", 64, 0, 1 << 60)
        found = list(decode_records(b"".join(self.store.load(ranges))))
        assert len(found) == len({record.physical_offset for record in found})
        wanted = [record for record in found if (record.queue_id, record.queue_offset) == (queue_id, offset)]
        assert all(record.body == self.sent[topic, queue_id][offset] for record in wanted[-1:])
        time_ms = self.store.message_store_time(topic, queue_id, offset)
        lower = self.store.offset_by_time(topic, queue_id, time_ms)
        upper = self.store.offset_by_time(topic, queue_id, time_ms, "UPPER")
        assert lower <= offset <= upper


TestStoreAgainstModel = StoreAgainstModel.TestCase
TestStoreAgainstModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
