"""Where a group's progress is kept: at the brokers for clustering, in a file of this machine for broadcasting.

The file is Java's (`~/.rocketmq_offsets/<client>/<group>/offsets.json`), so a Python program may take over where a
Java one stopped. It is replaced by renaming, and the one before stays as `.bak`, which is read if that is not sound.
Invariant: a store either tells an offset, says that there is none (None), or raises; a fault never looks like "none",
because a group would then begin anew.

Mirrors: OffsetStore, RemoteBrokerOffsetStore, LocalFileOffsetStore, RebalancePushImpl (computePullFromWhere).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from cometmq.client.instance import ClientInstance
from cometmq.errors import CometError, InvalidArgument, PeerRefused, ProtocolError
from cometmq.model.names import RETRY_PREFIX
from cometmq.model.queue import MessageQueue
from cometmq.net.server import outward_ip
from cometmq.wire.bodies.offsets import decode_queue_offsets, encode_queue_offsets
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.consume import (
    GetMaxOffset,
    OffsetReply,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)

log = logging.getLogger("cometmq.client")

OFFSETS_FOLDER: Final = ".rocketmq_offsets"
_AT_ONCE_MAX: Final = 64  # offsets on their way to brokers


class StartFrom(StrEnum):
    """Where a group begins that has no offset yet; a `datetime` is the third possibility."""

    LAST = "CONSUME_FROM_LAST_OFFSET"
    FIRST = "CONSUME_FROM_FIRST_OFFSET"


FROM_TIME: Final = "CONSUME_FROM_TIMESTAMP"


def start_of(given: StartFrom | datetime | str) -> StartFrom | datetime:
    """What a program says: `first`, `last`, or a time."""
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise InvalidArgument("start_from is a time without zone; say which, as with datetime.now(UTC)")
        return given
    for known in StartFrom:
        if given in (known, known.name, known.name.lower()):
            return known
    raise InvalidArgument(f"start_from is {given!r}; 'first', 'last' or a datetime is possible")


class OffsetStore(Protocol):
    """Reads and keeps the offsets of one group."""

    async def read(self, queue: MessageQueue) -> int | None: ...

    async def save(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Keep these; returns those that were kept. What failed is logged and can be given again."""


class BrokerOffsets:
    """Each broker keeps the offsets of its queues.

    A broker answers 0 for a group that it does not know while a topic is so young that all of it is in memory; unless
    it is told that the group wants to begin elsewhere (`zero_if_young`), which brokers before 5 do not heed.
    Where a group has no offset yet, of two that come at once Java's broker may lose one; so the first goes alone.
    """

    def __init__(self, instance: ClientInstance, group: str, *, zero_if_young: bool = True) -> None:
        self._instance = instance
        self._group = group
        self._zero_if_young = None if zero_if_young else False
        self._begun: set[tuple[str, str]] = set()  # topics and brokers that have an offset of ours
        self._beginning = asyncio.Lock()

    async def read(self, queue: MessageQueue) -> int | None:
        request = QueryConsumerOffset(str(queue.topic), queue.queue_id, self._group, self._zero_if_young)
        answer = await self._instance.exchange(str(queue.broker_name), request, or_any=True)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise PeerRefused(answer.code, answer.remark or "", f"broker {queue.broker_name}")
        return OffsetReply.read(answer.ext).offset

    async def save(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        kept: set[MessageQueue] = set()
        todo = list(offsets.items())
        for start in range(0, len(todo), _AT_ONCE_MAX):
            chunk = todo[start : start + _AT_ONCE_MAX]
            results = await asyncio.gather(*[self._save(queue, offset) for queue, offset in chunk])
            kept.update(queue for (queue, _), is_kept in zip(chunk, results, strict=True) if is_kept)
        return kept

    async def _save(self, queue: MessageQueue, offset: int) -> bool:
        place = str(queue.topic), str(queue.broker_name)
        if place not in self._begun:
            async with self._beginning:
                if place not in self._begun:
                    if is_kept := await self._tell(queue, offset):
                        self._begun.add(place)
                    return is_kept
        return await self._tell(queue, offset)

    async def _tell(self, queue: MessageQueue, offset: int) -> bool:
        try:
            request = UpdateConsumerOffset(str(queue.topic), self._group, queue.queue_id, offset)
            await self._instance.call(str(queue.broker_name), request, or_any=True)
        except CometError as fault:
            log.warning("offset %d of group %s in %s was not kept: %s", offset, self._group, _text(queue), fault)
            return False
        return True


class FileOffsets:
    """All offsets of one group in one file of this machine."""

    def __init__(self, client: str, group: str, folder: str | os.PathLike[str] | None = None) -> None:
        root = Path(folder) if folder is not None else Path.home() / OFFSETS_FOLDER
        self.path = root / client / group / "offsets.json"
        self._offsets: dict[MessageQueue, int] | None = None

    async def read(self, queue: MessageQueue) -> int | None:
        return (await self._loaded()).get(queue)

    async def save(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        table = await self._loaded()
        table.update(offsets)
        try:
            await asyncio.to_thread(_replace, self.path, encode_queue_offsets(table))
        except OSError as fault:
            log.warning("the offsets were not written to %s: %s", self.path, fault)
            return set()
        return set(offsets)

    async def _loaded(self) -> dict[MessageQueue, int]:
        if self._offsets is None:
            loaded = await asyncio.to_thread(_load, self.path)
            if self._offsets is None:
                self._offsets = loaded
        return self._offsets


def _load(path: Path) -> dict[MessageQueue, int]:
    faults: list[str] = []
    for place in (path, _backup(path)):
        try:
            text = place.read_bytes()
            offsets = decode_queue_offsets(text)
        except FileNotFoundError:
            continue
        except ProtocolError as fault:
            faults.append(f"{place}: {fault}")
            continue
        if offsets or b"offsetTable" in text:
            return offsets
        faults.append(f"{place}: no offsets in it")
    if faults:
        raise ProtocolError(
            f"the kept offsets cannot be read ({'; '.join(faults)}); mend the file, or delete it to begin anew"
        )
    return {}


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        path.replace(_backup(path))
    temporary.replace(path)


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def store_of(
    instance: ClientInstance,
    group: str,
    start: StartFrom | datetime,
    *,
    broadcasting: bool,
    folder: str | os.PathLike[str] | None,
) -> OffsetStore:
    """Where a consumer keeps its offsets; in a file under its own id, or under this machine's address."""
    if broadcasting:
        return FileOffsets(instance.options.client_id or f"{outward_ip('0.0.0.0')}@DEFAULT", group, folder)
    return BrokerOffsets(instance, group, zero_if_young=not isinstance(start, datetime))


async def first_offset(
    instance: ClientInstance, store: OffsetStore, queue: MessageQueue, start: StartFrom | datetime
) -> int:
    """Where to begin in a queue: where the group stopped, or as it wishes if it was never here."""
    kept = await store.read(queue)
    if kept is not None and kept >= 0:
        return kept
    is_retry = str(queue.topic).startswith(RETRY_PREFIX)
    if start is StartFrom.FIRST or (is_retry and start is StartFrom.LAST):
        return 0  # if this is gone already, the broker tells what is there
    topic, broker = str(queue.topic), str(queue.broker_name)
    if isinstance(start, datetime) and not is_retry:
        search = SearchOffset(topic, queue.queue_id, int(start.timestamp() * 1000))
        return OffsetReply.read((await instance.call(broker, search, or_any=True)).ext).offset
    return OffsetReply.read((await instance.call(broker, GetMaxOffset(topic, queue.queue_id))).ext).offset


def _text(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}:{queue.queue_id}"
