"""An answer as plain data: dictionaries, lists, texts and numbers that can be compared.

Nothing is hidden here but order that has no meaning (Java's hash sets and maps) and what belongs to other cases,
which a listing shows in the same reply. What may differ is said in `differences`.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from cometmq.config import parse_properties
from cometmq.errors import CorruptRecord, ProtocolError
from cometmq.wire import fastjson
from cometmq.wire.codes import RequestCode
from cometmq.wire.command import Command
from cometmq.wire.record import decode_records, host_text

_RECORDS = {
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.QUERY_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.POP_MESSAGE,
    RequestCode.PEEK_MESSAGE,
}
_PROPERTIES = {RequestCode.GET_NAMESRV_CONFIG}

# Java writes maps whose keys are queues.
_OBJECT_KEY = re.compile(rb"(?<=[{,])\{[^{}]*\}(?=:)")

# The names of a case hold its mark: cbroker17j3_ (script broker-17, JSON header, names number 3).
_MARK = re.compile(r"(?<![A-Za-z0-9])c[A-Za-z0-9]+[jb]\d+_")


def mark(script: str, form: str, number: int) -> str:
    """What the names of a case begin with: the same on both servers, different for every case."""
    return f"c{''.join(part for part in script if part.isalnum())}{form[0]}{number}_"


def plain(request_code: int, answer: Command, own_mark: str) -> dict[str, Any]:
    """One answer."""
    return {
        "code": answer.code,
        "flag": answer.flag,
        "form": answer.serialize,
        "version": answer.version,
        "language": answer.language,
        "remark": answer.remark or None,  # the binary form does not tell an empty text from none
        "ext": dict(answer.ext),
        "body": _body(request_code, bytes(answer.body), own_mark),
    }


def _body(request_code: int, body: bytes, own_mark: str) -> Any:
    if not body:
        return None
    if request_code in _RECORDS:
        return records_of(body)
    if request_code in _PROPERTIES:
        return parse_properties(body.decode())
    try:
        value = fastjson.loads(_OBJECT_KEY.sub(lambda found: orjson.dumps(found.group().decode()), body))
    except ProtocolError:
        return body.decode(errors="backslashreplace")
    return {"dialect": _is_dialect(body), "json": in_order(value, own_mark)}


def records_of(body: bytes) -> Any:
    """Stored messages, one after the other."""
    try:
        return [_record(record) for record in decode_records(body, check_crc=True)]
    except CorruptRecord as broken:
        return f"no records: {broken}"


def _is_dialect(body: bytes) -> bool:
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return True
    return False


def _record(record: Any) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "queueId": record.queue_id,
        "flag": record.flag,
        "queueOffset": record.queue_offset,
        "physicalOffset": record.physical_offset,
        "sysFlag": record.sys_flag,
        "bornTime": record.born_time_ms,
        "bornHost": host_text(record.born_host),
        "storeTime": record.store_time_ms,
        "storeHost": host_text(record.store_host),
        "reconsumeTimes": record.reconsume_times,
        "preparedOffset": record.prepared_offset,
        "body": record.body[:64].hex(),
        "bodyCrc": record.body_crc,
        "size": record.size,
        "magic": record.magic,
        "properties": record.properties,
    }


def in_order(value: Any, own_mark: str) -> Any:
    """The same without what belongs to other cases, and with lists in an order of their own."""
    if isinstance(value, dict):
        return {k: in_order(v, own_mark) for k, v in value.items() if not _foreign(k, own_mark)}
    if isinstance(value, list):
        kept = [in_order(item, own_mark) for item in value if not _foreign(_name_of(item), own_mark)]
        return sorted(kept, key=lambda item: (_name_of(item), json.dumps(item, sort_keys=True)))
    return value


def _name_of(item: Any) -> str:
    if isinstance(item, dict):
        return str(item.get("brokerName") or item.get("topicName") or item.get("groupName") or "")
    return item if isinstance(item, str) else ""


def _foreign(name: str, own_mark: str) -> bool:
    found = _MARK.search(name)
    return found is not None and found.group() != own_mark
