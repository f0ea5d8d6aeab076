"""Everything a store does, as one seeded run on a file system: append, roll, write, flush, dispatch, checkpoint, index,
save a table, delete old segments, stop, die, start again.

`note` is asked for the moment at which something was promised, so that a crash state of any moment can be judged by
what was promised before it. Errors of the disk may come out of every call: as a `StoreError`, never as anything else.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.unit.store.kit import HandClock, QuickFs, open_small, read_all, send

from cometmq.errors import StoreError
from cometmq.store.engine import Store
from cometmq.store.fs import FileSystem
from cometmq.store.tables import TableFile

from .ledger import Found, Ledger, Queue, digest_of

TOPIC: Final = "T"
QUEUES: Final = (0, 1, 2)
TABLE: Final = "config/table.json"
SPACE_IS_SHORT: Final = 0.87  # above it the oldest segment goes, whatever its age


class Promised(NamedTuple):
    """What holds from a moment on."""

    moment: int
    acknowledged: int  # so many of the ledger's promises
    deleted: dict[Queue, int]  # so far may retention have gone
    table_saved: int
    table_tried: int


class Workload:
    """One store's life on one file system."""

    def __init__(
        self,
        root: Path,
        fs: FileSystem,
        chance: random.Random,
        *,
        note: Callable[[], int] = lambda: 0,
        **config: Any,
    ) -> None:
        self.root, self.fs, self.chance, self.note = root, fs, chance, note
        self.config = {"delete_file_batch_max": 1, **config}
        self.clock = HandClock()
        self.ledger = Ledger()
        self.promises: list[Promised] = []
        self.errors: list[StoreError | OSError] = []
        self.deleted: dict[Queue, int] = {}
        self.table = TableFile(fs, str(root / TABLE))
        self.table_saved = self.table_tried = 0
        self._unsafe: list[tuple[str, int]] = []  # appended, not yet flushed: name and offset
        self._count = 0
        self.store: Store | None = None

    def run(self, steps: int) -> None:
        """Live through so many steps, and end as a killed process does."""
        self.start()
        self.table.load()
        for _ in range(steps):
            self.step()
        if self.store is not None:
            self.store.abandon()

    def step(self) -> None:
        if self.store is None:
            self.start()
            return
        kind = self.chance.random()
        self.clock.ms += self.chance.randrange(5)
        if kind < 0.55:
            self.append()
        elif kind < 0.75:
            self.flush()
        elif kind < 0.85:
            self.maintain()
        elif kind < 0.91:
            self.save_table()
        elif kind < 0.95:
            self.delete_oldest()
        else:
            self.restart()

    @contextlib.contextmanager
    def disk_errors_allowed(self) -> Iterator[None]:
        try:
            yield
        except (StoreError, OSError) as error:
            self.errors.append(error)

    def start(self) -> None:
        if getattr(self.fs, "failed", "") in ("sync", "fsync_dir"):
            return  # who starts again without a new boot still reads what the disk has lost
        with self.disk_errors_allowed():
            self.store = open_small(self.root, self.fs, self.clock, **self.config)

    def append(self) -> None:
        assert self.store is not None
        queue_id = self.chance.choice(QUEUES)
        name = f"m{self._count}"
        self._count += 1
        body = name.encode().ljust(self.chance.choice((1, 40, 300, 900)), b".")
        self.ledger.send((TOPIC, queue_id), name, body)
        with self.disk_errors_allowed():
            self._unsafe.append((name, send(self.store, body, TOPIC, queue_id, keys=name).queue_offset))

    def flush(self) -> None:
        """Write; mostly flush too, which is the promise; mostly make visible."""
        assert self.store is not None
        with self.disk_errors_allowed():
            self.store.write()
            if self.chance.random() < 0.8:
                unsafe, self._unsafe = self._unsafe, []
                self.store.flush_log()
                for name, offset in unsafe:
                    self.ledger.acknowledge(name, 0, offset)
                self.promise()
        if self.chance.random() < 0.8:
            self.store.dispatch()

    def maintain(self) -> None:
        assert self.store is not None
        with self.disk_errors_allowed():
            self.store.maintain(thorough=self.chance.random() < 0.6)

    def save_table(self) -> None:
        self.table_tried += 1
        self.promise()
        with self.disk_errors_allowed():
            self.table.save({"number": self.table_tried, "fill": "x" * self.chance.choice((1, 700))})
            self.table_saved = self.table_tried
            self.promise()

    def delete_oldest(self) -> None:
        assert self.store is not None
        self.fs.used_ratio = lambda path: SPACE_IS_SHORT  # type: ignore[method-assign]
        try:
            with self.disk_errors_allowed():
                decided = self.note()
                self.store.expire()
                self.deleted = {(TOPIC, q): self.store.min_offset(TOPIC, q) for q in QUEUES}
                self.promise(decided)
                self.store.remove_files()
        except OSError:
            pass  # a file that could not be removed is there after the next start; retention comes again
        finally:
            del self.fs.used_ratio  # type: ignore[method-assign]

    def restart(self) -> None:
        assert self.store is not None
        store, self.store = self.store, None
        self._unsafe.clear()
        if self.chance.random() < 0.4:
            store.abandon()
        else:
            with self.disk_errors_allowed():
                store.close()
        self.start()

    def promise(self, moment: int | None = None) -> None:
        since = self.note() if moment is None else moment
        self.promises.append(
            Promised(since, len(self.ledger.promised), dict(self.deleted), self.table_saved, self.table_tried)
        )

    # The judge

    def promised_at(self, moment: int) -> Promised:
        best = Promised(0, 0, {}, 0, 0)
        for promise in self.promises:
            if promise.moment > moment:
                break
            best = promise
        return best

    def judge(self, root: Path, moment: int | None = None, *, lost_is_allowed: bool = False) -> list[str]:
        """Open what is left in `root`, on a good disk, and say what is wrong with it."""
        last = self.promises[-1].moment if self.promises else 0
        promised = self.promised_at(last if moment is None else moment)
        try:
            store = open_small(root, QuickFs(), self.clock, **self.config)
        except Exception as error:
            return [f"the store does not open: {error!r}"]
        try:
            faults = self._judge_messages(store, promised, lost_is_allowed=lost_is_allowed)
        except Exception as error:
            faults = [f"the store does not serve: {error!r}"]
        finally:
            store.close()
        return faults + self._judge_table(root, promised)

    def _judge_messages(self, store: Store, promised: Promised, *, lost_is_allowed: bool) -> list[str]:
        judge = Ledger()
        judge.sent = self.ledger.sent
        faults: list[str] = []
        for name, promise in islice(self.ledger.promised.items(), promised.acknowledged):
            faults += judge.acknowledge(name, *promise)
        found = {(TOPIC, queue_id): found_in(store, TOPIC, queue_id) for queue_id in QUEUES}
        starts = {(TOPIC, queue_id): store.min_offset(TOPIC, queue_id) for queue_id in QUEUES}
        for queue, start in starts.items():
            if start > promised.deleted.get(queue, 0):
                faults.append(f"I1: {queue} begins at {start}, retention went to {promised.deleted.get(queue, 0)}")
        faults += judge.check(found, from_offsets=starts, lost_is_allowed=lost_is_allowed)
        for queue, messages in found.items():
            for one in messages:
                if not store.query(TOPIC, one.name, 64, 0, 1 << 60):
                    faults.append(f"index: {one.name} is not found by its key")
            if store.writable:
                placed = send(store, b"on", *queue)
                if placed.queue_offset != (messages[-1].offset + 1 if messages else starts[queue]):
                    faults.append(f"I2: {queue} goes on at {placed.queue_offset} after {messages[-1:]}")
        if not store.writable:
            faults.append(f"not writable after the start: {store.fault}")
        return faults

    def _judge_table(self, root: Path, promised: Promised) -> list[str]:
        try:
            table = TableFile(QuickFs(), str(root / TABLE)).load()
        except Exception as error:
            return [f"the table does not load: {error!r}"]
        number = 0 if table is None else table["number"]
        if not promised.table_saved <= number <= max(promised.table_tried, promised.table_saved + 1):
            return [f"the table has number {number}; {promised.table_saved} was saved"]
        return []


def found_in(store: Store, topic: str, queue_id: int) -> list[Found]:
    """What a consumer gets from a queue."""
    return [
        Found(record.queue_offset, record.body.split(b".")[0].decode(errors="replace"), digest_of(record.body))
        for record in read_all(store, topic, queue_id)
    ]
