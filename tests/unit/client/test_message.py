"""A wrong message is refused where it is made, with an error that is a ValueError."""

from __future__ import annotations

from typing import Any

import pytest

from cometmq.client.compression import Compression, compress, decompress
from cometmq.client.message import Message, ReceivedMessage, check_group, property_text
from cometmq.client.options import ClientOptions
from cometmq.errors import InvalidArgument, InvalidMessage, InvalidName, ProtocolError
from cometmq.model import properties
from cometmq.wire.record import decode_record, encode_record, pack_host


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topic": ""}, "blank"),
        ({"topic": "a b"}, "illegal"),
        ({"topic": "x" * 128}, "longer"),
        ({"topic": 5}, "str"),
        ({"body": b""}, "empty"),
        ({"body": "text"}, "encode"),
        ({"body": None}, "bytes"),
        ({"tags": "a|b"}, r"\|"),
        ({"tags": ""}, "tag"),
        ({"tags": "a\x01b"}, "separates"),
        ({"keys": ["a b"]}, "space"),
        ({"keys": ["a", ""]}, "key"),
        ({"properties": {"UNIQ_KEY": "1"}}, "reserved"),
        ({"properties": {"a": ""}}, "empty"),
        ({"properties": {"a\x02": "b"}}, "separates"),
        ({"properties": {"a": 1}}, "str"),
        ({"sharding_key": ""}, "sharding"),
        ({"priority": -1}, "priority"),
    ],
)
def test_wrong_messages(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        Message(**({"topic": "orders", "body": b"1"} | given))
    assert isinstance(refused.value, (InvalidMessage, InvalidName))


def test_a_message_is_shown_without_its_body() -> None:
    message = Message("orders", b"secret" * 1000, tags="created", keys=["order-42"])
    assert repr(message) == "<Message orders tags=created keys=['order-42'] 6000B>"
    assert repr(Message("orders", b"1")) == "<Message orders 1B>"


@pytest.mark.parametrize("group", ["", " ", "a b", "x" * 121, "DEFAULT_PRODUCER", None, 1])
def test_wrong_groups(group: Any) -> None:
    with pytest.raises(InvalidName):
        check_group(group)


@pytest.mark.parametrize("namesrv", ["", " ; ", "host", "host:port", "host:99999", ":9876", "tcp://host:9876", []])
def test_wrong_name_servers(namesrv: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(InvalidArgument):
        ClientOptions.of(namesrv)


def test_name_servers_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert ClientOptions.of(None).namesrv == "a:1;b:2"
    assert ClientOptions.of(["a:1", "b:2"]) == ClientOptions.of(None)


def test_properties_on_the_wire() -> None:
    message = Message(
        "orders", bytearray(b"1"), tags="t", keys=["a", "b"], properties={"x": "y"}, sharding_key="s", priority=3
    )
    found = properties.parse(property_text(message, "U"))
    assert found == {
        "UNIQ_KEY": "U", "WAIT": "true", "TAGS": "t", "KEYS": "a b", "x": "y", "__SHARDINGKEY": "s",
        "_SYS_MSG_PRIORITY_": "3",
    }  # fmt: skip
    assert type(message.body) is bytes


def received(body: bytes, sys_flag: int = 0, text: str = "") -> ReceivedMessage:
    host = pack_host("127.0.0.1", 10911)
    data = encode_record(
        topic=b"%RETRY%g", queue_id=1, flag=0, queue_offset=2, physical_offset=3, sys_flag=sys_flag, born_time_ms=4,
        born_host=host, store_time_ms=5, store_host=host, body=body, properties_data=text.encode(),
    )  # fmt: skip
    return ReceivedMessage(decode_record(data), "broker-a", topic="orders")


@pytest.mark.parametrize("kind", list(Compression))
def test_packed_bodies(kind: Compression) -> None:
    body = b"comet " * 1000
    assert received(compress(body, kind), kind.sys_flag).body == body
    packed = compress(body, kind)
    for cut in (b"", packed[: len(packed) // 2], b"garbage"):
        with pytest.raises(ProtocolError):
            decompress(cut, kind.sys_flag)


def test_packed_by_what_nobody_knows() -> None:
    with pytest.raises(ProtocolError):
        decompress(b"1", 0x701)
    assert decompress(compress(b"1"), 0x1) == b"1"  # clients before 5 name no codec


def test_received() -> None:
    message = received(b"1", text="UNIQ_KEY\x01U\x02KEYS\x01a b\x02TAGS\x01t\x02")
    assert (message.topic, message.queue.topic) == ("orders", "%RETRY%g")
    assert (message.message_id, message.keys, message.tags, message.queue_offset) == ("U", ["a", "b"], "t", 2)
    assert message.born_host == "127.0.0.1:10911"
    assert received(b"1").message_id == received(b"1").offset_message_id
