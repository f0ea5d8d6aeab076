"""Replay looks through properties instead of parsing them: what it finds is what the parser finds, in either way."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.store.kit import small_config

from cometmq.model import properties
from cometmq.model.java_hash import tags_code
from cometmq.store.append import Entry
from cometmq.store.batch_queue import BatchQueues
from cometmq.store.consume_queue import UNIT_SIZE
from cometmq.store.fs import OsFs
from cometmq.store.queue_table import QueueTable
from cometmq.store.replay import Replay

NAMES = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "XTAGS", "TAGS2", "", "A"])
VALUES = st.sampled_from(["", "a", "TAGS", "k1 k2", "\x01", "ü", "TAGS\x01b", "A" * 40])
PIECES = st.one_of(
    st.tuples(NAMES, VALUES).map("\x01".join), st.sampled_from(["", "TAGS", "\x01", "KEYS\x01", "UNIQ_KEY\x01\x01"])
)
TEXTS = st.tuples(st.lists(PIECES, max_size=6), st.booleans()).map(lambda made: "\x02".join(made[0]) + "\x02" * made[1])


class Taken:
    """Keeps what it is given."""

    unwritten_units = 0

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def replay(self, entries: list[Entry]) -> None:
        self.entries += entries


@settings(deadline=None, max_examples=300)
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_what_is_found_is_what_is_parsed(texts: list[str]) -> None:
    fs, config, taken = OsFs(), small_config(Path("unused")), Taken()
    table = QueueTable(fs, "unused", UNIT_SIZE * 10, setting="x")
    batches = BatchQueues(fs, config, table, lambda topic: False)
    replay = Replay(table, batches, taken, config.message_delay_level, set(), vouched=0, indexed_before=-1)
    # The first record of a queue goes the patient way, the next ones the quick one.
    texts = [texts[0], *texts]
    replay.take(0, [(n * 100, 100, 0, n, 0, 1, b"T", text.encode()) for n, text in enumerate(texts)])
    assert len(taken.entries) == len(texts)
    for text, (_, queue, _, _, code, _, keys, uniq_key, _, _, tags) in zip(texts, taken.entries, strict=True):
        found = properties.parse(text)
        assert queue.topic == "T"
        assert (tags, keys, uniq_key) == tuple(
            found.get(name) for name in (properties.TAGS, properties.KEYS, properties.UNIQ_KEY)
        )
        assert code == tags_code(found.get(properties.TAGS))
