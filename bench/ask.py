"""One question, one answer, on a blocking connection: what is asked around the measured runs."""

from __future__ import annotations

import json
import socket
import time
from types import TracebackType
from typing import Final, Self

from bench.workloads import QUEUES
from cometmq.errors import PeerRefused, PeerUnreachable
from cometmq.model.sysflag import READ_WRITE
from cometmq.net.pool import split_address
from cometmq.wire.codes import LanguageCode, ResponseCode
from cometmq.wire.command import Command, decode_command, encode_command
from cometmq.wire.requests.admin import CreateGroup, CreateTopic
from cometmq.wire.requests.consume import GetMaxOffset, OffsetReply
from cometmq.wire.schema import Header

TIMEOUT_S: Final = 10.0
CAUGHT_UP_TIMEOUT_S: Final = 30.0


class Asker:
    """`with Asker(address) as asker: asker.ask(GetMaxOffset(...))`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.create_connection(split_address(address), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._opaque = 0

    def ask(self, request: Header, body: bytes = b"") -> Command:
        """The answer; one other than success is raised as `PeerRefused`."""
        answer = self.exchange(request, body)
        if answer.code != ResponseCode.SUCCESS:
            raise PeerRefused(answer.code, answer.remark or "", self.address)
        return answer

    def exchange(self, request: Header, body: bytes = b"") -> Command:
        """Whatever the broker answers."""
        self._opaque += 1
        command = Command(request.code, ext=request.write(), body=body, opaque=self._opaque, language=LanguageCode.JAVA)
        self._socket.sendall(encode_command(command))
        while True:
            answer = decode_command(self._exactly(int.from_bytes(self._exactly(4), "big")))
            if answer.is_response and answer.opaque == self._opaque:  # brokers also ask things of their clients
                return answer

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise PeerUnreachable(f"{self.address} closed the connection")
            data += piece
        return bytes(data)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def create_topic(asker: Asker, topic: str, queues: int = QUEUES) -> None:
    """Make a topic on the broker, as `mqadmin updateTopic` does."""
    asker.ask(
        CreateTopic(
            topic=topic, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=READ_WRITE,
            topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False,
        )
    )  # fmt: skip


def create_group(asker: Asker, group: str) -> None:
    asker.ask(CreateGroup(), json.dumps({"groupName": group}).encode())


def max_offsets(asker: Asker, topic: str, queues: int = QUEUES) -> list[int]:
    """Where each queue of the topic ends."""
    offsets = []
    for queue in range(queues):
        answer = asker.ask(GetMaxOffset(topic=topic, queue_id=queue))
        offsets.append(OffsetReply.read(answer.ext).offset)
    return offsets


def await_total(asker: Asker, topic: str, total: int) -> list[int]:
    """The ends of the queues once they sum up to `total`: queues are built a little after the log."""
    deadline = time.monotonic() + CAUGHT_UP_TIMEOUT_S
    while True:
        offsets = max_offsets(asker, topic)
        if sum(offsets) == total or time.monotonic() > deadline:
            return offsets
        time.sleep(0.02)
