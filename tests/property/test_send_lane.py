"""The short cut of sends and the patient way: what producers send, usual or not, leaves the same files and replies.

That holds in each flush mode, and whatever becomes of those who wait: see `ENDS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, cast

import pytest
from tests.unit.broker.ha_kit import until
from tests.unit.broker.test_durability import replace_sync
from tests.unit.store.kit import HandClock

from cometmq import compiled
from cometmq.broker import app
from cometmq.broker.app import Broker, load_settings
from cometmq.broker.durability import Durability
from cometmq.net.channel import Channel, Lane
from cometmq.net.server import Server
from cometmq.wire.batch import encode_batch
from cometmq.wire.codes import ResponseCode, SerializeType
from cometmq.wire.command import Command, decode_command, encode_command
from cometmq.wire.frame import FrameDecoder

REQUESTS = 600
ASYNC_FLUSH = {"flushDiskType": "ASYNC_FLUSH"}
SYNC_FLUSH = {"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": "30000"}
TWO_BROKERS = {**ASYNC_FLUSH, "brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": "30000"}
SOON = {"syncFlushTimeout": "100", "slaveTimeout": "100", "flushIntervalCommitLog": "20"}
MARK = "__COMET_DELIVERED\x01delay:0:0:0\x02"


class Wire(asyncio.Transport):
    """A connection whose other end keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told = bytearray()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.1.2.3", 4567) if name == "peername" else default

    def write(self, data: Any) -> None:
        self.told += data

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def close(self) -> None: ...


def properties(dice: random.Random, usual_share: float = 0.8) -> str:
    """Mostly what clients send; else what they should not."""
    key = f"7F0000{dice.randrange(1 << 40):026X}"
    usual = f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02TAGS\x01{dice.choice('ABC')}\x02"
    keys = f"KEYS\x01{'order ' * dice.choice([0, 1, 30])}{dice.randrange(50)}\x02"
    usual = dice.choice([usual, keys + usual, usual + keys])
    if dice.random() < usual_share:
        return dice.choice([usual, usual, usual.rstrip("\x02")])  # clients of version 5, and of version 4
    return dice.choice(
        [
            "",
            "TAGS\x01A\x02",
            usual + "KEYS\x01a b  c\x02",
            usual + "KEYS\x01\x02",
            usual + "KEYS\x01unended",
            f"XKEYS\x01no\x02{usual}KEYS\x01yes\x02",
            usual + f"KEYS\x01{key}\x02",
            usual + "WAIT\x01false\x02",
            usual.replace("true", "false"),
            usual + "TAGS\x01twice\x02",
            usual + "DELAY\x0118\x02",
            usual + "CLUSTER\x01mine\x02",
            usual + "no property\x02",
            usual + MARK,
            usual + "motto\x01§ ü 漢\x02",
            usual + 'quote\x01"\\/\n\t\x02',
            usual + "x\x01" + "y" * dice.choice([100, 200, 32_500]) + "\x02",
            f"MY_UNIQ_KEY\x01no\x02{usual}",
            f"UNIQ_KEY\x01\x02{usual}",
            usual.replace(key, "with-a-dash"),
            usual.replace(key, "§"),
            usual.replace(key, "short"),
        ]
    )


def batch_body(dice: random.Random) -> bytes:
    usual_share = dice.choice([1, 1, 1, 0.9])
    messages = [
        (dice.choice([0, 7, -1]), dice.randbytes(dice.randrange(60)), properties(dice, usual_share).encode())
        for _ in range(dice.choice([1, 2, 5, 40]))
    ]
    body = encode_batch(messages)
    return dice.choice([body] * 12 + [b"", body[:-1], body + b"x", b"\xff" * 30, body[:19] + b"\x80" + body[20:]])


