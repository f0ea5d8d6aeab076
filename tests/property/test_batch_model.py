"""Queues of batches against a plain model: a list of (base, count, body), whatever comes between appending and reading.

Kills keep what was written; a clean stop keeps all. Beside them stands a plain queue, which must not notice.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.store.batch_kit import TOPIC, open_batches, pull_all, put_batch
from tests.unit.store.kit import HandClock, bodies, send, settle

Batch = tuple[int, int, bytes]
BODIES = st.binary(min_size=1, max_size=900)


class BatchesAgainstModel(RuleBasedStateMachine):
    """`sent` is what was appended, `written` how many of it a kill keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.clock = HandClock()
        self.sent: list[Batch] = []
        self.written = 0
        self.plain = 0
        self.store = open_batches(self.root, self.clock)
        send(self.store, b"first", "first")  # the checkpoint cannot speak of a message at offset 0
        settle(self.store)

    def teardown(self) -> None:
        self.store.abandon()
        shutil.rmtree(self.root)

    @property
    def end(self) -> int:
        return self.sent[-1][0] + self.sent[-1][1] if self.sent else 0

    @rule(count=st.integers(1, 40), body=BODIES)
    def append_batch(self, count: int, body: bytes) -> None:
        self.clock.ms += 7
        assert put_batch(self.store, count, body).queue_offset == self.end
        self.sent.append((self.end, count, body))

    @rule(body=BODIES)
    def append_one(self, body: bytes) -> None:
        self.clock.ms += 1
        assert send(self.store, body, TOPIC).queue_offset == self.end
        self.sent.append((self.end, 1, body))

    @rule()
    def settle(self) -> None:
        send(self.store, b"plain", "P")
        settle(self.store)
        self.written = len(self.sent)
        self.plain += 1

    @rule()
    def write(self) -> None:
        self.store.write()
        self.written = len(self.sent)

    @rule(thorough=st.booleans())
    def maintain(self, thorough: bool) -> None:
        assert self.store.maintain(thorough=thorough)

    @rule()
    def delete(self) -> None:
        self.settle()
        self.store.delete_topic(TOPIC)
        self.store.maintain(thorough=True)
        self.sent, self.written = [], 0

    @rule()
    def stop_and_start(self) -> None:
        self.store.close()
        self.store = open_batches(self.root, self.clock)
        assert self.store.recovered_cleanly
        self.written = len(self.sent)
        self._all_is_seen()

    @rule()
    def kill_and_start(self) -> None:
        self.store.abandon()
        del self.sent[self.written :]
        self.store = open_batches(self.root, self.clock)
        self._all_is_seen()

    def _all_is_seen(self) -> None:
        assert self.store.max_offset(TOPIC, 0) == self.store.next_offset(TOPIC, 0) == self.end
        assert self._seen() == self.sent

    def _seen(self) -> list[Batch]:
        return [
            (record.queue_offset, int(record.properties.get("INNER_NUM", 1)), record.body)
            for record in pull_all(self.store)
        ]

    @invariant()
    def what_is_seen_was_sent(self) -> None:
        seen = self._seen()
        assert seen == self.sent[: len(seen)]
        assert self.store.max_offset(TOPIC, 0) == (seen[-1][0] + seen[-1][1] if seen else 0)
        assert self.store.next_offset(TOPIC, 0) == self.end
        assert bodies(self.store, "P") == [b"plain"] * self.plain

    @precondition(lambda self: self.sent and self.store.max_offset(TOPIC, 0) > 0)
    @rule(data=st.data())
    def find(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.store.max_offset(TOPIC, 0) - 1))
        (covering,) = [batch for batch in self.sent if batch[0] <= offset < batch[0] + batch[1]]
        result = self.store.read(TOPIC, 0, offset, 1)
        assert result.next_offset == covering[0] + covering[1]
        time_ms = self.store.message_store_time(TOPIC, 0, offset)
        assert self.store.offset_by_time(TOPIC, 0, time_ms) == covering[0]


TestBatchesAgainstModel = BatchesAgainstModel.TestCase
TestBatchesAgainstModel.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
