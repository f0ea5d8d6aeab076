"""A server over loopback sockets: answers, order, limits, and peers that misbehave."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import tracemalloc

import pytest

from cometmq.errors import ConfigError
from cometmq.net import channel as channel_module
from cometmq.net import routes as routes_module
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.net.routes import Routes, handles
from cometmq.net.server import SLOWEST_BYTES_S, bind, bind_group
from cometmq.wire.codes import FLAG_ONE_WAY, FRAME_SIZE_MAX, ResponseCode, SerializeType
from cometmq.wire.command import Command, encode_command
from cometmq.wire.requests.consume import GetMaxOffset, GetMinOffset, UpdateConsumerOffset

from .support import UNKNOWN_CODE, Answers, Raw, run, serving, until


def ask(topic: str = "T", queue_id: int = 0, opaque: int = 0, form: SerializeType = SerializeType.JSON) -> bytes:
    command = GetMaxOffset(topic, queue_id).command()
    command.opaque, command.serialize = opaque, form
    return encode_command(command)


# --- answers


def test_pipelined_requests_are_answered_in_order() -> None:
    async def test() -> None:
        async with serving() as running:
            peer = await running.raw()
            peer.writer.write(b"".join(ask(queue_id=n, opaque=n) for n in range(1000)))
            replies = await peer.commands(1000)
            assert [reply.opaque for reply in replies] == list(range(1000))
            assert [reply.ext["offset"] for reply in replies] == [str(n) for n in range(1000)]
            assert all(reply.is_response for reply in replies)

    run(test())


def test_replies_of_one_turn_leave_together(monkeypatch: pytest.MonkeyPatch) -> None:
    drains = []
    drain = Channel.flush
    monkeypatch.setattr(Channel, "flush", lambda self: (drains.append(len(self._out)), drain(self))[1])

    async def test() -> None:
        async with serving() as running:
            peer = await running.raw()
            peer.writer.write(b"".join(ask(opaque=n) for n in range(50)))
            await peer.commands(50)

    run(test())
    assert sum(drains) == 50
    assert len(drains) <= 5


@pytest.mark.parametrize("form", list(SerializeType))
def test_reply_takes_the_form_of_its_request(form: SerializeType) -> None:
    async def test() -> None:
        async with serving() as running:
            peer = await running.raw()
            peer.writer.write(ask(form=form) + ask("refused", form=form))
            assert [reply.serialize for reply in await peer.commands(2)] == [form, form]

    run(test())


def test_byte_by_byte() -> None:
    async def test() -> None:
        async with serving() as running:
            peer = await running.raw()
            for byte in ask(queue_id=5):
                peer.writer.write(bytes([byte]))
                await peer.writer.drain()
                await asyncio.sleep(0)
            (reply,) = await peer.commands(1)
            assert reply.ext == {"offset": "5"}

    run(test())


def test_unknown_code() -> None:
    async def test() -> None:
        async with serving() as running:
            channel = await connect(running.address)
            answer = await channel.exchange(Command(UNKNOWN_CODE))
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert answer.remark == f" request type {UNKNOWN_CODE} not supported"
            channel.close()

    run(test())


@pytest.mark.parametrize(
    ("request_", "code", "remark"),
    [
        (GetMaxOffset("refused", 0), ResponseCode.TOPIC_NOT_EXIST, "no such topic"),
        (GetMinOffset("refused", 0), ResponseCode.TOPIC_NOT_EXIST, "no such topic"),
        (GetMaxOffset("broken", 0), ResponseCode.SYSTEM_ERROR, "ZeroDivisionError: oops"),
    ],
)
def test_what_a_handler_raises_becomes_a_code(
    request_: GetMaxOffset, code: int, remark: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with serving() as running:
            channel = await connect(running.address)
            answer = await channel.exchange(request_.command())
            assert (answer.code, answer.remark) == (code, remark)
            assert (await channel.exchange(GetMaxOffset("T", 3).command())).ext == {"offset": "3"}
            channel.close()

    with caplog.at_level(logging.CRITICAL, "cometmq.net"):
        run(test())


def test_header_that_does_not_parse() -> None:
    async def test() -> None:
        async with serving() as running:
            channel = await connect(running.address)
            answer = await channel.exchange(Command(GetMaxOffset.code, ext={"topic": "T", "queueId": "x"}))
            assert (answer.code, answer.remark) == (1, "the custom field <queueId> cannot be 'x'")
            channel.close()

    run(test())


def test_async_and_late_handlers() -> None:
    async def test() -> None:
        async with serving() as running:
            channel = await connect(running.address)
            assert (await channel.call(GetMinOffset("T", 4))).ext == {"offset": "4"}
            assert (await channel.call(GetMaxOffset("later", 4))).ext == {"offset": "7"}
            assert (await channel.call(UpdateConsumerOffset("T"))).ext == {}
            channel.close()

    run(test())


def test_body_in_pieces() -> None:
    async def test() -> None:
        async with serving() as running:
            channel = await connect(running.address)
            answer = await channel.call(GetMaxOffset("large", 1_000_001))
            assert bytes(answer.body) == b"x" * 500_000 + b"y" * 500_001
            channel.close()

    run(test())


def test_one_way_requests_are_not_answered() -> None:
    async def test() -> None:
        async with serving() as running:
            channel = await connect(running.address)
            for topic in ("T", "later", "refused"):
                channel.notify(GetMaxOffset(topic, 0))
            peer = await running.raw()
            silent = Command(UNKNOWN_CODE, opaque=1, flag=FLAG_ONE_WAY)
            peer.writer.write(encode_command(silent) + ask(opaque=2))
            assert [reply.opaque for reply in await peer.commands(1)] == [2]
            await until(lambda: len(running.answers.seen) == 4)
            channel.close()

    run(test())


def test_two_handlers_of_one_request() -> None:
    routes = Routes()
    routes.add(Answers())
    assert GetMaxOffset.code in routes.codes

    class Second:
        @handles(GetMaxOffset)
        def again(self, *_: object) -> None: ...

    with pytest.raises(ValueError, match="two handlers"):
        routes.add(Second())


# --- peers that misbehave


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\0\0\0\0",
        b"\0\0\0\x04\0\xff\xff\xff",
        b"\0\0\0\x06\x02\0\0\x02{}",
        b"\0\0\0\x06\0\0\0\x02{x",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["minus one", "two gigabytes", "empty", "header over frame", "form 2", "not JSON", "HTTP"],
)
def test_hostile_frame_closes(data: bytes) -> None:
    async def test() -> None:
        async with serving() as running:
            good, bad = await running.raw(), await running.raw()
            bad.writer.write(ask(opaque=9) + data)
            assert len(await bad.closed()) > 0  # what came before it was sound and is answered
            good.writer.write(ask(opaque=1))
            assert len(await good.commands(1)) == 1
            assert len(running.server.channels) <= 1

    run(test())


def test_peer_that_never_reads_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "CLOSE_GRACE_S", 0.05)

    async def test() -> None:
        async with serving() as running:
            sock = socket.create_connection(("127.0.0.1", running.port))
            sock.setblocking(False)
            await until(lambda: running.server.channels)
            (channel,) = running.server.channels
            loop = asyncio.get_running_loop()
            request = ask("large", 100_000) * 10
            flood = loop.create_task(_flood(loop, sock, request * 100_000))
            await until(lambda: _stuck(channel))
            seen = len(running.answers.seen)
            await asyncio.sleep(0.1)
            assert len(running.answers.seen) == seen  # it is not read from any more
            assert channel._transport is not None
            assert channel._transport.get_write_buffer_size() <= 100_200 * seen
            channel.close("enough")
            transport = channel._transport
            await until(lambda: transport.get_write_buffer_size() == 0)  # dropped, though the peer never read
            flood.cancel()
            await asyncio.gather(flood, return_exceptions=True)
            sock.close()

    run(test())


async def _flood(loop: asyncio.AbstractEventLoop, sock: socket.socket, data: bytes) -> None:
    await loop.sock_sendall(sock, data)


def _stuck(channel: Channel) -> bool:
    return channel._transport is not None and not channel._transport.is_reading()


def test_idle_connection_is_closed() -> None:
    async def test() -> None:
        async with serving(idle_s=0.1) as running:
            peer = await running.raw()
            assert await peer.closed() == b""
            assert not running.server.channels

    run(test())


def test_half_a_frame_is_closed_before_an_idle_connection() -> None:
    async def test() -> None:
        async with serving(idle_s=60, unfinished_s=0.1) as running:
            idle, half = await running.raw(), await running.raw()
            half.writer.write(ask()[:-1])
            assert await half.closed() == b""
            idle.writer.write(ask())
            assert len(await idle.commands(1)) == 1

    run(test())


def test_a_frame_that_trickles_in_is_closed() -> None:
    async def test() -> None:
        async with serving(idle_s=60, unfinished_s=0.1) as running:
            peer = await running.raw()
            trickling = asyncio.create_task(_trickle(peer, b"\0\0\x04\0" + bytes(1_000)))
            await peer.closed()
            await trickling
            assert not running.server.channels

    run(test())


async def _trickle(peer: Raw, data: bytes) -> None:
    """Never silent for long, and never done."""
    for byte in data:
        if peer.reader.at_eof() or peer.writer.is_closing():
            return
        peer.writer.write(bytes([byte]))
        await asyncio.sleep(0.01)


def test_a_large_frame_may_take_its_time_and_so_may_many() -> None:
    async def test() -> None:
        async with serving(idle_s=60, unfinished_s=0.1) as running:
            loop = asyncio.get_running_loop()
            large, many = await running.raw(), await running.raw()
            data = encode_command(GetMaxOffset("t", 1).command(bytes(100_000)))
            assert len(data) / SLOWEST_BYTES_S > 2
            began, half = loop.time(), len(ask()) // 2
            many.writer.write(ask()[:half])
            for at in range(0, len(data), 2_000):
                large.writer.write(data[at : at + 2_000])
                many.writer.write(ask()[half:] + ask()[:half])  # there is always an unfinished one, each time another
                await asyncio.sleep(0.01)
            assert loop.time() - began > 0.4
            assert len(await large.commands(1)) == 1
            await many.commands(len(data) // 2_000)

    run(test())


def test_unfinished_frames_of_many_connections_have_a_maximum(caplog: pytest.LogCaptureFixture) -> None:
    most_of_a_frame = struct.pack(">i", FRAME_SIZE_MAX - 4) + bytes(15 << 20)
    count, bytes_max = 20, 40 << 20

    async def test() -> None:
        async with serving(unfinished_bytes_max=bytes_max) as running:
            loop, server = asyncio.get_running_loop(), running.server
            modest = await running.raw()
            half = len(ask()) // 2
            modest.writer.write(ask()[:half])
            hogs = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(count)]
            tracemalloc.start()
            try:
                for hog in hogs:
                    hog.setblocking(False)
                sent = await asyncio.gather(
                    *(loop.sock_sendall(hog, most_of_a_frame) for hog in hogs), return_exceptions=True
                )
                await until(lambda: len(server.channels) <= 1 + bytes_max // len(most_of_a_frame))
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
                for hog in hogs:
                    hog.close()
            assert peak < 1.5 * bytes_max  # and not the 300 MiB that were sent: buffers grow by more than they need
            assert sum(isinstance(end, ConnectionError) for end in sent) >= count // 2
            modest.writer.write(ask()[half:])
            assert len(await modest.commands(1)) == 1

    with caplog.at_level(logging.WARNING, "cometmq.net"):
        run(test())
    told = [record.getMessage() for record in caplog.records if "unfinished frames" in record.getMessage()]
    assert len(told) >= count - bytes_max // len(most_of_a_frame)
    assert f"of the {FRAME_SIZE_MAX} bytes of a frame" in told[0]
    assert told[0].endswith(f"of the {bytes_max} allowed")


def test_frames_that_were_finished_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving(unfinished_bytes_max=1 << 20) as running:
            peer = await running.raw()
            data = encode_command(GetMaxOffset("t", 1).command(bytes(700_000)))
            for _ in range(5):
                peer.writer.write(data)
                assert len(await peer.commands(1)) == 1

    with caplog.at_level(logging.WARNING, "cometmq.net"):
        run(test())
    assert not caplog.records


@pytest.mark.parametrize(("limit", "most"), [("UNDER_WAY_MAX", 3), ("UNDER_WAY_BYTES_MAX", 3_500)])
def test_slow_handlers_have_a_maximum(monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    monkeypatch.setattr(routes_module, limit, most)

    async def test() -> None:
        async with serving() as running:
            peer = await running.raw()
            slow = [encode_command(GetMinOffset("t", at).command(bytes(1_000))) for at in range(5)]
            peer.writer.write(b"".join(slow) + ask())
            codes = sorted(answer.code for answer in await peer.commands(6))
            busy = int(ResponseCode.SYSTEM_BUSY)
            assert codes == [0, 0, 0, 0, busy, busy]  # three slow ones and the quick one
            peer.writer.write(slow[0])
            assert [answer.code for answer in await peer.commands(1)] == [0]  # they are done: there is room again

    run(test())


def test_too_many_connections() -> None:
    async def test() -> None:
        async with serving(connections_max=2) as running:
            first, _ = await running.raw(), await running.raw()
            await until(lambda: len(running.server.channels) == 2)
            third = await running.raw()
            assert await third.closed() == b""
            first.writer.close()
            await until(lambda: len(running.server.channels) == 1)
            fourth = await running.raw()
            fourth.writer.write(ask())
            assert len(await fourth.commands(1)) == 1

    run(test())


def test_open_and_close_are_told() -> None:
    told: list[str] = []

    async def test() -> None:
        def opened(channel: Channel) -> None:
            told.append(f"open {channel.peer}")

        def closed(channel: Channel) -> None:
            told.append(f"close {channel.peer}")

        async with serving(opened, closed) as running:
            peer = await running.raw()
            name = "{}:{}".format(*peer.writer.get_extra_info("sockname"))
            peer.writer.close()
            await until(lambda: len(told) == 2)
            assert told == [f"open {name}", f"close {name}"]

    run(test())


def test_server_closes_its_connections() -> None:
    async def test() -> None:
        async with serving() as running:
            peer = await running.raw()
            await until(lambda: running.server.channels)
        assert await peer.closed() == b""

    run(test())


# --- sockets


def test_taken_port_is_explained() -> None:
    with bind("127.0.0.1", 0) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}.*another"):
            bind("127.0.0.1", port)


@pytest.mark.parametrize("port", [-1, 65_536, 100_000])
def test_port_out_of_range(port: int) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on .*a port is a number from 0 to 65535"):
        bind("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "hint"),
    [("203.0.113.9", "It is no address of this machine"), ("no.such.host.invalid", "Give an address of this machine")],
)
def test_an_address_that_is_not_ours_is_explained(host: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        bind(host, 0)


def test_group_of_free_ports() -> None:
    sockets = bind_group("127.0.0.1", 0, (0, -2, 1))
    base, fast, ha = (sock.getsockname()[1] for sock in sockets)
    assert (fast, ha) == (base - 2, base + 1)
    for sock in sockets:
        sock.close()


def test_group_is_all_or_nothing() -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError):
            bind_group("127.0.0.1", port - 1, (0, 1))
        bind("127.0.0.1", port - 1).close()  # given back


class Stub(asyncio.Transport):
    """A transport of the address ::ffff:10.1.2.3."""

    def __init__(self) -> None:
        super().__init__({"peername": ("::ffff:10.1.2.3", 99, 0, 0)})

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


def test_who_was_accepted_before_the_server_closed_is_closed_too() -> None:
    async def test() -> None:
        async with serving() as running:
            late = running.server._accept(lambda *_: None)
            await running.server.close()
            late.connection_made(Stub())
            assert late.closed.done()
            assert late not in running.server.channels

    run(test())


def test_version_4_over_a_socket_of_version_6_is_version_4() -> None:
    async def test() -> None:
        channel = Channel(lambda _channel, _command: None)
        channel.connection_made(Stub())
        assert channel.peer == "10.1.2.3:99"
        assert channel.peer_host == bytes((10, 1, 2, 3, 0, 0, 0, 99))

    run(test())
