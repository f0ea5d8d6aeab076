"""Messages: what is sent (`Message`), what a send gives back (`Receipt`), what is received (`ReceivedMessage`).

A `Message` is checked when it is made, so that a mistake is found where it was made and nothing of it is sent.
Invariant: no text in it holds the two characters that separate properties on the wire.

Mirrors: Message, MessageExt, SendResult, Validators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec

from cometmq.client.compression import decompress
from cometmq.errors import ClientError, InvalidMessage, InvalidName
from cometmq.model import names, properties
from cometmq.model.queue import MessageQueue
from cometmq.model.sysflag import MessageFlag
from cometmq.wire.message_id import offset_id
from cometmq.wire.record import Record, host_text

BODY_SIZE_MAX: Final = 4 * 1024 * 1024  # what a broker takes unless it is configured otherwise
_SEPARATORS: Final = (properties.NAME_SEPARATOR, properties.PROPERTY_SEPARATOR)
_COMPRESSED: Final = int(MessageFlag.COMPRESSED)

# A program has few topics; those that were found right are not looked at again.
_CHECKED_MAX: Final = 4096
_checked_topics: set[str] = set()


def check_topic(topic: str) -> str:
    """The name, if a program may send to it or read it."""
    if topic not in _checked_topics:
        if not isinstance(topic, str):
            raise InvalidName(f"a topic is a str, not {type(topic).__name__}")
        fault = names.topic_fault(topic)
        if fault is not None:
            raise InvalidName(fault)
        if len(_checked_topics) >= _CHECKED_MAX:
            _checked_topics.clear()
        _checked_topics.add(topic)
    return topic


def check_group(group: str) -> str:
    """The name, if it may be that of a producer or consumer group."""
    if not isinstance(group, str):
        raise InvalidName(f"a group is a str, not {type(group).__name__}")
    fault = names.group_fault(group)
    if fault is not None:
        raise InvalidName(fault)
    if group in ("DEFAULT_PRODUCER", "DEFAULT_CONSUMER"):
        raise InvalidName(f"{group} is reserved; name the group after what your program does")
    return group


class Message(msgspec.Struct, frozen=True):
    """A message to send.

    `keys` are what it can be found by later; `properties` are yours; `sharding_key` keeps the order of messages that
    share it; `wait_stored=False` asks for an answer before the broker has flushed it.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: str | Sequence[str] = ()
    properties: Mapping[str, str] = {}
    sharding_key: str | None = None
    priority: int | None = None
    flag: int = 0
    wait_stored: bool = True

    def __post_init__(self) -> None:
        if self.topic not in _checked_topics:
            check_topic(self.topic)
        body: Any = self.body
        if type(body) is not bytes:
            if not isinstance(body, (bytearray, memoryview)):
                raise InvalidMessage(f"the body is bytes, not {type(body).__name__}; encode it, as with text.encode()")
            msgspec.structs.force_setattr(self, "body", bytes(body))
        if not body:
            raise InvalidMessage("the body is empty; brokers take no message without at least one byte")
        if self.tags is not None:
            _check_tag(self.tags)
        if self.keys:
            _check_keys(self.keys)
        if self.properties:
            _check_properties(self.properties)
        if self.sharding_key is not None:
            _check_text("the sharding key", self.sharding_key)
        if self.priority is not None and not 0 <= self.priority < 1 << 31:
            raise InvalidMessage(f"the priority {self.priority} is not a whole number from 0 on")

    def __repr__(self) -> str:
        """Without the body, which may have megabytes, and be nobody's business in a log."""
        tags = f" tags={self.tags}" if self.tags is not None else ""
        keys = f" keys={self.keys!r}" if self.keys else ""
        return f"<Message {self.topic}{tags}{keys} {len(self.body)}B>"


def check_message(message: Message) -> None:
    """Whether it is one at all: a body alone is soon given by mistake."""
    if not isinstance(message, Message):
        raise InvalidMessage(f"a Message is sent, not {type(message).__name__}; make one, as Message(topic, body)")


def _check_text(what: str, text: Any) -> None:
    if not isinstance(text, str) or not text:
        raise InvalidMessage(f"{what} is a str that is not empty, not {text!r:.80}")
    if _SEPARATORS[0] in text or _SEPARATORS[1] in text:
        raise InvalidMessage(f"{what} holds the character U+0001 or U+0002, which separates properties on the wire")


def _check_tag(tag: str) -> None:
    _check_text("a tag", tag)
    if "|" in tag:
        raise InvalidMessage(
            f"the tag {tag!r} holds a |; a message has one tag, and || stands between those a consumer wants"
        )


def _check_keys(keys: str | Sequence[str]) -> None:
    for key in (keys,) if isinstance(keys, str) else keys:
        _check_text("a key", key)
        if " " in key and not isinstance(keys, str):
            raise InvalidMessage(
                f"the key {key!r} holds a space, which separates keys; give a list without spaces in it"
            )


