"""Messages just appended take a quick way into the index: its files must come out as on the way of `put`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.store.append import Entry
from cometmq.store.config import StoreConfig
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.fs import OsFs
from cometmq.store.index import IndexService, index_keys

T0 = 1_700_000_000_000
ROLLBACK = 0xC

unique_keys = st.none() | st.text("0123456789ABCDEF", min_size=32, max_size=32) | st.text(max_size=40)
keys = st.none() | st.text("ab ", max_size=8) | st.text(max_size=40)
tags = st.none() | st.sampled_from(["TagA", "TagB"]) | st.text(max_size=80)
messages = st.tuples(
    st.sampled_from(["T", "OtherTopic"]), unique_keys, keys, tags, st.sampled_from([0, 0, 0, ROLLBACK])
)


class FixedClock:
    def now_ms(self) -> int:
        return T0

    def monotonic_ms(self) -> int:
        return 0


def files(index: IndexService, folder: str) -> list[bytes]:
    index.flush()
    index.close()
    return [path.read_bytes() for path in sorted(Path(folder).iterdir())]


@settings(max_examples=60, deadline=None)
@given(st.lists(messages, max_size=60), st.integers(1, 7))
def test_both_ways_write_the_same_files(many: list[tuple[str, str, str, str, int]], turn: int) -> None:
    config = StoreConfig(max_hash_slot_num=16, max_index_num=60)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        plain, quick = (IndexService(OsFs(), folder, config, FixedClock()) for folder in (one, other))
        plain.load(True, 0)
        quick.load(True, 0)
        entries: list[Entry] = []
        for number, (topic, uniq_key, words, tag, sys_flag) in enumerate(many):
            at, time_ms = number * 100, T0 + number * 700
            if sys_flag != ROLLBACK:
                plain.put(topic, index_keys(uniq_key, words, tag), at, time_ms)
            queue = ConsumeQueue(topic, 0, "", 20)
            entries.append((at + 100, queue, at, 100, 0, 0, words, uniq_key, time_ms, sys_flag, tag))
        for first in range(0, len(entries), turn):
            quick.put_messages(entries[first : first + turn])
        assert files(quick, other) == files(plain, one)
