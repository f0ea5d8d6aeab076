"""The slave's end: it asks its master for the log from where its own ends, and stores what comes as it is.

Before it opens the stream it asks the master, over the ordinary port, what it is (`Peer`), and for the last message
that both must have. A log that is not the beginning of the master's is never gone on with: the slave says why, and
tries again, for an operator may change the master. Until it follows, nothing is taken from that master or given to it
(`source`): not its tables either.

    report    what is as safe here as the flush mode promises: under SYNC_FLUSH, what is on the disk. The first one
              asks; then one for each batch that has become safe, and one each `haSendHeartbeatInterval`
    end       a wrong offset, a length that cannot be, bytes that are no message, `haHousekeepingInterval` of silence.
              The stream is closed, nothing of that transfer is kept, and the slave comes again

An empty slave of a CometMQ master asks for the whole log. A Java master sends the last file only; that is warned of.
Bounds: one transfer, and `UNSAFE_MAX` bytes that are taken and not safe; then the master has to wait.

Mirrors: DefaultHAClient.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Final

from cometmq.broker.durability import Durability
from cometmq.broker.ha.config import HaConfig
from cometmq.clock import Clock
from cometmq.errors import CometError, PeerRefused, PeerUnreachable, StoreError
from cometmq.net.pool import Pool
from cometmq.net.stream import Stream, connect
from cometmq.store.engine import Store
from cometmq.store.following import FollowedLog
from cometmq.wire.bodies.ha_status import FollowerStatus, Peer, decode_peer
from cometmq.wire.ha import Hello, TransferDecoder, encode_hello, encode_report
from cometmq.wire.requests.ha import GetBrokerHaStatus
from cometmq.wire.requests.query import ViewMessage

log = logging.getLogger("cometmq.ha")

AGAIN_S: Final = 2.0
CONNECT_S: Final = 3.0
ASK_MS: Final = 3_000
TICK_S: Final = 0.5
UNSAFE_MAX: Final = 32 * 1024 * 1024


class SlaveSide:
    """Follows one master until closed."""

    def __init__(
        self,
        config: HaConfig,
        broker_id: int,
        store: Store,
        durability: Durability,
        followed: FollowedLog,
        pool: Pool,
        clock: Clock,
        *,
        again_s: float = AGAIN_S,
    ) -> None:
        self._config = config
        self._broker_id = broker_id
        self._store = store
        self._durability = durability
        self._followed = followed
        self._pool = pool
        self._clock = clock
        self._again_s = again_s
        self._loop = asyncio.get_running_loop()
        self._ha_address = config.ha_master_address
        self.master_address: str | None = None  # the ordinary one
        self.source: str | None = None  # the same while our log is known to be the beginning of that master's
        self._greeted = asyncio.Event()  # the last greeting has been answered, or failed
        self._answered_at = -math.inf
        self.before_connect: Callable[[], Awaitable[None]] | None = None
        self.on_connect: list[Callable[[], None]] = []
        self._stream: Stream | None = None
        self._decoder = TransferDecoder()
        self._fault: CometError | None = None
        self._safe = followed.end
        self._changed = asyncio.Event()
        self._complaint = self._notice = ""
        self._read_at = self._written_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._loop.create_task(self._run(), name="following the master")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def told(self, ha_address: str | None, master_address: str | None) -> None:
        """A name server says who the master is; where `haMasterAddress` is set, it is not asked about the stream."""
        if not self._config.ha_master_address and ha_address and ha_address != self._ha_address:
            log.info("the master's HA address is %s", ha_address)
            self._ha_address = ha_address
            self._changed.set()
        if master_address and master_address != self.master_address:
            log.info("the master is %s", master_address)
            self.master_address = master_address
            self._changed.set()

    def master_finder(self, register: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Asks the name servers more often than usual while the master is not known."""

        async def find() -> None:
            if self._ha_address is None or self.master_address is None:
                await register()

        return find

    @property
    def connected(self) -> bool:
        return self._stream is not None

    def hears(self, within_s: float) -> bool:
        """Whether anything came from the master within this time, or within two heartbeats if that is longer."""
        heard_at = self._answered_at if self._stream is None else max(self._answered_at, self._read_at)
        within_s = max(within_s, 2 * self._config.ha_send_heartbeat_interval / 1000)
        return self._loop.time() - heard_at <= within_s

    async def settled_source(self) -> str | None:
        """`source`, after a greeting that is due."""
        await self._greeted.wait()
        return self.source

    def status(self) -> FollowerStatus:
        passed_ms = self._clock.now_ms() - round(self._loop.time() * 1000)  # from the loop's time to that of the day
        return FollowerStatus(
            self._ha_address,
            self._followed.end,
            passed_ms + round(self._read_at * 1000),
            passed_ms + round(self._written_at * 1000),
            self._store.master_flushed_offset,
        )

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                if self._ha_address is not None:
                    await self._follow(self._ha_address)
                else:
                    self._greeted.set()
            except CometError as fault:
                self._complain(fault)
            except Exception:
                log.exception("following the master failed; the slave comes again in %g s", self._again_s)
            try:
                async with asyncio.timeout(self._again_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _complain(self, fault: CometError) -> None:
        """Once for each trouble: it is tried again every few seconds. A master that is gone is gone in several ways."""
        trouble = "gone" if isinstance(fault, PeerUnreachable) else str(fault)
        if trouble != self._complaint:
            self._complaint = trouble
            log.warning("not following the master %s: %s", self._ha_address, fault)

    # --- before the stream

    async def _follow(self, address: str) -> None:
        master_address = self.master_address
        try:
            end = await self._settle()
            peer = None if master_address is None else await self._greet(master_address, end)
        finally:
            self._greeted.set()
        self.source = master_address
        try:
            if self.before_connect is not None:
                await self.before_connect()
            await self._follow_from(end, address, peer)
        finally:
            self.source = None
            self._greeted.clear()

    async def _follow_from(self, end: int, address: str, peer: Peer | None) -> None:
        if end == 0 and (peer is None or not peer.extension):
            self._warn_of_last_file(peer)
        stream = await connect(address, timeout_s=CONNECT_S)
        self._decoder, self._fault, self._safe = TransferDecoder(), None, end
        self._read_at = self._loop.time()
        stream.on_data = self._heard
        self._stream = stream
        try:
            if peer is not None and peer.extension:
                stream.send([encode_hello(Hello(self._broker_id, from_first=True))])
            self._report()
            log.info("following the master %s from offset %d on", address, end)
            for tell in self.on_connect:
                tell()
            await self._watch(stream, address)
        finally:
            self._stream = None
            stream.close()
        if self._fault is not None:
            raise self._fault

    def _warn_of_last_file(self, peer: Peer | None) -> None:
        who = "is a Java one" if peer is not None else "is known by haMasterAddress only"
        notice = (
            f"the master {self._ha_address} {who}: as we are empty, it sends the last file of its log only. If older "
            "messages are wanted here, copy its store folder first"
        )
        if notice != self._notice:
            self._notice = notice
            log.warning("%s", notice)

    async def _settle(self) -> int:
        """Make safe what came, and drop a record of which only the beginning did."""
        await self._durability.safe(self._followed.end)
        if self._followed.whole_end < self._followed.end > self._store.flushed_offset:
            await self._loop.run_in_executor(None, self._store.flush_log)
        return self._followed.drop_partial()

    async def _greet(self, master_address: str, end: int) -> Peer:
        """Ask the master what it is, and whether our log is the beginning of its own."""
        channel = await self._pool.channel(master_address)
        answer = await channel.call(GetBrokerHaStatus(), timeout_ms=ASK_MS)
        self._answered_at = self._loop.time()
        peer = decode_peer(answer.body)
        size = self._store.config.mapped_file_size_commit_log
        if peer.segment_size and peer.segment_size != size:
            raise StoreError(
                f"mappedFileSizeCommitLog is {peer.segment_size} there and {size} here: it must be the same"
            )
        if end and end < peer.first_offset:
            raise StoreError(
                f"its log begins at {peer.first_offset}, ours ends at {end}: what is between is gone. Empty this "
                "broker's store folder and start it again"
            )
        if end > peer.end:
            raise StoreError(
                f"our log reaches to {end}, its own only to {peer.end}: we have what it lost. Make this broker the "
                "master if that is wanted; else empty this broker's store folder and start it again"
            )
        await self._compare(master_address, end)
        if peer.flushed_offset:
            self._store.master_flushed_offset = peer.flushed_offset
        return peer

    async def _compare(self, master_address: str, end: int) -> None:
        """Our last message must be the master's message at that place."""
        last = self._followed.last_record() if end else None
        if last is None:
            return
        ours = bytes(self._store.raw(*last))
        channel = await self._pool.channel(master_address)
        try:
            theirs = bytes((await channel.call(ViewMessage(last[0]), timeout_ms=ASK_MS)).body)
        except PeerRefused:
            theirs = b""
        if ours != theirs:
            raise StoreError(
                f"our message at offset {last[0]} is not the master's: the two logs have parted. If ours is the right "
                "one, make this broker the master; else empty this broker's store folder and start it again"
            )

    # --- the stream

    async def _watch(self, stream: Stream, address: str) -> None:
        config, followed = self._config, (address, self.source)
        while not stream.closed.done() and followed == (self._ha_address, self.master_address):
            await asyncio.wait([stream.closed], timeout=TICK_S)
            now = self._loop.time()
            if (now - self._read_at) * 1000 > config.ha_housekeeping_interval:
                raise StoreError(f"it was silent for {now - self._read_at:.0f} s")
            if (now - self._written_at) * 1000 > config.ha_send_heartbeat_interval:
                self._report()
            self._limit()

    def _heard(self, data: bytes) -> None:
        if self._fault is not None or self._stream is None:
            return
        self._read_at = self._loop.time()
        followed, before = self._followed, self._followed.end
        try:
            for offset, part in self._decoder.feed(data):
                if not followed.end and offset and part:
                    followed.begin_at(offset)
                    self._safe = before = offset
                followed.take(offset, part)
        except CometError as fault:
            self._fault = fault
            self._stream.close()
        if followed.end > before:
            self._complaint = ""
            self._durability.when_safe(followed.end, self._settler(followed.end))
            self._limit()

    def _settler(self, end: int) -> Callable[[BaseException | None], None]:
        def settle(fault: BaseException | None) -> None:
            if fault is None:
                self._safe = max(self._safe, end)
                self._report()
                self._limit()
            elif self._stream is not None:
                self._fault = fault if isinstance(fault, CometError) else StoreError(str(fault))
                self._stream.close()

        return settle

    def _report(self) -> None:
        if self._stream is not None:
            self._stream.send([encode_report(self._safe)])
            self._written_at = self._loop.time()

    def _limit(self) -> None:
        """Let the master wait while too much is not safe."""
        if self._stream is not None:
            self._stream.read(self._followed.end - self._safe < UNSAFE_MAX)
