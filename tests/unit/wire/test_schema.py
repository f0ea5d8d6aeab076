"""Declared headers: missing fields, wrong types, unknown fields, both spellings."""

from __future__ import annotations

import pytest

from cometmq.errors import RequestRefused
from cometmq.wire import requests as _  # noqa: F401 (declares every request)
from cometmq.wire.codes import RequestCode
from cometmq.wire.requests.send import SendBatchMessage, SendMessage, SendMessageReply, SendMessageV2
from cometmq.wire.schema import REQUESTS, Empty, Header, Int32, lenient, named, wire_name

SENT = {
    "producerGroup": "g",
    "topic": "T",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "1",
    "sysFlag": "0",
    "bornTimestamp": "1700000000123",
    "flag": "0",
}


class Every(Header):
    text: str
    small: Int32
    large: int
    yes: bool
    ratio: float
    perhaps: Int32 | None = None
    renamed_here: str = named("other", default="none")


class Forgiving(Header):
    topic: str
    queue_id: Int32 = lenient(0)
    group: str = named("consumerGroup", missing="nobody")


class Strict(Header):
    strict = True
    queue_id: Int32 | None = None


EVERY = {"text": "", "small": "1", "large": "2", "yes": "TRUE", "ratio": "0.5"}


def test_all_types() -> None:
    header = Every.read({**EVERY, "other": "x", "perhaps": "-3"})
    assert header == Every("", 1, 2, True, 0.5, -3, "x")
    assert header.write() == {
        "text": "", "small": "1", "large": "2", "yes": "true", "ratio": "0.5", "perhaps": "-3", "other": "x",
    }  # fmt: skip


@pytest.mark.parametrize("name", list(EVERY))
def test_missing_field_is_named(name: str) -> None:
    fields = {key: text for key, text in EVERY.items() if key != name}
    with pytest.raises(RequestRefused, match=f"<{name}> is null") as refused:
        Every.read(fields)
    assert refused.value.response == "SYSTEM_ERROR"


@pytest.mark.parametrize(
    "text", ["", "x", "1.0", "1e3", " 1", "1_0", "0x1", "--1", "2147483648", "-2147483649", "²", "9" * 5000]
)
def test_wrong_whole_number_counts_as_missing(text: str) -> None:
    with pytest.raises(RequestRefused, match="<small> cannot be"):
        Every.read({**EVERY, "small": text})
    assert Every.read({**EVERY, "perhaps": text}).perhaps is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2147483647", 2**31 - 1),
        ("-2147483648", -(2**31)),
        ("+5", 5),
        ("007", 7),
        ("0000000000000001", 1),
        ("-0", 0),
        ("٣", 3),
    ],
)
def test_whole_numbers_as_java_reads_them(text: str, value: int) -> None:
    assert Every.read({**EVERY, "small": text}).small == value


def test_64_bits() -> None:
    assert Every.read({**EVERY, "large": str(2**63 - 1)}).large == 2**63 - 1
    with pytest.raises(RequestRefused):
        Every.read({**EVERY, "large": str(2**63)})


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("True", True), ("false", False), ("yes", False), ("", False)]
)
def test_booleans_as_java_reads_them(text: str, value: bool) -> None:
    assert Every.read({**EVERY, "yes": text}).yes is value


def test_unknown_fields_are_ignored() -> None:
    assert SendMessage.read({**SENT, "new": "x"}) == SendMessage.read(SENT)


def test_none_is_not_written() -> None:
    assert SendMessageReply("id", 1, 2).write() == {"msgId": "id", "queueId": "1", "queueOffset": "2"}


def test_short_names() -> None:
    long = SendMessage.read(SENT)
    short = SendMessageV2(**vars(long)).write()
    assert {name: short[name] for name in "abcdefgh"} == dict(zip("abcdefgh", SENT.values(), strict=True))


def test_a_read_header_does_not_share_its_defaults() -> None:
    first, second = SendMessage.read(SENT), SendMessage.read(SENT)
    first.reconsume_times = 9
    assert second.reconsume_times == 0


def test_inherited_fields_and_own_code() -> None:
    assert SendBatchMessage.code is RequestCode.SEND_BATCH_MESSAGE
    assert SendMessageV2.code is RequestCode.SEND_MESSAGE_V2
    assert SendBatchMessage.read(dict.fromkeys("abcdefgh", "1")).topic == "1"


def test_empty() -> None:
    assert Empty.read({"any": "thing"}) == Empty()
    assert Empty().write() == {}


def test_every_request_knows_its_code_and_reply() -> None:
    for code, request in REQUESTS.items():
        assert request.code is code
        assert issubclass(request.reply, Header)


def test_wire_name() -> None:
    assert wire_name("default_topic_queue_nums") == "defaultTopicQueueNums"


def test_lenient_fields_must_be_given_but_need_not_be_read() -> None:
    assert Forgiving.read({"topic": "T"}) == Forgiving("T", 0, "nobody")
    assert Forgiving.read({"topic": "T", "queueId": "x"}).queue_id == 0
    with pytest.raises(TypeError):
        Forgiving("T")  # type: ignore[call-arg]


def test_strict_header_refuses_a_wrong_type_even_where_there_is_a_default() -> None:
    assert Strict.read({}).queue_id is None
    with pytest.raises(RequestRefused, match="<queueId> cannot be 'x'"):
        Strict.read({"queueId": "x"})
