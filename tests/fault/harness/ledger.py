"""The ledger: what was sent, what was promised and what was seen, kept outside the broker; and the judge.

    I1  what was acknowledged is there, at the offset that was told
    I2  no offset ever has two contents, and none is missing between two that are there
    I3  in each queue messages stand in the order in which they were sent
    I4  nothing is there that was never sent, nothing twice
    I5  what a consumer has seen stays

A message has a name of its own, is sent once and never again. Names of a queue are numbered in the order of sending.
Entries are kept in memory and, if a path is given, in a file of JSON lines, so that a failure can be looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple, TextIO

SEND_OK: Final = 0

Queue = tuple[str, int]


class Found(NamedTuple):
    """A message as a reader got it."""

    offset: int
    name: str
    digest: str


class Sent(NamedTuple):
    queue: Queue
    number: int  # of those sent to this queue
    digest: str


class Promise(NamedTuple):
    status: int
    offset: int


def digest_of(body: bytes) -> str:
    return blake2b(body, digest_size=12).hexdigest()


class Ledger:
    """Written while the broker runs, asked when it is up again."""

    def __init__(self, path: Path | None = None) -> None:
        self._file: TextIO | None = path.open("a", encoding="utf-8") if path is not None else None
        self.sent: dict[str, Sent] = {}
        self.promised: dict[str, Promise] = {}
        self._by_place: dict[tuple[Queue, int], str] = {}  # who was promised or seen there
        self._seen: dict[tuple[Queue, int], Found] = {}
        self._counts: dict[Queue, int] = {}

    def send(self, queue: Queue, name: str, body: bytes) -> None:
        """Before the message leaves."""
        number = self._counts.get(queue, 0)
        self._counts[queue] = number + 1
        self.sent[name] = Sent(queue, number, digest_of(body))
        self._note("send", *queue, name, self.sent[name].digest)

    def acknowledge(self, name: str, status: int, offset: int) -> list[str]:
        """After the answer came; a second promise for the same place is a violation."""
        self.promised[name] = Promise(status, offset)
        queue = self.sent[name].queue
        self._note("ack", *queue, name, status, offset)
        if status != SEND_OK:
            return []
        return self._place(queue, offset, name)

    def see(self, queue: Queue, found: Iterable[Found]) -> list[str]:
        """A consumer got these."""
        faults: list[str] = []
        for one in found:
            self._note("see", *queue, *one)
            faults += self._place(queue, one.offset, one.name)
            self._seen[queue, one.offset] = one
        return faults

    def _place(self, queue: Queue, offset: int, name: str) -> list[str]:
        before = self._by_place.setdefault((queue, offset), name)
        return [] if before == name else [f"I2: {queue} offset {offset} was {before} and is {name}"]

    def check(
        self,
        found: Mapping[Queue, list[Found]],
        *,
        from_offsets: Mapping[Queue, int] | None = None,
        lost_is_allowed: bool = False,
    ) -> list[str]:
        """Violations in what the queues hold now, from the given offsets on (else from 0)."""
        starts = from_offsets or {}
        faults: list[str] = []
        places: dict[str, tuple[Queue, int]] = {}
        for queue, messages in found.items():
            faults += self._check_queue(queue, messages, starts.get(queue, 0), places)
        if lost_is_allowed:
            return faults
        for name, (status, offset) in self.promised.items():
            queue = self.sent[name].queue
            if status == SEND_OK and offset >= starts.get(queue, 0) and places.get(name) != (queue, offset):
                faults.append(f"I1: {name} was acknowledged at {queue} offset {offset}, found at {places.get(name)}")
        for (queue, offset), one in self._seen.items():
            if offset >= starts.get(queue, 0) and places.get(one.name) != (queue, offset):
                faults.append(f"I5: {one.name} was seen at {queue} offset {offset}, found at {places.get(one.name)}")
        return faults

    def _check_queue(
        self, queue: Queue, messages: list[Found], start: int, places: dict[str, tuple[Queue, int]]
    ) -> list[str]:
        faults: list[str] = []
        last = -1
        for expected, (offset, name, digest) in enumerate(messages, start):
            if offset != expected:
                faults.append(f"I2: {queue} has offset {offset} where {expected} is expected")
            sent = self.sent.get(name)
            if sent is None or sent.queue != queue or sent.digest != digest:
                faults.append(f"I4: {queue} offset {offset} holds {name!r} ({digest}), which was not sent: {sent}")
                continue
            if name in places:
                faults.append(f"I4: {name} was sent once and stands at {places[name]} and {queue} offset {offset}")
            if sent.number <= last:
                faults.append(f"I3: {queue} offset {offset} holds number {sent.number} behind number {last}")
            last = sent.number
            places[name] = queue, offset
            before = self._by_place.get((queue, offset))
            if before is not None and before != name:
                faults.append(f"I2: {queue} offset {offset} was {before} and is {name}")
        return faults

    def _note(self, *fields: object) -> None:
        if self._file is not None:
            self._file.write(json.dumps(fields) + "\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
