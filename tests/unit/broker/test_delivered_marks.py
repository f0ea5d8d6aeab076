"""Marks of deliveries: found again in the log, and nothing else taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.store.kit import open_small

from cometmq.broker.delivered_marks import DELAY_SOURCE, TIMER_SOURCE, Mark, delivered_since, put_mark, strip_mark
from cometmq.broker.inner_messages import InnerMessage
from cometmq.model import properties
from cometmq.model.properties import DELIVERED_MARK
from cometmq.store.engine import Store


def append(store: Store, **found: str) -> int:
    placed = store.append("T", 0, b"body" * 50, properties.render(found).encode())
    store.write()
    store.flush_log()
    return placed.physical_offset


def test_text_and_back() -> None:
    mark = Mark(DELAY_SOURCE, 2, 17, 81_234)
    assert mark.text == "delay:2:17:81234"
    assert Mark.parse(mark.text) == mark


@pytest.mark.parametrize("text", ["", "delay", "delay:1:2", "delay:1:2:3:4", "delay:1:-2:3", "delay:1:2:x", "a:1:2:²"])
def test_what_is_no_mark(text: str) -> None:
    assert Mark.parse(text) is None


def test_a_message_carries_one_mark_or_none() -> None:
    message = InnerMessage("T", 0, b"", {DELIVERED_MARK: "older", "k": "v"})
    put_mark(message.properties, Mark(TIMER_SOURCE, 0, 1, 2))
    assert message.properties == {DELIVERED_MARK: "timer:0:1:2", "k": "v"}
    strip_mark(message)
    strip_mark(message)
    assert message.properties == {"k": "v"}


def test_marks_are_found_behind_an_offset_over_segments(tmp_path: Path) -> None:
    store = open_small(tmp_path)
    waiting = append(store)
    marks = [Mark(DELAY_SOURCE, 0, number, waiting + number) for number in range(40)]
    places = [append(store, **{DELIVERED_MARK: mark.text}) for mark in marks]
    append(store, **{DELIVERED_MARK: Mark(TIMER_SOURCE, 0, 0, 0).text})
    append(store, **{DELIVERED_MARK: "nonsense"})
    append(store, **{DELIVERED_MARK: Mark(DELAY_SOURCE, 0, 0, 1 << 40).text})  # a place that is not written yet
    append(store, text=DELIVERED_MARK)
    assert len({place // store.config.mapped_file_size_commit_log for place in places}) > 1
    assert list(delivered_since(store, 0, DELAY_SOURCE)) == marks
    for number in (0, 11, 12, 13, 39):
        assert list(delivered_since(store, places[number], DELAY_SOURCE)) == marks[number:]
    assert list(delivered_since(store, 1 << 40, DELAY_SOURCE)) == []
    # Where no record starts, the whole segment is read: rather too much than too little.
    assert set(delivered_since(store, places[20] + 1, DELAY_SOURCE)) >= set(marks[20:])
    store.close()
