"""The index against a plain list of messages, through flushes, clean stops, kills, cuts and deletions."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cometmq.model.java_hash import unsigned_hash
from cometmq.store.config import StoreConfig
from cometmq.store.fs import OsFs
from cometmq.store.index import IndexService

EVER = (0, 1 << 62)
TOPICS = ("A", "Тема")
KEYS = ("a", "b", "Aa", "BB", "ключ", "x" * 40)
CONFIG = StoreConfig(max_hash_slot_num=3, max_index_num=9, max_msgs_num_batch=1000)

messages = st.tuples(st.sampled_from(TOPICS), st.lists(st.sampled_from(KEYS), max_size=3, unique=True))


class IndexMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="index-"))
        self.log: list[tuple[str, list[str], int, int]] = []  # topic, keys, offset, store time
        self.end = 0
        self.now_ms = 1_700_000_000_000
        self.min_offset = 0
        self.index = self.open(clean=True)

    def open(self, *, clean: bool, index_ms: int = 0) -> IndexService:
        index = IndexService(OsFs(), str(self.folder), CONFIG)
        index.load(clean, index_ms)
        return index

    def teardown(self) -> None:
        self.index.close()
        shutil.rmtree(self.folder)

    @rule(new=st.lists(messages, max_size=8), gap_ms=st.integers(0, 3000))
    def put(self, new: list[tuple[str, list[str]]], gap_ms: int) -> None:
        for topic, keys in new:
            self.now_ms += gap_ms
            self.log.append((topic, keys, self.end, self.now_ms))
            self.index.put(topic, keys, self.end, self.now_ms)
            self.end += 100

    @rule()
    def flush(self) -> None:
        self.index.flush()

    @rule()
    def stop_and_start(self) -> None:
        self.index.flush()
        self.index.close()
        self.index = self.open(clean=True)

    @rule()
    def kill_and_recover(self) -> None:
        self.index.close()
        self.index = self.open(clean=False, index_ms=self.index.flushed_store_time_ms)
        for message in self.log:
            if message[2] >= self.min_offset:
                self.index.put(*message)

    @rule(count=st.integers(0, 12))
    def cut(self, count: int) -> None:
        while count and self.log and self.log[-1][2] >= self.min_offset:
            self.end = self.log.pop()[2]
            count -= 1
        self.index.truncate(self.end)

    @rule(step=st.integers(0, 1500))
    def delete(self, step: int) -> None:
        self.min_offset = min(self.min_offset + step, self.end)
        self.index.delete_before(self.min_offset)

    @invariant()
    def every_key_finds_its_messages_newest_first(self) -> None:
        for topic in TOPICS:
            for key in KEYS:
                found = self.index.query(topic, key, 1000, *EVER)
                # A twin has the same hash; whoever asks looks at the message and sees the difference.
                twins = {twin for twin in KEYS if unsigned_hash(twin) == unsigned_hash(key)}
                asked = [(offset, keys) for t, keys, offset, _ in reversed(self.log) if t == topic]
                expected = [offset for offset, keys in asked for other in keys if other in twins]
                assert [offset for offset in found if offset >= self.min_offset] == [
                    offset for offset in expected if offset >= self.min_offset
                ]
                assert set(found) <= set(expected)


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(max_examples=50, stateful_step_count=20, deadline=None)
