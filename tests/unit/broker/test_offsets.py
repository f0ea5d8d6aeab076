"""Committed offsets: the last commit wins, and what was saved comes back, from our file or from Java's."""

from __future__ import annotations

from pathlib import Path

import pytest

from cometmq.broker.config import BrokerConfig
from cometmq.broker.offsets import Offsets
from cometmq.errors import ProtocolError
from cometmq.wire import fastjson
from cometmq.wire.bodies.offsets import encode_offsets

from .state_kit import MemoryTable, StillClock, file_table

CONFIG = BrokerConfig()
JAVA_FILE = """{
\t"dataVersion":{
\t\t"counter":3,
\t\t"stateVersion":0,
\t\t"timestamp":1794786161034
\t},
\t"groupTopicMap":{
\t\t"g1":[
\t\t\t"t1"
\t\t]
\t},
\t"offsetTable":{
\t\t"t1@g1":{
\t\t\t0:5,
\t\t\t2:7
\t\t}
\t},
\t"pullOffsetTable":{}
}"""


def offsets_of(table: MemoryTable | None = None) -> Offsets:
    return Offsets(table or MemoryTable(), CONFIG, StillClock())


def test_the_last_commit_wins() -> None:
    offsets = offsets_of()
    assert offsets.query("g", "t", 0) is None
    offsets.commit("g", "t", 0, 10)
    offsets.commit("g", "t", 0, 4)
    assert offsets.query("g", "t", 0) == 4
    assert offsets.query("g", "t", 1) is None
    assert offsets.query("other", "t", 0) is None


def test_a_negative_offset_counts_as_none() -> None:
    offsets = offsets_of()
    offsets.commit("g", "t", 0, -1)
    assert offsets.query("g", "t", 0) is None


def test_removing_by_topic_and_by_group_takes_whole_names() -> None:
    offsets = offsets_of()
    for topic in ("t", "tt"):
        for group in ("g", "gg"):
            offsets.commit(group, topic, 0, 1)
            offsets.commit_pull(group, topic, 0, 2)
    offsets.remove_topic("t")
    assert offsets.topics_of("g") == {"tt"}
    offsets.remove_group("g")
    assert offsets.groups_of("tt") == {"gg"}
    assert offsets.to_json()["pullOffsetTable"] == {"tt@gg": {0: 2}}


def test_a_slave_forgets_what_the_master_has_no_more_unless_it_was_committed_here() -> None:
    offsets = offsets_of()
    offsets.commit("g", "deleted", 0, 20)
    offsets.committed_here = {}
    offsets.commit("new", "t", 0, 3)
    offsets.follow(b'{"offsetTable":{"t@g":{0:5}}}')
    assert offsets.to_json()["offsetTable"] == {"t@g": {0: 5}, "t@new": {0: 3}}
    for body in (b"{}", b"[]", b'{"offsetTable":[]}', b'{"offsetTable":{"t@g":7}}', b'{"offsetTable":{"t@g":{"x":1}}}'):
        with pytest.raises(ProtocolError):
            offsets.follow(body)
    assert offsets.to_json()["offsetTable"] == {"t@g": {0: 5}, "t@new": {0: 3}}
    offsets.remove_topic("t")
    offsets.follow(b'{"offsetTable":{}}')
    assert offsets.to_json()["offsetTable"] == {}, "what is removed is not given back either"


def test_the_version_moves_with_every_500th_commit() -> None:
    offsets = offsets_of()
    for offset in range(1_100):
        offsets.commit("g", "t", 0, offset)
    assert offsets.data_version.counter == 2


def test_offsets_survive_in_their_file(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    offsets = Offsets(file_table(path), CONFIG, StillClock())
    offsets.commit("g", "t", 3, 1 << 40)
    assert offsets.persist()
    assert not offsets.persist()
    assert Offsets(file_table(path), CONFIG, StillClock()).query("g", "t", 3) == 1 << 40


def test_a_file_of_the_original_is_read(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    path.write_text(JAVA_FILE)
    offsets = Offsets(file_table(path), CONFIG, StillClock())
    assert offsets.of("g1", "t1") == {0: 5, 2: 7}
    assert offsets.data_version.counter == 3


def test_the_answer_has_bare_queue_ids_and_quoted_names() -> None:
    offsets = offsets_of()
    offsets.commit("12", "t1", 0, 5)
    offsets.commit("12", "t1", 2, 7)
    offsets.commit_pull("12", "t1", 0, 5)
    text = encode_offsets(offsets.to_json())
    assert b'"pullOffsetTable":{"t1@12":{"0":5}}' in text  # a Java slave skips it, and cannot skip bare names
    assert b'"offsetTable":{"t1@12":{0:5,2:7}}' in text
    assert b'"groupTopicMap":{"12":["t1"]}' in text
    assert fastjson.loads(text)["offsetTable"] == {"t1@12": {"0": 5, "2": 7}}
