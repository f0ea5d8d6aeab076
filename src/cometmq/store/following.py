"""A log that follows another: bytes come as they are, and dispatch learns from them what stands in them.

    take(offset, bytes)     the master's bytes, which must begin where this log ends
    whole_end               end of the last whole record; a transfer may end in the middle of one
    drop_partial            forget a record of which only the beginning came, before another stream goes on
    feed                    hand records that are confirmed to dispatch

Before anything is taken over it is read: each record must be sound (`log_walk`, with its CRC) and stand at the offset
that it carries. Whatever is not is refused whole, so that a log never holds what its master did not write.

Dispatch reads the log once more, from where it is, by the code that recovery replays a log with. So it may stay behind
for as long as the master sends faster than queues and index can be built, and nothing gathers in memory.

At a topic that is new here dispatch waits until the master was asked for its settings (`wait_for_topics`).

A log that follows takes no messages of its own.

Mirrors: CommitLog.appendData, DefaultMessageStore.appendToCommitLog, ReputMessageService.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cometmq.errors import StoreError, StoreNotWritable
from cometmq.store.append import Appender, Entry
from cometmq.store.batch_queue import BatchQueue, BatchQueues
from cometmq.store.commit_log import CommitLog
from cometmq.store.config import StoreConfig
from cometmq.store.log_walk import FoundTuple, Walk, WalkEnd
from cometmq.store.queue_recovery import last_place
from cometmq.store.queue_table import QueueTable
from cometmq.store.replay import Replay
from cometmq.wire.record import BLANK_SIZE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PREFIX, RECORD_SIZE_MIN

TAKES_NO_MESSAGES: Final = "this broker is a slave and takes no messages: send to its master"
RECORD_SIZE_MAX: Final = 128 * 1024 * 1024  # far above any maxMessageSize; more is no record
FAR_BEHIND: Final = 2 * 1024 * 1024  # so far behind, dispatch lets what comes from the master have most of the time
FEED_FAR_BEHIND: Final = 32  # records for one turn


class FollowedLog:
    """The way into the store of a slave."""

    def __init__(
        self, log: CommitLog, appender: Appender, table: QueueTable, batches: BatchQueues, config: StoreConfig
    ) -> None:
        self._log = log
        self._tables = (table, batches.table)
        self._undispatched = appender.undispatched
        self._batches = batches
        self._delay_levels = config.message_delay_level
        self._handed = _Handed()
        self._replay = self._new_replay()
        self._partial: list[bytes] = []  # the beginning of a record
        self._held = 0
        self._wanted = BLANK_SIZE  # bytes of it until it can be read
        self._blank_until = 0  # inside a blank record up to here
        self._readable = self._fed = self._seen = log.end  # whole records end, dispatch is, and has looked, up to there
        self._knows: Callable[[str], bool] | None = None
        self._ask: Callable[[], None] | None = None
        self._waits_for: set[bytes] = set()  # topics
        self._asked: set[bytes] = set()  # topics that the master does not have any more, or never had
        log.stand_by(TAKES_NO_MESSAGES)

    def wait_for_topics(self, knows: Callable[[str], bool], ask: Callable[[], None]) -> None:
        """From now on, dispatch waits at a topic that `knows` does not: it calls `ask`, and goes on with `go_on`."""
        self._knows, self._ask = knows, ask

    def go_on(self) -> None:
        """Whoever was asked about topics has said what he knows."""
        self._asked |= self._waits_for
        self._waits_for = set()

    @property
    def end(self) -> int:
        """What the master may go on with."""
        return self._log.end

    @property
    def whole_end(self) -> int:
        """Where the last whole record ends."""
        return self._log.end - self._held

    def begin_at(self, offset: int) -> None:
        """An empty log begins where the master's does."""
        if self._log.end or offset % self._log.segment_size:
            raise StoreError(
                f"a log that ends at {self._log.end} cannot begin at {offset}: the master's mappedFileSizeCommitLog is "
                f"another than ours ({self._log.segment_size}), or this is no master"
            )
        self._log.begin_at(offset)
        self._readable = self._fed = self._seen = offset

    def take(self, offset: int, data: memoryview) -> None:
        """Put bytes behind the last; refuses what does not fit there, and then takes nothing."""
        log = self._log
        if log.fault is not None:
            raise StoreNotWritable(log.fault)
        if offset != log.end and (log.end or data):
            raise StoreError(f"the master sends offset {offset}, but this log ends at {log.end}")
        if not data:
            return  # a heartbeat
        room = log.segment_size - offset % log.segment_size
        if len(data) > room:
            raise StoreError(
                f"{len(data)} bytes at {offset} cross the end of a file: the master's mappedFileSizeCommitLog is "
                f"another than ours ({log.segment_size})"
            )
        if offset == log.limit:
            log.roll(0)
        self._read(offset, data)
        log.append_raw(bytes(data), self._held)
        if self._blank_until and log.end >= self._blank_until:
            self._readable, self._blank_until = self._blank_until, 0

    def drop_partial(self) -> int:
        """Cut back to the last whole record; everything must be flushed. Returns the log's end."""
        if self._held:
            self._log.cut(self._log.end - self._held)
        self._partial, self._held, self._wanted, self._seen = [], 0, BLANK_SIZE, self._fed
        return self._log.end

    def last_record(self) -> tuple[int, int] | None:
        """Place and size of the last record, or nearly the last, of a log that is dispatched; None if none is found."""
        log, last = self._log, (-1, 0)
        for table in self._tables:
            for queue in table.queues.values():
                if queue.max_offset > queue.first_offset and queue.max_physical > last[0] + last[1]:
                    last = max(last, last_place(table, queue))
        segment = log.segment_of(last[0]) if last[0] >= 0 else None
        if segment is None:
            return None
        view = log.view_of(segment.start)[: log.confirm_offset - segment.start]
        for at, size, *_ in Walk(view, segment.start, last[0] - segment.start, check_crc=False):
            last = (segment.start + at, size)
        return last

    # Reading what came

    def _read(self, offset: int, data: memoryview) -> None:
        """See that these bytes go on with sound records; raises, changing nothing, if they do not."""
        skipped = min(max(self._blank_until - offset, 0), len(data))
        data, offset = data[skipped:], offset + skipped
        if self._held + len(data) < self._wanted:
            self._hold(data)
            return
        view = memoryview(b"".join([*self._partial, data])) if self._partial else data
        start = offset - self._held
        walk = Walk(view, start, 0, check_crc=True)
        while walk.batch():
            pass
        blank_until, wanted = self._blank_until, BLANK_SIZE
        rest = view[walk.at :]
        if walk.end is WalkEnd.NEXT_SEGMENT:
            blank_until = self._end_of_blank(start + walk.at, rest)
            rest = rest[:0]
        elif rest:
            wanted = self._size_of_beginning(start + walk.at, rest)
        self._partial, self._held, self._wanted, self._blank_until = [], 0, wanted, blank_until
        self._readable = start + walk.at
        self._hold(rest)

    def _hold(self, data: memoryview) -> None:
        if data:
            self._partial.append(bytes(data))
            self._held += len(data)

    def _end_of_blank(self, at: int, rest: memoryview) -> int:
        end = at + int(PREFIX.unpack_from(rest)[0])
        if end != self._log.segment_end(at):
            raise StoreError(
                f"the master's file ends at {end}, ours at {self._log.segment_end(at)}: set mappedFileSizeCommitLog to "
                "what the master has, and begin with an empty store"
            )
        return end

    def _size_of_beginning(self, at: int, rest: memoryview) -> int:
        """The size of the record that `rest` begins; raises if it begins none, or is more than the beginning."""
        if len(rest) < BLANK_SIZE:
            return BLANK_SIZE
        size, magic = PREFIX.unpack_from(rest)
        room = self._log.segment_end(at) - at
        sound = magic in (MAGIC_V1, MAGIC_V2) and RECORD_SIZE_MIN <= size <= min(room, RECORD_SIZE_MAX)
        if magic == MAGIC_BLANK or not sound or len(rest) >= size:
            raise StoreError(
                f"what it sends for offset {at} is no sound message, and is not kept: `cometmq store check` on the "
                "master's folder says whether its log is damaged there"
            )
        return int(size)

    # Handing it to dispatch

    @property
    def lags(self) -> bool:
        """Whether something is confirmed that dispatch has not looked at."""
        return min(self._log.confirm_offset, self._readable) > self._seen and not self._waits_for

    def feed(self, max_count: int) -> None:
        """Hand over the next records that are confirmed, at most so many, and few of them while there are very many."""
        log, at = self._log, self._fed
        bound = min(log.confirm_offset, self._readable)
        if bound <= self._seen or self._waits_for:
            return
        segment = log.segment_of(at)
        if segment is None:
            self._seen = bound  # the next file is not there yet
            return
        if bound - at > FAR_BEHIND:
            max_count = min(max_count, FEED_FAR_BEHIND)
        view = log.view_of(segment.start)[: min(bound, segment.end) - segment.start]
        walk = Walk(view, segment.start, at - segment.start, check_crc=False)
        found = walk.batch(max_count)
        if self._meets_new_topics(found):
            return
        self._fed = segment.start + walk.at
        if found:
            self._hand_over(segment.start, found)
        if walk.end is WalkEnd.NEXT_SEGMENT and segment.end <= bound:
            self._fed = segment.end
        elif len(found) < max_count and self._fed != segment.end:
            self._seen = bound  # a record of which the end is not confirmed

    def _meets_new_topics(self, found: list[FoundTuple]) -> bool:
        """What kind of queue a topic has stands in its settings, which come another way than the log."""
        if self._knows is None or self._ask is None:
            return False
        topics = {record[6] for record in found} - self._asked
        self._waits_for = {topic for topic in topics if not self._knows(topic.decode(errors="replace"))}
        if self._waits_for:
            self._ask()
        return bool(self._waits_for)

    def _hand_over(self, start: int, found: list[FoundTuple]) -> None:
        handed = self._handed
        self._replay.take(start, found)
        if any(not entry[1].alive for entry in handed.entries):  # a queue that was deleted since: it is made anew
            handed.entries.clear()
            self._replay = self._new_replay()
            self._replay.take(start, found)
        for _, queue, physical_offset, _, _, queue_offset, *_ in handed.entries:
            if queue_offset >= 0:
                count = queue.counts[physical_offset] if isinstance(queue, BatchQueue) else 1
                queue.next_offset = queue_offset + max(count, 1)
        self._undispatched.extend(handed.entries)
        handed.entries.clear()
        self._log.last_store_time_ms = max(self._log.last_store_time_ms, self._replay.last_store_time_ms)

    def _new_replay(self) -> Replay:
        table, batches = self._tables[0], self._batches
        return Replay(table, batches, self._handed, self._delay_levels, set(), vouched=0, indexed_before=0)


class _Handed:
    """Keeps what a replay finds, for dispatch to take when it is confirmed."""

    def __init__(self) -> None:
        self.unwritten_units = 0
        self.entries: list[Entry] = []

    def replay(self, entries: list[Entry]) -> None:
        self.entries += entries