def _check_properties(given: Mapping[str, str]) -> None:
    for name, value in given.items():
        _check_text("the name of a property", name)
        _check_text(f"the property {name}", value)
        if name in properties.RESERVED:
            raise InvalidMessage(f"the property {name} is reserved for the system; choose another name")


def property_text(message: Message, unique_key: str, more: str = "") -> str:
    """All properties of a message in the form of the wire; `more` is in that form already."""
    text = f"UNIQ_KEY\x01{unique_key}\x02WAIT\x01{'true' if message.wait_stored else 'false'}\x02{more}"
    if message.tags is not None:
        text += f"TAGS\x01{message.tags}\x02"
    if message.keys:
        keys = message.keys if isinstance(message.keys, str) else " ".join(message.keys)
        text += f"KEYS\x01{keys}\x02"
    if message.sharding_key is not None:
        text += f"__SHARDINGKEY\x01{message.sharding_key}\x02"
    if message.priority is not None:
        text += f"{properties.PRIORITY}\x01{message.priority}\x02"
    if message.properties:
        text += properties.render(message.properties)
    return text


class SendStatus(StrEnum):
    """How safe the broker says the message is; all but OK mean stored here, but not (yet) where you asked for too."""

    OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class Receipt(msgspec.Struct, frozen=True):
    """What a broker answered to a send. `message_id` is the id that consumers see; `recall_handle` calls it back."""

    message_id: str
    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    offset_message_id: str
    status: SendStatus = SendStatus.OK
    transaction_id: str | None = None
    recall_handle: str | None = None

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self.queue_id)


class Deliverer(Protocol):
    """Who handed a message out, where it can be acknowledged one by one."""

    async def ack(self, message: ReceivedMessage) -> None: ...

    async def change_invisible(self, message: ReceivedMessage, duration: timedelta) -> None: ...


class ReceivedMessage:
    """A message as a consumer sees it. Properties are parsed and bodies unpacked when they are first looked at."""

    __slots__ = ("__weakref__", "_body", "_properties", "broker_name", "deliverer", "record", "topic")

    def __init__(
        self, record: Record, broker_name: str, *, topic: str | None = None, deliverer: Deliverer | None = None
    ) -> None:
        """`topic` is that of the program where the record's is another (retries)."""
        self.record = record
        self.broker_name = broker_name
        self.topic = record.topic if topic is None else topic
        self.deliverer = deliverer
        self._properties: dict[str, str] | None = None
        self._body: bytes | None = None

    @property
    def body(self) -> bytes:
        if self._body is None:
            record = self.record
            self._body = decompress(record.body, record.sys_flag) if record.sys_flag & _COMPRESSED else record.body
        return self._body

    @property
    def properties(self) -> dict[str, str]:
        """All of them, the system's too."""
        if self._properties is None:
            self._properties = self.record.properties
        return self._properties

    @property
    def tags(self) -> str | None:
        return self.properties.get(properties.TAGS)

    @property
    def keys(self) -> list[str]:
        return self.properties.get(properties.KEYS, "").split()

    @property
    def sharding_key(self) -> str | None:
        return self.properties.get(properties.SHARDING_KEY)

    @property
    def message_id(self) -> str:
        """The id that its producer knows it by."""
        return self.properties.get(properties.UNIQ_KEY) or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        return offset_id(self.record.store_host, self.record.physical_offset)

    @property
    def transaction_id(self) -> str | None:
        return self.properties.get(properties.UNIQ_KEY)

    @property
    def queue(self) -> MessageQueue:
        """Where it was read; the topic is that of the queue, which for a retry is not the program's."""
        return MessageQueue(self.record.topic, self.broker_name, self.record.queue_id)

    @property
    def queue_id(self) -> int:
        return self.record.queue_id

    @property
    def queue_offset(self) -> int:
        return self.record.queue_offset

    @property
    def reconsume_times(self) -> int:
        """How often it was tried before: 0 at the first time."""
        return self.record.reconsume_times

    @property
    def born_time(self) -> datetime:
        return datetime.fromtimestamp(self.record.born_time_ms / 1000, UTC)

    @property
    def store_time(self) -> datetime:
        return datetime.fromtimestamp(self.record.store_time_ms / 1000, UTC)

    @property
    def born_host(self) -> str:
        return host_text(self.record.born_host)

    @property
    def store_host(self) -> str:
        return host_text(self.record.store_host)

    async def ack(self) -> None:
        """Done with it: it will not come again."""
        await self._handed_out_by().ack(self)

    async def change_invisible(self, duration: timedelta) -> None:
        """Let it come again `duration` from now, unless it is acknowledged before."""
        await self._handed_out_by().change_invisible(self, duration)

    def _handed_out_by(self) -> Deliverer:
        if self.deliverer is None:
            raise ClientError("only messages of a SimpleConsumer are acknowledged one by one")
        return self.deliverer

    def __repr__(self) -> str:
        where = f"{self.topic} {self.broker_name}:{self.queue_id}@{self.queue_offset}"
        return f"<ReceivedMessage {self.message_id} {where} {len(self.record.body)}B>"
