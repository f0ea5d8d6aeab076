"""Which messages a batch takes and how tasks share them (pure).

`admit` holds a batch to the limits of a trigger, in proportion to what waits in each queue. `share` cuts ranges so that
one hot queue uses all cores, and gathers small ones so that a thousand quiet queues do not make a thousand tasks.
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
    """Ends of a batch of `rows_max` messages at most, each queue in proportion to what waits in it."""
    waiting = {queue: max(0, end - starts[queue]) for queue, end in ends.items()}
    total = sum(waiting.values())
    if total <= rows_max:
        return dict(ends)
    shares = {queue: count * rows_max // total for queue, count in waiting.items()}
    # What rounding left over goes to those who wait with most, so that the batch is never empty.
    left = rows_max - sum(shares.values())
    for queue in sorted(waiting, key=lambda queue: (shares[queue] - waiting[queue], queue)):
        more = min(left, waiting[queue] - shares[queue], 1)
        shares[queue] += more
        left -= more
    return {queue: starts[queue] + shares[queue] for queue in ends}


def admit_bytes(
    starts: Mapping[MessageQueue, int],
    ends: Mapping[MessageQueue, int],
    sizes: Mapping[MessageQueue, float],
    bytes_max: int,
) -> Offsets:
    """The same by size; `sizes` is what a message of each queue takes on average. At least one message is taken."""
    waiting = {queue: max(0, end - starts[queue]) for queue, end in ends.items()}
    total = sum(count * sizes.get(queue, 0.0) for queue, count in waiting.items())
    if total <= bytes_max:
        return dict(ends)
    found = {queue: starts[queue] + int(count * (bytes_max / total)) for queue, count in waiting.items()}
    if all(found[queue] == starts[queue] for queue in found):
        first = next(queue for queue in sorted(waiting) if waiting[queue])
        found[first] += 1
    return found


def share(
    ranges: Sequence[Range], *, cores: int, min_partitions: int | None, max_records: int | None
) -> list[list[Range]]:
    """The ranges that each task reads, in order."""
    ranges = [one for one in ranges if one.rows > 0]
    total = sum(one.rows for one in ranges)
    wanted = min_partitions or cores
    rows_max = max_records or ROWS_LARGE
    if total and wanted > len(ranges):
        even = max(1, total // wanted)
        rows_max = min(rows_max, even if min_partitions else max(even, ROWS_SMALL))
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
