"""How far a master's slaves are, or how far a slave is.

A CometMQ master adds a key of its own, which Java skips: `cometmq`, with what a CometMQ slave needs to know before it
connects (`Peer`). Without it the master is a Java one.

Mirrors: HARuntimeInfo.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from cometmq.wire import fastjson
from cometmq.wire.bodies.reading import as_object
from cometmq.wire.ha import EXTENSION_VERSION

_OWN: Final = "cometmq"


@dataclass(frozen=True)
class SlaveStatus:
    """A connection, as its master sees it."""

    address: str
    acknowledged: int
    behind: int
    in_sync: bool
    sent: int
    bytes_per_second: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "addr": self.address,
            "diff": self.behind,
            "inSync": self.in_sync,
            "slaveAckOffset": self.acknowledged,
            "transferFromWhere": self.sent,
            "transferredByteInSecond": self.bytes_per_second,
        }


@dataclass(frozen=True)
class FollowerStatus:
    """A slave, as it sees itself; the defaults are those of a master, which follows nobody."""

    master_address: str | None = None
    max_offset: int = 0
    read_at_ms: int = 0
    written_at_ms: int = 0
    master_flushed_offset: int = 0
    bytes_per_second: int = 0

    def to_json(self) -> dict[str, Any]:
        address = {} if self.master_address is None else {"masterAddr": self.master_address}
        return address | {
            "lastReadTimestamp": self.read_at_ms,
            "lastWriteTimestamp": self.written_at_ms,
            "masterFlushOffset": self.master_flushed_offset,
            "maxOffset": self.max_offset,
            "transferredByteInSecond": self.bytes_per_second,
        }


@dataclass(frozen=True)
class Peer:
    """What a slave learns about its master. `extension` is 0 for a Java one, and then the others are unknown, too."""

    end: int
    extension: int = 0
    first_offset: int = 0
    flushed_offset: int = 0
    segment_size: int = 0


def encode_master_status(peer: Peer, slaves: Iterable[SlaveStatus]) -> bytes:
    slaves = list(slaves)
    own = {
        "firstOffset": peer.first_offset,
        "flushedOffset": peer.flushed_offset,
        "haExtension": EXTENSION_VERSION,
        "segmentSize": peer.segment_size,
    }
    return fastjson.dumps(
        {
            _OWN: own,
            "haClientRuntimeInfo": FollowerStatus().to_json(),
            "haConnectionInfo": [slave.to_json() for slave in slaves],
            "inSyncSlaveNums": sum(slave.in_sync for slave in slaves),
            "master": True,
            "masterCommitLogMaxOffset": peer.end,
        }
    )


def encode_slave_status(status: FollowerStatus) -> bytes:
    return fastjson.dumps(
        {
            "haClientRuntimeInfo": status.to_json(),
            "haConnectionInfo": [],
            "inSyncSlaveNums": 0,
            "master": False,
            "masterCommitLogMaxOffset": 0,
        }
    )


def decode_peer(body: bytes | memoryview) -> Peer:
    fields = as_object(fastjson.loads(body), "the status")
    own = as_object(fields.get(_OWN) or {}, _OWN)

    def number(table: dict[str, Any], key: str) -> int:
        value = table.get(key, 0)
        return value if isinstance(value, int) else 0

    return Peer(
        number(fields, "masterCommitLogMaxOffset"),
        number(own, "haExtension"),
        number(own, "firstOffset"),
        number(own, "flushedOffset"),
        number(own, "segmentSize"),
    )
