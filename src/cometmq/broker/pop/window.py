"""The checkpoints that the reader of a revive queue holds until nothing can be said about them any more.

They stand in the order of their queue and have a maximum. Acknowledgements come behind the checkpoints they are for, so
when there is no room the reader reads on all the same: what is acknowledged is marked in those held, and checkpoints
are left out. When the last of those held is settled, the reader goes back to the first that was left out.

    queue    c1 c2 c3 c4 a1 c5 a4 a2 …        a maximum of two: c1 and c2 are held, a1 and a2 are marked,
                   ↑ left out     ↑ stranger  and then c3 and c4 are read again, and a4 behind them

A stranger is an acknowledgement for which nothing is held: only it makes it necessary to read what follows once more.
So the maximum costs reading, never an acknowledgement: what comes of a checkpoint is the same with any maximum. (One
that stands twice in the queue, behind more than there is room for, may count twice, as if its second came later.)
"""

from __future__ import annotations

from cometmq.broker.pop.checkpoint import Ack, CheckPoint, MergeKey


class Window:
    """Checkpoints in order, `count_max` at most."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._points: dict[MergeKey, CheckPoint] = {}
        self.left_out: int | None = None  # offset of the first checkpoint for which there was no room
        self.met_stranger = False  # since then

    def __len__(self) -> int:
        return len(self._points)

    @property
    def first(self) -> CheckPoint | None:
        return next(iter(self._points.values()), None)

    def take(self, point: CheckPoint) -> None:
        """The next one of the queue; one written again takes its new place."""
        self._points.pop(point.key, None)
        if self.left_out is not None:
            return
        if len(self._points) < self._count_max:
            self._points[point.key] = point
        else:
            self.left_out = point.revive_offset

    def acknowledge(self, ack: Ack) -> None:
        """Mark what is done."""
        point = self._points.get(ack.key)
        if point is None:
            self.met_stranger = self.left_out is not None
            return
        for offset in ack.offsets:
            point.acknowledge(offset)

    def settle(self, point: CheckPoint) -> None:
        """This one is done with."""
        del self._points[point.key]

    def reopen(self) -> None:
        """There is room again, and reading begins at the first that was left out."""
        self.left_out, self.met_stranger = None, False
