"""What the driver does under exactly-once: it decides batches, delivers what is decided, and answers brokers that ask.

    tasks:   half messages ──────────────> brokers          each attempt with a mark of its own
    driver:  manifest ──> sinkLog                           from here on the batch is decided
             END_TRANSACTIONS ───────────> brokers          in the order of the rows; repeated until it is so
             done ──> sinkLog

A driver that dies before the manifest leaves half messages that nobody lists; the batch is run again, and when that run
is listed they are rolled back. One that dies after it leaves a decided batch: the next driver is told by the log not to
send it again, and delivers what is listed. Brokers that ask are answered from the log alone, so any process may answer:

    listed          the whole batch is delivered, in its order (this one is not told alone: it would overtake others)
    not listed      roll back: an attempt that lost, a driver that died, a send that was tried twice
    not decided     nobody knows yet

Spark gives the driver's Python no process of its own that lives as long as the query; it keeps the one that committed
for a minute or so, and that is when brokers are answered. In between they wait: these half messages are patient.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from cometmq.client.message import ReceivedMessage
from cometmq.client.transaction import Decision
from cometmq.errors import CometError
from cometmq.model import properties
from cometmq.spark.sink_clients import producer_of, run
from cometmq.spark.sink_log import Verdict
from cometmq.spark.sink_manifest import Attempt, Manifest, Mark
from cometmq.spark.sink_options import WriteOptions
from cometmq.spark.sink_verdicts import Verdicts
from cometmq.wire.requests.extensions import Ended

log = logging.getLogger("cometmq.spark")

_WHY: Final = {
    Ended.OTHERWISE: "were rolled back or given up, though the sink's log lists them",
    Ended.NOTHING_THERE: "are gone: they were older than fileReservedTime, or the broker lost what it had acknowledged",
    Ended.NOT_YOURS: "are others: the broker's store is not the one that they were sent to",
    Ended.NOBODY_KNOWS: "ended before the broker started, and its index cannot tell how (messageIndexEnable)",
}

_delivering: Counter[tuple[str, int]] = Counter()  # batches whose ends are under way in this process


class BatchLost(CometError):
    """Messages of a decided batch that cannot be delivered any more."""


class Decider:
    """Ends what tasks have begun."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._log = options.log()

    def commit(self, query: str, batch: int, rows: int, attempts: Iterable[Attempt]) -> None:
        """Decide a batch, or take the decision that stands, and deliver it."""
        mine = self._manifest(query, batch, rows, attempts)
        decided = self._log.decide(mine)

        async def deliver() -> None:
            if decided.attempts != mine.attempts:
                await self._roll_back(mine)
            if not self._log.is_finished(decided):
                await self._deliver(decided)

        run(deliver)
        self._log.check_same(decided, rows)

    def repeat(self, query: str, batch: int, rows: int) -> None:
        """Deliver a batch that was decided before it came again, with so many rows."""
        decided = self._log.decided(query, batch)
        if not self._log.is_finished(decided):
            run(lambda: self._deliver(decided))
        self._log.check_same(decided, rows)

    def finish(self) -> None:
        """Deliver whatever is decided and not done."""
        for manifest in self._log.unfinished():
            run(lambda manifest=manifest: self._deliver(manifest))  # type: ignore[misc]

    def abort(self, query: str, batch: int, attempts: Iterable[Attempt], *, for_good: bool) -> None:
        """Drop what was written, unless the batch is decided: then it stands, and will be delivered.

        Of a batch that never comes again it is written down that nothing is in it, for the tasks of which nothing was
        heard: their half messages are rolled back when brokers ask.
        """
        if self._log.find(query, batch) is not None:
            return
        mine = self._manifest(query, batch, 0, attempts)
        if for_good:
            self._log.finished(self._log.decide(mine.head))
        run(lambda: self._roll_back(mine))

    def _manifest(self, query: str, batch: int, rows: int, attempts: Iterable[Attempt]) -> Manifest:
        return Manifest(query, batch, self._options.group, rows, tuple(one for one in attempts if one.places))

    # --- on the loop

    async def _deliver(self, manifest: Manifest) -> None:
        key = manifest.query, manifest.batch
        _delivering[key] += 1
        try:
            self._check_all(manifest, await self._tell(manifest, Decision.COMMIT, self._options.retry_ms))
            await asyncio.to_thread(self._log.finished, manifest)
        finally:
            _delivering[key] -= 1
            if not _delivering[key]:
                del _delivering[key]

    async def _roll_back(self, manifest: Manifest) -> None:
        """As far as brokers can be reached now; of the rest they will ask."""
        try:
            await self._tell(manifest, Decision.ROLLBACK, 0)
        except CometError as fault:
            log.info(
                "half messages of batch %d of %s are left to be asked about: %s", manifest.batch, manifest.query, fault
            )

    async def _tell(self, manifest: Manifest, decision: Decision, retry_ms: int) -> Counter[Ended]:
        producer = await producer_of(self._options.client, self._options.group, self._answer)
        if self._options.topic is not None:
            with suppress(CometError):  # so that its brokers know whom to ask
                await producer.instance.writable_queues(self._options.topic)
        attempts = [(attempt, manifest.mark(attempt)) for attempt in manifest.attempts]
        return await Verdicts(producer, manifest.group, retry_ms).tell(decision, attempts)

    def _check_all(self, manifest: Manifest, ended: Counter[Ended]) -> None:
        """Raise if some of a decided batch cannot be delivered."""
        lost = {how: count for how, count in ended.items() if how is not Ended.AS_ASKED}
        if lost:
            told = "; ".join(f"{count} {_WHY[how]}" for how, count in lost.items())
            raise BatchLost(
                f"of the {ended.total()} messages of batch {manifest.batch} of {manifest.query}, "
                f"{ended[Ended.AS_ASKED]} are delivered and {sum(lost.values())} cannot be: {told}. "
                f"To go on without them, make an empty file {manifest.batch:020}.done in "
                f"{self._log.folder}/{manifest.query}"
            )

    # --- answering

    async def _answer(self, message: ReceivedMessage) -> Decision:
        found = message.properties
        mark = Mark.parse(found.get(properties.PATIENCE_MARK, ""))
        place = found.get(properties.TRANSACTION_PREPARED_QUEUE_OFFSET, "")
        if mark is None or not place.isdecimal() or (mark.query, mark.batch) in _delivering:
            return Decision.UNKNOWN
        verdict = await asyncio.to_thread(self._log.verdict, mark, message.broker_name, int(place))
        if verdict is Verdict.UNLISTED:
            return Decision.ROLLBACK
        if verdict is Verdict.LISTED and (mark.query, mark.batch) not in _delivering:
            await self._deliver_listed(mark)
        return Decision.UNKNOWN

    async def _deliver_listed(self, mark: Mark) -> None:
        manifest = self._log.find(mark.query, mark.batch)
        if manifest is not None:
            try:
                await self._deliver(manifest)
            except CometError as fault:
                log.warning("%s", fault)
