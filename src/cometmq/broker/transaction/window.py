"""Which half messages are still open: one byte for each place of the half queue, from about the first open one on.

A transaction may have several copies in the half queue: each check stores it again behind the others. What joins them
is its *root*, the offset of the first copy, which every later copy names in TRAN_PREPARED_QUEUE_OFFSET. Only the
latest copy counts; the others are MOVED. So an END_TRANSACTION that names an old copy ends the transaction too.

    (remembered)          base                                                (behind the last)
     committed │ moved │    │ open │ moved │ open │ rolled back │ moved │ open …  all open
                                       └───────── latest[root] ───────────┘

Invariants: `latest` knows every transaction whose latest copy is not its root and is still remembered; `base` never
moves over an open copy. Of those before it `REMEMBERED_COUNT` or more are remembered, to answer who ends one again.
Bounds: `COPIES_MAX` bytes, and `latest` and `_root_of` hold no more than the copies made by checks among them.

Mirrors: the removeMap and opMsgMap of TransactionalMessageServiceImpl.check.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

COPIES_MAX: Final = 16 * 1024 * 1024
REMEMBERED_COUNT: Final = 100_000


class State(IntEnum):
    """Of one copy."""

    OPEN = 0
    COMMITTED = 1
    ROLLED_BACK = 2
    MOVED = 3  # stored again, further back
    DISCARDED = 4  # checked too often
    ENDED = 5  # before this broker started: nothing tells how
    PASSED = 6  # ended so long ago that nothing is remembered of it


class HalfWindow:
    """The places of the half queue that are not passed yet, and some that are."""

    def __init__(self, base: int) -> None:
        self.base = base
        self._start = base  # of what is remembered
        self._states = bytearray()
        self._latest: dict[int, int] = {}  # root → its latest copy
        self._root_of: dict[int, int] = {}  # the other way

    def latest_of(self, root: int) -> int:
        """Where the latest copy of a transaction stands."""
        return self._latest.get(root, root)

    def state(self, offset: int) -> State:
        at = offset - self._start
        if at < 0:
            return State.PASSED
        return State(self._states[at]) if at < len(self._states) else State.OPEN

    def state_of(self, root: int) -> State:
        """Of the transaction, whichever copy is asked about."""
        return self.state(self.latest_of(root))

    def close(self, offset: int, state: State) -> None:
        """A copy is not open any more."""
        at = offset - self._start
        if at >= 0:
            missing = at + 1 - len(self._states)
            if missing > 0:
                self._states.extend(bytes(missing))
            self._states[at] = state

    def move(self, root: int, new_offset: int) -> int:
        """A transaction was stored again; returns the place of the copy that counted before."""
        old_offset = self.latest_of(root)
        self.close(old_offset, State.MOVED)
        self._root_of.pop(old_offset, None)
        self._latest[root] = new_offset
        self._root_of[new_offset] = root
        return old_offset

    def next_open(self, offset: int) -> int:
        """The first open place from `offset` on; where nothing was closed yet, all are."""
        offset = max(offset, self.base)
        found = self._states.find(State.OPEN, offset - self._start)
        return self._start + found if found >= 0 else max(self._start + len(self._states), offset)

    def advance(self) -> int:
        """Pass what is closed up to the first open copy; returns the new base."""
        return self.pass_before(self.next_open(self.base))

    def pass_before(self, base: int) -> int:
        """Pass every copy before `base`; the last of them are remembered."""
        if base > self.base:
            self.base = base
            if base - self._start > 2 * REMEMBERED_COUNT:
                self._forget_before(base - REMEMBERED_COUNT)
        return self.base

    def _forget_before(self, start: int) -> None:
        for offset in [one for one in self._root_of if one < start]:
            self._latest.pop(self._root_of.pop(offset), None)
        del self._states[: start - self._start]
        self._start = start
