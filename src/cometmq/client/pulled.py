"""The messages in the body of a pull answer, decoded all at once.

A record that holds a batch (topics of `queue.type=BatchCQ`) is opened: its messages have one queue offset each.
Messages of the group's retry topic come under the topic that they were first sent to.

Mirrors: PullAPIWrapper.processPullResult, MessageDecoder.decodeMessage.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from cometmq.client.message import ReceivedMessage
from cometmq.errors import CorruptRecord, RequestRefused
from cometmq.model import properties
from cometmq.model.sysflag import MessageFlag
from cometmq.wire.batch import split_batch
from cometmq.wire.record import Buffer, Record, decode_records

BATCH: Final = int(MessageFlag.INNER_BATCH | MessageFlag.NEED_UNWRAP)


def messages_of(body: Buffer, broker_name: str, retry_topic: str | None = None) -> list[ReceivedMessage]:
    """All messages of an answer, in order; bad bytes raise `CorruptRecord`."""
    found: list[ReceivedMessage] = []
    for record in decode_records(body):
        if record.sys_flag & BATCH == BATCH:
            found += [ReceivedMessage(inner, broker_name) for inner in opened(record)]
        elif record.topic == retry_topic:
            found.append(first_sent(record, broker_name))
        else:
            found.append(ReceivedMessage(record, broker_name))
    return found


def first_sent(record: Record, broker_name: str) -> ReceivedMessage:
    """A message of a retry topic, under the topic of the program."""
    message = ReceivedMessage(record, broker_name)
    message.topic = message.properties.get(properties.RETRY_TOPIC, record.topic)
    return message


def opened(batch: Record) -> Iterator[Record]:
    """The messages of a batch that is stored as one record."""
    try:
        parts = split_batch(batch.body)
    except RequestRefused as fault:
        raise CorruptRecord("", batch.physical_offset, f"a batch that cannot be opened: {fault}") from None
    for number, (flag, body, property_data) in enumerate(parts):
        yield dataclasses.replace(
            batch,
            flag=flag,
            body=bytes(body),
            properties_text=property_data.decode("utf-8", "replace"),
            queue_offset=batch.queue_offset + number,
            size=len(body) + len(property_data),
        )
