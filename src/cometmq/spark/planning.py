"""Which messages a batch takes and how tasks share them (pure).

`admit` holds a batch to the limits of a trigger: every queue that waits gets something, and more in proportion to what
waits in it; where the limit is smaller than the number of queues, they take turns. `share` cuts ranges so that one hot
queue uses all cores, and gathers small ones so that a thousand quiet queues do not make a thousand tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from cometmq.model.queue import MessageQueue
from cometmq.spark.offsets import Offsets, Range

ROWS_SMALL: Final = 20_000  # below this a task of its own costs more than it brings
ROWS_LARGE: Final = 500_000  # above this a task is cut, so that a lost one costs little to repeat


def admit(starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], rows_max: int) -> Offsets:
    """Ends of a batch of `rows_max` messages at most: one of each queue that waits, the rest in proportion."""
    waiting = _waiting(starts, ends)
    total = sum(waiting.values())
    if total <= rows_max:
        return dict(ends)
    shares = dict.fromkeys(_in_turn(starts, waiting)[:rows_max], 1)
    left = rows_max - len(shares)
    if left:
        rest, rest_total = left, total - len(shares)
        for queue, count in waiting.items():
            shares[queue] += (count - 1) * rest // rest_total
        left = rows_max - sum(shares.values())
        # What rounding left over goes to those who wait with most.
        for queue in sorted(waiting, key=lambda queue: (shares[queue] - waiting[queue], queue))[:left]:
            shares[queue] += 1
    return {queue: starts[queue] + shares.get(queue, 0) for queue in ends}


def admit_bytes(
    starts: Mapping[MessageQueue, int],
    ends: Mapping[MessageQueue, int],
    sizes: Mapping[MessageQueue, float],
    bytes_max: int,
) -> Offsets:
    """The same by size; `sizes` is what a message of each queue takes on average. At least one message is taken."""
    waiting = _waiting(starts, ends)
    total = sum(count * sizes.get(queue, 0.0) for queue, count in waiting.items())
    if total <= bytes_max:
        return dict(ends)
    shares: Offsets = {}
    left = float(bytes_max)
    for queue in _in_turn(starts, waiting):
        left -= sizes.get(queue, 0.0)
        if left < 0 and shares:
            break
        shares[queue] = 1
    else:
        part = left / (total - bytes_max + left) if left > 0 else 0.0
        shares = {queue: 1 + int((count - 1) * part) for queue, count in waiting.items()}
    return {queue: starts[queue] + shares.get(queue, 0) for queue in ends}


def _waiting(starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int]) -> Offsets:
    """How many messages wait in each queue in which any does."""
    return {queue: end - starts[queue] for queue, end in ends.items() if end > starts[queue]}


def _in_turn(starts: Mapping[MessageQueue, int], waiting: Offsets) -> list[MessageQueue]:
    """The queues that wait, another one first with every message that was taken: so each has its turn."""
    queues = sorted(waiting)
    first = sum(starts.values()) % len(queues)
    return queues[first:] + queues[:first]


def share(
    ranges: Sequence[Range], *, cores: int, min_partitions: int | None, max_records: int | None
) -> list[list[Range]]:
    """The ranges that each task reads, in order."""
    ranges = [one for one in ranges if one.rows > 0]
    total = sum(one.rows for one in ranges)
    wanted = min_partitions or cores
    if min_partitions and min_partitions > len(ranges):
        even = max(1, total // wanted)
    else:
        even = max(-(-total // wanted), ROWS_SMALL)
    rows_max = min(max_records or ROWS_LARGE, even)
    pieces = [piece for one in ranges for piece in _cut(one, rows_max)]
    return _gather(pieces, wanted, min(rows_max, ROWS_SMALL))


def _cut(one: Range, rows_max: int) -> list[Range]:
    count = -(-one.rows // rows_max)
    edges = [one.start + one.rows * number // count for number in range(count + 1)]
    return [one._replace(start=start, end=end) for start, end in pairwise(edges)]


def _gather(pieces: Sequence[Range], wanted: int, rows_max: int) -> list[list[Range]]:
    """Neighbours in one task while together they are small and there are more tasks than wanted."""
    surplus = len(pieces) - wanted
    found: list[list[Range]] = []
    rows = 0
    for piece in pieces:
        if found and surplus > 0 and rows + piece.rows <= rows_max:
            found[-1].append(piece)
            rows += piece.rows
            surplus -= 1
        else:
            found.append([piece])
            rows = piece.rows
    return found
