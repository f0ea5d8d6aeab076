"""A batch is appended in a loop of its own: log, queues and index come out as if its messages were sent one by one."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.store.kit import HOST, HandClock, open_small

from cometmq.store.append import BatchItem

V6_HOST = bytes(16) + HOST[4:]

words = st.none() | st.sampled_from(["TagA", "TagB", "a b"]) | st.text(max_size=5)
items = st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=40), st.binary(max_size=40), words, words, words)


def stored(root: Path) -> dict[str, bytes]:
    folders = ("commitlog", "consumequeue", "index")
    paths = [path for folder in folders for path in sorted((root / folder).rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.lists(items, min_size=1, max_size=6)), max_size=5),
    st.sampled_from([0, 1, 0x30]),
    st.sampled_from([HOST, V6_HOST]),
)
def test_both_ways_store_the_same(batches: list[tuple[int, list[BatchItem]]], sys_flag: int, host: bytes) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        plain, quick = (open_small(Path(root), clock=HandClock()) for root in (one, other))
        for queue_id, many in batches:
            places = quick.append_batch("T", queue_id, many, sys_flag, 7, host, 2)
            single = [
                plain.append("T", queue_id, body, data, tags, keys, key, flag, sys_flag, 7, host, 2)
                for flag, body, data, tags, keys, key in many
            ]
            if [place.physical_offset for place in single] == places.physical_offsets:
                assert places.queue_offset == single[0].queue_offset
                assert places.end == single[-1].physical_offset + single[-1].size
            else:  # a batch goes into the next segment as a whole
                assert places.physical_offsets[0] % plain.config.mapped_file_size_commit_log == 0
                break
        else:
            plain.close()
            quick.close()
            assert stored(Path(one)) == stored(Path(other))
            return
        plain.abandon()
        quick.abandon()
