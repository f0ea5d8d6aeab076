"""The master's end: every slave that connects is sent the log from where it asks to go on.

    first report    0: from the beginning of the last file, as Java's slaves expect; CometMQ's may ask for everything.
                    Else from there, if the log has it. A slave that is ahead of us, or behind our first file, is told
                    off: its log cannot become ours, and what to do stands in the log
    then            bytes as soon as they may be seen, in transfers of `haTransferBatchSize`; a heartbeat after
                    `haSendHeartbeatInterval` of silence. A slave silent for `haHousekeepingInterval` is dropped

A slave that comes again may leave an older connection behind, which is silent and is closed soon. One that goes on
speaking is another slave with the same brokerId: both are served, and that is warned of.

Under SYNC_FLUSH only what is on our disk is sent, so no crash of ours leaves a slave with bytes that we lost.
What waits in a connection is bounded (`net.stream`); what is old is read from disk by a thread, never by the loop.

Mirrors: DefaultHAService, DefaultHAConnection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from cometmq.broker.durability import Durability
from cometmq.broker.ha.config import HaConfig
from cometmq.broker.ha.replicas import Replicas
from cometmq.errors import ProtocolError, StoreError
from cometmq.net.stream import Stream, listen
from cometmq.store.engine import Store
from cometmq.wire.bodies.ha_status import SlaveStatus
from cometmq.wire.ha import Hello, ReportDecoder, encode_transfer_head

log = logging.getLogger("cometmq.ha")

SLAVES_MAX: Final = 64
TICK_S: Final = 0.5
PUSH_MAX: Final = 1 << 20  # bytes for one slave before the others have their turn
ALIVE_S: Final = 1.0  # who speaks twice, so long apart, lives: what a dead connection left in the network comes at once


class Link:
    """The connection of one slave."""

    def __init__(self, side: MasterSide, stream: Stream) -> None:
        self._side = side
        self._store = side.store
        self._batch_size = side.config.ha_transfer_batch_size
        self.stream = stream
        self.replica = side.replicas.join(stream.host)
        self._decoder = ReportDecoder()
        self._from_first = False
        self._loop = asyncio.get_running_loop()
        self.next: int | None = None  # what is sent next; None until the slave has asked
        self._loading = False
        self._push_waits = False  # another turn of the loop will go on
        self.read_at = self.written_at = self._loop.time()
        self._successor: Link | None = None  # it came later and says the same brokerId
        self._spoke_beside_at = 0.0
        stream.on_data, stream.on_writable, stream.on_close = self._heard, self.push, self._gone

    # --- listening

    def _heard(self, data: bytes) -> None:
        self.read_at = self._loop.time()
        if self._successor is not None:
            self._speak_beside(self._successor)
        try:
            said = self._decoder.feed(data)
        except ProtocolError as fault:
            self.drop(str(fault))
            return
        for word in said:
            if isinstance(word, Hello):
                self._from_first = word.from_first
                self._side.name(self, word.broker_id)
            elif self.next is None:
                self._ask(word)
            else:
                self.replica.acknowledged = min(word, self.next)
        if self.next is not None:
            self._side.advance()

    def succeeded_by(self, successor: Link) -> None:
        """Another connection says that it is our slave's."""
        self._successor, self._spoke_beside_at = successor, 0.0

    def _speak_beside(self, other: Link) -> None:
        self._spoke_beside_at = self._spoke_beside_at or self.read_at
        if self.read_at - self._spoke_beside_at > ALIVE_S and not other.stream.closed.done():
            self._successor = None
            twins = f"two slaves say brokerId={self.replica.broker_id}: {self.stream.peer} and {other.stream.peer}"
            self._side.complain(self.stream.host, f"{twins}. Give each its own: consumers find only one of them now")

    def _ask(self, offset: int) -> None:
        """The first report: where the slave is."""
        end, first = self._store.written_offset, self._store.min_physical_offset
        if offset == 0:
            self.next = first if self._from_first else end - end % self._store.config.mapped_file_size_commit_log
        elif offset > end or self._side.was_ahead(self.stream.host, offset):
            self._side.remember_ahead(self.stream.host, offset)
            self.drop(
                f"its log reaches to {offset}, ours did not when it came (now {end}): it holds what we do not have. If "
                "this master lost messages, make that broker the master; else empty its store folder and start it again"
            )
            return
        elif offset < first:
            self.drop(
                f"it asks for offset {offset}, and our log begins at {first}: empty its store folder and start it again"
            )
            return
        else:
            self.next = offset
        self.replica.acknowledged = offset
        self.replica.sent = self.next
        log.info("slave %s: is at offset %d, goes on at %d", self.stream.peer, offset, self.next)
        self.push()

    # --- sending

    def push(self) -> None:
        """Send what may be seen, as long as the slave takes it."""
        pushed = 0
        while self.next is not None and self.stream.is_writable and not self._loading:
            if self.next < self._store.min_physical_offset:
                self.drop(
                    f"it is at offset {self.next}, and retention took our log up to there: empty its store folder"
                )
                return
            data = self._store.raw(self.next, PUSH_MAX)
            if not data:
                return
            if not self._store.is_recent(self.next):
                self._loading = True
                ranges = [(self.next, len(data))]
                self._loop.run_in_executor(self._side.thread, self._store.load, ranges).add_done_callback(self._loaded)
                return
            self._send(data)
            pushed += len(data)
            if pushed >= PUSH_MAX:
                if not self._push_waits:
                    self._push_waits = True
                    self._loop.call_soon(self._push_on)
                return

    def _push_on(self) -> None:
        self._push_waits = False
        self.push()

    def _loaded(self, done: asyncio.Future[list[bytes]]) -> None:
        self._loading = False
        if done.cancelled() or self.stream.closed.done():
            return
        if (fault := done.exception()) is not None:
            self.drop(f"our log cannot be read: {fault}")
            return
        for data in done.result():
            self._send(memoryview(data))
        self.push()

    def _send(self, data: memoryview) -> None:
        pieces: list[bytes | memoryview] = []
        at = self.next or 0
        for start in range(0, len(data), self._batch_size):
            part = data[start : start + self._batch_size]
            pieces += (encode_transfer_head(at, len(part)), part)
            at += len(part)
        self.stream.send(pieces)
        self.next = self.replica.sent = at
        self.written_at = self._loop.time()

    def tick(self, now: float) -> None:
        """A heartbeat if we were silent, the end if the slave was."""
        config = self._side.config
        if self._successor is not None and (now - self.read_at) * 1000 > 2 * config.ha_send_heartbeat_interval:
            self.stream.close()
        elif (now - self.read_at) * 1000 > config.ha_housekeeping_interval:
            self.drop(f"it was silent for {now - self.read_at:.0f} s")
        elif self.next is not None and (now - self.written_at) * 1000 > config.ha_send_heartbeat_interval:
            if self.stream.is_writable and not self._loading:
                self.stream.send([encode_transfer_head(self.next, 0)])
                self.written_at = now
            self.push()

    def drop(self, why: str) -> None:
        self._side.complain(self.stream.host, f"slave {self.stream.peer}: {why}")
        self.stream.close()

    def _gone(self) -> None:
        self._side.gone(self)


