"""Our codecs against what RocketMQ 5.5.0's own wrote and read: `wire/*.json`, recorded by `record.py`."""

from __future__ import annotations

import ipaddress
import json
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from cometmq.errors import ProtocolError
from cometmq.model import properties
from cometmq.model.java_hash import string_hash, tags_code
from cometmq.wire import fastjson
from cometmq.wire.batch import encode_batch, split_batch
from cometmq.wire.codes import LanguageCode, SerializeType
from cometmq.wire.command import Command, decode_command, encode_command
from cometmq.wire.frame import FrameDecoder
from cometmq.wire.message_id import UniqueIds, offset_id, parse_offset_id
from cometmq.wire.record import decode_record, encode_record, host_text, pack_host

FOLDER = Path(__file__).parent / "wire"

# Header texts that fastjson takes and we do not: no client writes them, and a strict parser is a small one.
STRICTER = {"{'code':10}", '{"code":10,}', '{"code":10,"remark":"\\ud800"}'}
# ... and one the other way round: bodies need bare keys, so headers may have them too.
LAXER = {'{"code":10,"extFields":{0:"zero"}}'}


def cases(name: str) -> list[Any]:
    file = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert file["rocketmq"] == "V5_5_0"
    return list(file["cases"])


def fields_of(command: Command) -> dict[str, Any]:
    return {
        "form": SerializeType(command.serialize).name,
        "code": command.code,
        "flag": command.flag,
        "opaque": command.opaque,
        "version": command.version,
        "language": LanguageCode(command.language).name,
        "remark": command.remark,
        "ext": command.ext,
        "body": bytes(command.body).hex(),
    }


def as_ours(read: dict[str, Any]) -> dict[str, Any]:
    """Java's view in our terms: no null in a map, no null map; the null key of an empty one has no name."""
    ext = {name: text for name, text in (read["ext"] or {}).items() if text is not None}
    if "null" in ext:
        ext[""] = ext.pop("null")
    return {**read, "ext": ext}


@pytest.mark.parametrize("case", cases("commands"))
def test_command(case: dict[str, Any]) -> None:
    frame = bytes.fromhex(case["frame"])
    expected = as_ours({name: value for name, value in case.items() if name != "frame"})
    (cut,) = FrameDecoder().feed(frame)
    command = decode_command(cut)
    assert fields_of(command) == expected
    again = encode_command(command)
    assert fields_of(decode_command(again[4:])) == expected
    if case["form"] == "ROCKETMQ" and None not in (case["ext"] or {}).values():
        assert again == frame


@pytest.mark.parametrize("case", cases("refused"), ids=lambda case: case["name"])
def test_doubtful_header(case: dict[str, Any]) -> None:
    frame = bytes.fromhex(case["frame"])[4:]
    read = case["read"]
    if case["name"] in STRICTER or (read is None and case["name"] not in LAXER):
        with pytest.raises(ProtocolError):
            decode_command(frame)
    elif read is not None:
        ours, java = fields_of(decode_command(frame)), as_ours(read)
        java["language"] = java["language"] or "OTHER"
        if ours["form"] == "JSON":  # where it is missing, Java puts a number of its own
            ours["opaque"] = java["opaque"] = 0
        if "d" in java["ext"]:  # Java keeps the digits of 1.50
            java["ext"]["d"] = "1.5"
        assert ours == java
    else:
        decode_command(frame)


@pytest.mark.parametrize("case", cases("records"), ids=lambda case: case["topic"][:20])
def test_record(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["data"])
    born, store = pack_host(case["born"], 54321), pack_host(case["store"], 10911)
    record = decode_record(data, check_crc=True)
    assert (record.topic, record.queue_id, record.flag) == (case["topic"], case["queueId"], case["flag"])
    assert (record.queue_offset, record.physical_offset) == (case["queueOffset"], case["physicalOffset"])
    assert (record.sys_flag, record.body_crc, record.size) == (case["sysFlag"], case["crc"], len(data))
    assert (record.born_time_ms, record.store_time_ms) == (case["bornTime"], case["storeTime"])
    assert (record.born_host, record.store_host) == (born, store)
    assert (record.reconsume_times, record.prepared_offset) == (case["reconsumeTimes"], case["preparedOffset"])
    assert (record.body.decode(), record.properties_text) == (case["body"], case["properties"])
    assert offset_id(record.store_host, record.physical_offset) == case["id"]
    again = encode_record(
        topic=record.topic.encode(),
        queue_id=record.queue_id,
        flag=record.flag,
        queue_offset=record.queue_offset,
        physical_offset=record.physical_offset,
        sys_flag=record.sys_flag,
        born_time_ms=record.born_time_ms,
        born_host=born,
        store_time_ms=record.store_time_ms,
        store_host=store,
        reconsume_times=record.reconsume_times,
        prepared_offset=record.prepared_offset,
        body=record.body,
        properties_data=record.properties_text.encode(),
    )
    assert again == data


@pytest.mark.parametrize("case", cases("batches"), ids=lambda case: f"{len(case['messages'])} messages")
def test_batch(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["data"])
    messages = [(m["flag"], bytes.fromhex(m["body"]), m["properties"].encode()) for m in case["messages"]]
    assert [(flag, bytes(body), text) for flag, body, text in split_batch(data)] == messages
    assert encode_batch(messages) == data


@pytest.mark.parametrize("case", cases("ids"), ids=lambda case: case["id"])
def test_id(case: dict[str, Any]) -> None:
    text = case["id"]
    if case["kind"] == "offset":
        host = pack_host(case["ip"], case["port"])
        assert offset_id(host, case["offset"]) == text
        assert parse_offset_id(text) == (host, case["offset"])
        assert host_text(host).rpartition(":")[0].strip("[]") == case["ip"]
        return
    ip = ipaddress.ip_address(case["ip"]).packed
    seed = int(text[2 * len(ip) + 4 : 2 * len(ip) + 12], 16)
    ids = UniqueIds(ip, case["pid"], seed, UTC)
    for _ in range(case["counter"]):
        ids.make(case["from"])
    made = [ids.make(now_ms) for now_ms in range(case["from"], case["to"] + 1)]
    assert text[:-4] in [one[:-4] for one in made]
    assert made[0][-4:] == text[-4:]


@pytest.mark.parametrize("case", cases("hashes"), ids=lambda case: case["text"][:20])
def test_hash(case: dict[str, Any]) -> None:
    assert string_hash(case["text"]) == case["hash"]
    assert tags_code(case["text"]) == case["hash"]


@pytest.mark.parametrize("case", cases("properties"), ids=lambda case: repr(case["text"]))
def test_properties(case: dict[str, Any]) -> None:
    assert properties.parse(case["text"]) == case["read"]
    assert properties.parse(properties.render(case["read"])) == case["read"]


def test_json_of_a_route() -> None:
    texts = {case["name"]: case["text"].encode() for case in cases("json")}
    route = fastjson.loads(texts["dialect"])
    assert route == fastjson.loads(texts["strict"])
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:10911", "1": "127.0.0.1:20911"}
    assert fastjson.dumps(route) == texts["strict"]
    assert fastjson.dumps(route, strict=False) == texts["dialect"]


@pytest.mark.parametrize("case", cases("json")[2:], ids=lambda case: case["name"][:20])
def test_json_with_a_number_as_key(case: dict[str, Any]) -> None:
    assert fastjson.loads(case["text"].encode()) == {"7": case["name"]}
    assert fastjson.dumps({7: case["name"]}, strict=False).decode() == case["text"]
