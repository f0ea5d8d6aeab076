"""A connection without an event loop, against peers that answer late, in another order, wrongly or not at all."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from cometmq.errors import PeerRefused, PeerTimeout, PeerUnreachable, ProtocolError
from cometmq.net.blocking_channel import UNDER_WAY_MAX, BlockingChannel
from cometmq.wire.codes import FLAG_RESPONSE, ResponseCode
from cometmq.wire.command import Command, decode_command, encode_command
from cometmq.wire.requests.consume import GetMaxOffset

Answerer = Callable[[socket.socket, list[Command]], None]


@pytest.fixture
def serve() -> Iterator[Callable[[int, Answerer], str]]:
    """`serve(2, answerer)`: a peer that reads two requests, lets `answerer` write, and closes."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(count: int, answerer: Answerer) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            peer, _ = listener.accept()
            with peer, peer.makefile("rb") as file:
                requests = []
                for _ in range(count):
                    (size,) = struct.unpack(">i", file.read(4))
                    requests.append(decode_command(file.read(size)))
                answerer(peer, requests)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for thread in threads:  # they have accepted by then: before, a closed listener would fail them
        thread.join(10)
    for listener in listeners:
        listener.close()


def answer(request: Command, code: int = 0, body: bytes = b"") -> bytes:
    return encode_command(Command(code, opaque=request.opaque, flag=FLAG_RESPONSE, body=body, remark="so it is"))


def test_answers_are_found_in_any_order(serve: Callable[[int, Answerer], str]) -> None:
    def backwards(peer: socket.socket, requests: list[Command]) -> None:
        stray = Command(1, opaque=99)  # a request of the server, and an answer that nobody waits for
        peer.sendall(encode_command(stray) + answer(stray))
        for request in reversed(requests):
            for byte in answer(request, body=b"%d" % request.opaque):
                peer.sendall(bytes([byte]))

    channel = BlockingChannel(serve(3, backwards))
    first, second, third = channel.ask(*[GetMaxOffset("t", number) for number in range(3)])
    channel.forget(third)
    assert bytes(channel.answer(first).body) == b"%d" % first
    assert bytes(channel.answer(second).body) == b"%d" % second
    with pytest.raises(PeerUnreachable):  # it was not kept, and no more comes
        channel.answer(third)
    assert not channel.is_open


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        (lambda request: b"", PeerUnreachable),
        (lambda request: answer(request)[:-1], PeerUnreachable),
        (lambda request: b"\xff\xff\xff\xff", ProtocolError),
        (lambda request: b"\x7f\xff\xff\xff", ProtocolError),
        (lambda request: b"\0\0\0\x08\0\0\0\x04nope", ProtocolError),
        (lambda request: b"\0\0\0\x04\x00\xff\xff\xff", ProtocolError),
        (lambda request: answer(request, int(ResponseCode.GO_AWAY)), PeerUnreachable),
    ],
    ids=["nothing", "cut", "negative", "huge", "no header", "header too long", "go away"],
)
def test_a_wrong_answer_ends_the_connection(
    serve: Callable[[int, Answerer], str], written: Callable[[Command], bytes], fault: type[Exception]
) -> None:
    channel = BlockingChannel(serve(1, lambda peer, requests: peer.sendall(written(requests[0]))))
    with pytest.raises(fault):
        channel.call(GetMaxOffset("t", 0))
    assert not channel.is_open
    with pytest.raises(PeerUnreachable, match="is closed"):
        channel.call(GetMaxOffset("t", 0))


def test_a_refusal_leaves_it_open(serve: Callable[[int, Answerer], str]) -> None:
    channel = BlockingChannel(serve(1, lambda peer, requests: peer.sendall(answer(requests[0], 17))))
    with pytest.raises(PeerRefused, match="so it is"):
        channel.call(GetMaxOffset("t", 0))
    assert channel.is_open
    channel.close()


def test_a_silent_peer_is_left_in_time(serve: Callable[[int, Answerer], str]) -> None:
    is_over = threading.Event()
    channel = BlockingChannel(serve(1, lambda peer, requests: bool(is_over.wait(10)) and None))  # type: ignore[func-returns-value]
    with pytest.raises(PeerTimeout, match="within 50 ms"):
        channel.call(GetMaxOffset("t", 0), timeout_ms=50)
    is_over.set()
    assert not channel.is_open


def test_there_is_a_maximum(serve: Callable[[int, Answerer], str]) -> None:
    channel = BlockingChannel(serve(0, lambda peer, requests: None))
    with pytest.raises(ProtocolError, match="under way"):
        channel.ask(*[GetMaxOffset("t", 0)] * (UNDER_WAY_MAX + 1))
    channel.close()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "127.0.0.1:x", "x" * 300 + ":80"])
def test_no_connection_is_told(address: str) -> None:
    with pytest.raises(PeerUnreachable):
        BlockingChannel(address, timeout_ms=500)