class MasterSide:
    """Serves the HA port."""

    def __init__(
        self, config: HaConfig, store: Store, durability: Durability, *, waits: bool, acting: bool = False
    ) -> None:
        self.config = config
        self.store = store
        self.replicas = Replicas(config, acting=acting)
        self.thread = ThreadPoolExecutor(1, "cometmq-ha-read")
        self.links: set[Link] = set()
        self._durability = durability
        self._waits = waits
        self._complaints: dict[str, str] = {}  # by host, at most SLAVES_MAX
        self._ahead: dict[tuple[str, int], None] = {}  # hosts and offsets that are not ours, at most SLAVES_MAX
        self._server: asyncio.Server | None = None
        self._tick_handle: asyncio.TimerHandle | None = None
        self._has_enough: bool | None = None  # slaves; None until they have been here
        if waits:
            durability.wait_for_slaves(config.slave_timeout)
            if self.replicas.least > 1:
                durability.too_few_replicas = lambda: self.replicas.too_few(store.written_offset)
        durability.on_confirmed.append(self._push_all)

    async def listen(self, sock: socket.socket) -> None:
        self._server = await listen(sock, self._accept)
        self._tick()

    def statuses(self) -> list[SlaveStatus]:
        """Every slave, for those who ask."""
        end, gap = self.store.written_offset, self.config.ha_max_gap_not_in_sync
        return [
            SlaveStatus(link.stream.peer, at, end - at, end - at < gap, -1 if link.next is None else link.next)
            for link in self.links
            for at in [link.replica.acknowledged]
        ]

    def _accept(self, stream: Stream) -> None:
        if len(self.links) >= SLAVES_MAX:
            self.complain(stream.host, f"slave {stream.peer}: {SLAVES_MAX} are connected, the most allowed")
            stream.close()
            return
        self.links.add(Link(self, stream))
        self.advance()

    def name(self, link: Link, broker_id: int) -> None:
        """A slave says who it is."""
        older = self.replicas.name(link.replica, broker_id)
        for other in self.links:
            if other.replica in older:
                other.succeeded_by(link)

    def advance(self) -> None:
        """Somebody came, went or has more: tell those who wait."""
        if self._waits:
            self._durability.replicated(self.replicas.replicated(self.store.written_offset))
            self._count()

    def _count(self) -> None:
        """Say so when the last slave that is needed goes, and when it is back."""
        replicas, here = self.replicas, self.replicas.following
        has_enough, had_enough = 1 + here >= replicas.floor, self._has_enough
        if has_enough == had_enough or not (has_enough or had_enough):
            return
        self._has_enough = has_enough
        if not has_enough:
            refused = "refused" if 1 + here < replicas.least else "answered FLUSH_SLAVE_TIMEOUT"
            log.warning(
                "%d slave(s) follow, and an acknowledgement needs %d: sends are %s until one is back",
                here, replicas.floor - 1, refused,
            )  # fmt: skip
        elif had_enough is not None:
            log.warning("%d slave(s) follow again: sends are acknowledged as before", here)

    def gone(self, link: Link) -> None:
        if link in self.links:
            self.links.discard(link)
            self.replicas.leave(link.replica)
            self.advance()

    def _push_all(self) -> None:
        for link in self.links:
            link.push()
        if self._waits:
            self.advance()  # with enableAutoInSyncReplicas a slave may have fallen too far behind

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        for link in list(self.links):
            link.tick(loop.time())
        self._tick_handle = loop.call_later(TICK_S, self._tick)

    # --- what not to forget

    def complain(self, host: str, why: str) -> None:
        """Once for each trouble of a host: a slave comes again every few seconds."""
        if self._complaints.get(host) != why:
            if len(self._complaints) >= SLAVES_MAX:
                self._complaints.clear()
            self._complaints[host] = why
            log.warning("%s", why)

    def was_ahead(self, host: str, offset: int) -> bool:
        """Our log may have grown past it since: what it holds there is not what we hold."""
        return (host, offset) in self._ahead

    def remember_ahead(self, host: str, offset: int) -> None:
        if len(self._ahead) >= SLAVES_MAX:
            self._ahead.pop(next(iter(self._ahead)))
        self._ahead[host, offset] = None

    async def close(self) -> None:
        if self._tick_handle is not None:
            self._tick_handle.cancel()
        if self._server is not None:
            self._server.close()
        if self._waits and self.links:
            with contextlib.suppress(TimeoutError, StoreError):  # the last sends may still be acknowledged
                async with asyncio.timeout(self.config.slave_timeout / 1000):
                    await self._durability.safe(self.store.written_offset)
        self._durability.wait_for_no_slave()
        self._waits = False
        for link in list(self.links):
            link.stream.close()
        if self._server is not None:
            await self._server.wait_closed()
        self.thread.shutdown(wait=False, cancel_futures=True)
