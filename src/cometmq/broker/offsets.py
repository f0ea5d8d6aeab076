"""How far each group has consumed each queue: `consumerOffset.json`.

    offsetTable        topic@group → queue id → offset; what the file is for
    pullOffsetTable    the same for the last pull; in memory, shown to admin tools, never read back
    groupTopicMap      group → topics; derived, written because Java writes it

A reset (`assign_reset`) moves a group by an admin's word. It commits the new offset and waits beside it for the next
pull or pop of the queue, which takes it and tells the client; until then commits of the client are not taken, for they
come from where it was. Resets are in memory: what they committed is saved. Bounded by the queues of topics that exist.
A key with a second `@` (`topic@group@broadcast`) belongs to nobody's consumption and is left out of listings.

Offsets are saved by the app's ticker and at close, not at each commit: after a kill a group sees the messages of the
last few seconds again, as with Java. Names cannot contain `@`, so a key always has one.

Mirrors: ConsumerOffsetManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any, Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.replicated import read_table, whole_rows
from cometmq.broker.saved import Saved, Table
from cometmq.clock import Clock
from cometmq.model.data_version import DataVersion

log = logging.getLogger("cometmq.broker")

SEPARATOR: Final = "@"

QueueOffsets = dict[int, int]
OnReset = Callable[[str, str, int], None]  # group, topic, queue id
OnRemoved = Callable[[Collection[str]], None]  # topic@group


class Offsets(Saved):
    """Committed offsets of all groups."""

    def __init__(self, table: Table, config: BrokerConfig, clock: Clock) -> None:
        super().__init__(table, self.to_json)
        self._clock = clock
        self._version_step = max(1, config.consumer_offset_update_version_step)
        self._commits = 0
        self._offsets: dict[str, QueueOffsets] = {}
        self._pulled: dict[str, QueueOffsets] = {}
        self._resets: dict[str, QueueOffsets] = {}
        self._use_resets = config.use_server_side_reset_offset
        self.on_reset: list[OnReset] = []  # who lets clients wait on a queue
        self.committed_here: dict[tuple[str, int], int] | None = None  # of a slave: by topic@group and queue id
        self.on_ahead: Callable[[], None] = lambda: None
        self.on_removed: list[OnRemoved] = []  # who would commit later what is removed now
        self.data_version = DataVersion(timestamp_ms=clock.now_ms())
        self.load(self._read)

    def _read(self, saved: dict[str, Any]) -> None:
        for key, queues in (saved.get("offsetTable") or {}).items():
            self._offsets[key] = {int(queue_id): int(offset) for queue_id, offset in queues.items()}
        if "dataVersion" in saved:
            self.data_version = DataVersion.from_json(saved["dataVersion"])

    def to_json(self) -> dict[str, Any]:
        """The whole table as `consumerOffset.json` and replies hold it."""
        topics: dict[str, list[str]] = {}
        for key in self._offsets:
            topic, _, group = key.partition(SEPARATOR)
            if SEPARATOR not in group:
                topics.setdefault(group, []).append(topic)
        return {
            "dataVersion": self.data_version.to_json(),
            "groupTopicMap": topics,
            "offsetTable": self._offsets,
            "pullOffsetTable": self._pulled,
        }

    # --- committing and looking up

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The group has consumed everything before `offset`; a smaller one than before is taken too."""
        key = f"{topic}@{group}"
        queues = self._offsets.get(key)
        if queues is None:
            self._offsets[key] = queues = {}
        queues[queue_id] = offset
        if self.committed_here is not None:
            self.committed_here[key, queue_id] = offset
        self.mark()
        self._commits += 1
        if not self._commits % self._version_step:
            self.data_version.advance(self._clock.now_ms())

    def commit_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The group has pulled up to here; only shown, never used to go on from."""
        self._pulled.setdefault(f"{topic}@{group}", {})[queue_id] = offset

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """Where the group goes on: what was committed last; None if nothing was. A negative offset is nothing."""
        if self._resets and self._use_resets:
            reset = self._resets.get(f"{topic}@{group}", {}).get(queue_id)
            if reset is not None:
                return reset
        queues = self._offsets.get(f"{topic}@{group}")
        offset = queues.get(queue_id, -1) if queues is not None else -1
        return offset if offset >= 0 else None

    def of(self, group: str, topic: str) -> QueueOffsets:
        """Everything that the group has committed of a topic."""
        return dict(self._offsets.get(f"{topic}@{group}", {}))

    def groups_of(self, topic: str) -> set[str]:
        """The groups that have committed anything of a topic."""
        prefix = topic + SEPARATOR
        return {key[len(prefix) :] for key in self._offsets if key.startswith(prefix) and key.count(SEPARATOR) == 1}

    def topics_of(self, group: str) -> set[str]:
        """The topics of which a group has committed anything."""
        suffix = SEPARATOR + group
        return {key[: -len(suffix)] for key in self._offsets if key.endswith(suffix)}

    def follow(self, body: bytes) -> None:
        """Have the offsets that the master has, and what is ahead of them because it was committed here."""
        rows, version = read_table(body, "offsetTable")
        taken = {key: whole_rows(queues) for key, queues in rows.items()}
        self._keep_ahead(taken)
        self._remove([key for key in self._offsets if key not in taken])
        changed = {key: queues for key, queues in taken.items() if self._offsets.get(key) != queues}
        if changed:
            self._offsets.update(changed)
            self.mark()
        if version is not None:
            self.data_version = version

    def _keep_ahead(self, taken: dict[str, QueueOffsets]) -> None:
        here = self.committed_here
        if not here:
            return
        ahead = {(key, at): offset for (key, at), offset in here.items() if offset > taken.get(key, {}).get(at, -1)}
        for (key, queue_id), offset in ahead.items():
            taken.setdefault(key, {})[queue_id] = offset
        self.committed_here = ahead
        if ahead:
            self.on_ahead()

    def take_back(self, body: bytes, max_offset: Callable[[str, int], int]) -> None:
        """A slave says what was committed there while we were gone: who is further is right, within what we have."""
        for key, rows in read_table(body, "offsetTable")[0].items():
            topic, _, group = key.partition(SEPARATOR)
            for queue_id, offset in whole_rows(rows).items():
                if self._offsets.get(key, {}).get(queue_id, -1) < offset <= max_offset(topic, queue_id):
                    self.commit(group, topic, queue_id, offset)

    def bound(self, max_offset: Callable[[str, int], int]) -> None:
        """Commits behind the end of a queue are of messages that a power cut took, and their numbers are given again:
        the group goes on at the end, or it would pass over new messages."""
        for key, queues in self._offsets.items():
            topic = key.partition(SEPARATOR)[0]
            for queue_id, offset in queues.items():
                end = max_offset(topic, queue_id)
                if offset > end:
                    log.warning("%s queue %d: committed %d, but the queue ends at %d", key, queue_id, offset, end)
                    queues[queue_id] = end
                    self.mark()

    # --- resetting

    def assign_reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move a group, whatever its clients commit meanwhile."""
        if not topic or not group or queue_id < 0 or offset < 0:
            return
        self._resets.setdefault(f"{topic}@{group}", {})[queue_id] = offset
        self.commit(group, topic, queue_id, offset)
        for tell in self.on_reset:
            tell(group, topic, queue_id)

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Does a reset wait that the client does not know of? Then what it commits is not taken."""
        return bool(self._resets) and self._use_resets and queue_id in self._resets.get(f"{topic}@{group}", ())

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Where the client must go on now, once; None if nobody moved it."""
        if not self._resets:
            return None
        key = f"{topic}@{group}"
        queues = self._resets.get(key)
        offset = None if queues is None else queues.pop(queue_id, None)
        if not queues:
            self._resets.pop(key, None)
        return offset if self._use_resets else None

    # --- removing

    def remove_topic(self, topic: str) -> None:
        prefix = topic + SEPARATOR
        self._remove([key for key in {**self._offsets, **self._pulled, **self._resets} if key.startswith(prefix)])

    def remove_group(self, group: str) -> None:
        suffix = SEPARATOR + group
        self._remove([key for key in {**self._offsets, **self._pulled, **self._resets} if key.endswith(suffix)])

    def _remove(self, keys: list[str]) -> None:
        if self.committed_here:
            doomed = frozenset(keys)
            self.committed_here = {at: offset for at, offset in self.committed_here.items() if at[0] not in doomed}
        for key in keys:
            self._pulled.pop(key, None)
            self._resets.pop(key, None)
            if self._offsets.pop(key, None) is not None:
                self.mark()
        for tell in self.on_removed:
            tell(keys)