def request(dice: random.Random, opaque: int) -> bytes:
    """A frame of a send."""
    is_batch = dice.random() < 0.2
    ext = {
        "a": "producers", "b": dice.choice(["orders", "bills"]), "c": "TBW102", "d": "4", "e": str(dice.randrange(4)),
        "f": "0", "g": str(dice.randrange(1 << 42)), "h": "0", "i": properties(dice), "j": "0", "k": "false",
        "m": "true" if is_batch else "false", "n": "broker-a",
    }  # fmt: skip
    fields: dict[str, Any] = {
        "code": 320 if is_batch else 310, "extFields": ext, "flag": 0, "language": "JAVA", "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON", "version": 485,
    }  # fmt: skip
    body = batch_body(dice) if is_batch else dice.randbytes(dice.choice([1, 50, 1024]))
    separators = (",", ":")
    for _ in range(dice.choice([0, 0, 0, 1, 1, 2])):
        name, value = dice.choice(
            [
                ("e", "-1"), ("e", "99"), ("e", "x"), ("f", "4"), ("f", "1"), ("f", "128"), ("g", "-5"), ("g", "00012"),
                ("g", "9" * 19), ("g", ""), ("h", "77"), ("h", "-1"), ("j", "3"), ("l", "16"), ("b", "%RETRY%group"),
                ("b", "made" + str(dice.randrange(3))), ("b", "a b"), ("b", "SCHEDULE_TOPIC_XXXX"), ("a", "quote\""),
                ("a", "prödücers"), ("n", "\\"), ("m", "true"), ("m", "TRUE"), ("b", "t" * 130), ("z", "extra"),
            ]
        )  # fmt: skip
        ext[name] = value
    oddity = dice.random()
    if oddity < 0.02:
        del ext[dice.choice(sorted(ext))]
    elif oddity < 0.04:
        body = b""
    elif oddity < 0.06:
        separators = (", ", ": ")
    elif oddity < 0.08:
        fields["remark"] = dice.choice(["so", None, 'a "quoted" one'])
    elif oddity < 0.10:
        fields["flag"] = 1  # nobody is answered
    elif oddity < 0.12:
        fields = dict(sorted(fields.items(), reverse=True))
    elif oddity < 0.14:
        fields["extFields"] = dict(sorted(ext.items(), key=lambda _: dice.random()))
    elif oddity < 0.16:
        fields["code"] = dice.choice([10, 310, 320, 321, 3100])
    elif oddity < 0.18:
        binary = int(SerializeType.ROCKETMQ)
        return encode_command(Command(fields["code"], opaque=opaque, ext=ext, body=body, serialize=binary))
    header = json.dumps(fields, separators=separators, ensure_ascii=dice.random() < 0.5).encode()
    if oddity > 0.98:
        twice = dice.choice([(b'"g":', b'"g":"1","g":'), (b'"version":', b'"code":10,"version":')])
        header = header.replace(*twice, 1)
    return (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


def pieces(dice: random.Random, data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = dice.choice([1, 100, 5_000, 60_000])
        yield data[at : at + size]
        at += size


def files(root: Path) -> dict[str, bytes]:
    folders = ("commitlog", "consumequeue", "index")
    paths = [path for folder in folders for path in sorted((root / folder).rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


class Disk:
    """Whose syncs of the log can be held up, and can fail then."""

    def __init__(self) -> None:
        self.free = Event()
        self.fault: OSError | None = None

    def sync(self, fd: int) -> None:
        assert self.free.wait(30)
        if self.fault is not None:
            raise self.fault
        os.fdatasync(fd)

    def heal(self) -> None:
        self.free.set()

    def fail(self) -> None:
        self.fault = OSError(5, os.strerror(5))
        self.free.set()


class End(NamedTuple):
    """How it ends for those who wait, once all requests are read: what is done then, and an answer that many get."""

    settings: dict[str, str]
    then: Callable[[Disk, Durability], object]
    code: ResponseCode
    waits: bool = True  # until all are answered; else the broker is stopped while they wait


def reach_a_part(disk: Disk, durability: Durability) -> None:
    """Somewhere within the log, and within a record."""
    durability.replicated(durability._store.written_offset * 3 // 5)


ENDS = {
    "written": End(ASYNC_FLUSH, lambda disk, durability: None, ResponseCode.SUCCESS),
    "flushed": End(SYNC_FLUSH, lambda disk, durability: disk.heal(), ResponseCode.SUCCESS),
    "flushed at the stop": End(SYNC_FLUSH, lambda disk, durability: disk.heal(), ResponseCode.SUCCESS, waits=False),
    "slow disk": End(SYNC_FLUSH | SOON, lambda disk, durability: None, ResponseCode.FLUSH_DISK_TIMEOUT),
    "failed sync": End(SYNC_FLUSH, lambda disk, durability: disk.fail(), ResponseCode.SERVICE_NOT_AVAILABLE),
    "no slave": End(TWO_BROKERS | SOON, lambda disk, durability: None, ResponseCode.FLUSH_SLAVE_TIMEOUT),
    "a part at the stop": End(TWO_BROKERS, reach_a_part, ResponseCode.FLUSH_SLAVE_TIMEOUT, waits=False),
}


async def served(
    root: Path, port: int, seed: int, end: End, patched: pytest.MonkeyPatch, *, quick: bool
) -> tuple[int, int, dict[int, bytes], dict[str, bytes]]:
    """The port, how many bytes took the short cut, the replies by opaque, and the files."""
    servers: list[Server] = []
    durabilities: list[Durability] = []

    class KnownServer(Server):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            servers.append(self)

    class KnownDurability(Durability):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            durabilities.append(self)

    patched.setattr(app, "Server", KnownServer)
    patched.setattr(app, "Durability", KnownDurability)
    disk = Disk()
    replace_sync(patched, disk.sync)
    random.seed(seed)  # of unique keys that the broker makes, and queues that it chooses
    settings = {
        "storePathRootDir": str(root), "listenPort": str(port), "brokerIP1": "127.0.0.1", "haListenPort": "0",
        "mappedFileSizeCommitLog": str(1 << 18), "maxHashSlotNum": "100", "maxIndexNum": "5000",
        "brokerFastFailureEnable": "false", "maxMessageSize": "65536", "flushIntervalConsumeQueue": "60000",
        **end.settings,
    }  # fmt: skip
    broker = Broker(load_settings(settings), clock=HandClock())
    await broker.start()
    dice, wire, taken = random.Random(seed), Wire(), 0
    server = servers[0]
    lane = cast("Lane | None", server.lane)
    assert (lane is not None) == (compiled.twins is not None)

    def counting(channel: Channel, view: memoryview, at: int) -> int:
        nonlocal taken
        assert lane is not None
        left = lane(channel, view, at)
        taken += left - at
        return left

    server.lane = counting if quick and lane is not None else None
    channel = server._accept(server._on_request)
    channel.connection_made(wire)
    stream = b"".join(request(dice, opaque) for opaque in range(REQUESTS))
    for piece in pieces(dice, stream):
        channel.data_received(piece)
        if dice.random() < 0.5:
            await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not channel.closed.done(), "a frame was not understood, and the rest was not tried"
    end.then(disk, durabilities[0])
    if end.waits:
        await until(lambda: not durabilities[0].waiting)
    disk.heal()
    await broker.stop()
    assert not durabilities[0].waiting
    replies = {decode_command(frame).opaque: bytes(frame) for frame in FrameDecoder().feed(bytes(wire.told))}
    return broker.port, taken, replies, files(root)


@pytest.mark.parametrize("end", [*ENDS.values(), ENDS["written"]], ids=[*ENDS, "written again"])
async def test_both_ways_come_to_the_same(end: End, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    root = tmp_path / "store"
    port, taken, replies, stored = await served(root, 0, seed, end, monkeypatch, quick=True)
    root.rename(tmp_path / "quick")
    _, _, patient_replies, patiently_stored = await served(root, port, seed, end, monkeypatch, quick=False)
    assert taken > 100_000 or compiled.twins is None, "the short cut was hardly ever taken"
    assert len(replies) > REQUESTS * 0.9
    codes = Counter(decode_command(memoryview(reply)).code for reply in replies.values())
    assert codes[end.code] > REQUESTS // 10, codes
    assert end.code == ResponseCode.SUCCESS or codes[ResponseCode.SUCCESS] < REQUESTS * 2 // 3, codes
    assert replies == patient_replies
    assert stored.keys() == patiently_stored.keys()
    assert [name for name in stored if stored[name] != patiently_stored[name]] == []
