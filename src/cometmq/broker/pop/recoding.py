"""Messages of a retry topic, encoded anew under the name of the topic they come from, each with its receipt.

Mirrors: PopMessageProcessor.popMsgFromQueue ("recode"), MessageDecoder.encode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cometmq.model.properties import POP_CK, PROPERTIES_SIZE_MAX, PROPERTY_SEPARATOR
from cometmq.wire.command import Body
from cometmq.wire.record import decode_record, encode_record


def recoded(records: Body, topic: bytes, receipt_of: Callable[[int], str]) -> Iterator[Body]:
    """Each of some stored records; one whose properties have no room for the receipt stays as it is."""
    at = 0
    while at < len(records):
        record = decode_record(records, at)
        text = record.properties_text
        if POP_CK not in record.properties:
            if text and not text.endswith(PROPERTY_SEPARATOR):
                text += PROPERTY_SEPARATOR
            text += f"{POP_CK}\x01{receipt_of(record.queue_offset)}\x02"
        data = text.encode()
        if len(data) > PROPERTIES_SIZE_MAX:
            yield records[at : at + record.size]
        else:
            yield encode_record(
                topic=topic,
                queue_id=record.queue_id,
                flag=record.flag,
                queue_offset=record.queue_offset,
                physical_offset=record.physical_offset,
                sys_flag=record.sys_flag,
                born_time_ms=record.born_time_ms,
                born_host=record.born_host,
                store_time_ms=record.store_time_ms,
                store_host=record.store_host,
                reconsume_times=record.reconsume_times,
                prepared_offset=record.prepared_offset,
                body=record.body,
                properties_data=data,
            )
        at += record.size
