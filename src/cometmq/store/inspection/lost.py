"""Which messages stood where the log is damaged?

Two witnesses: units of queues that name a place in the damage, and offsets that are missing between the messages of a
queue before the damage and behind it. Units are asked first, for they also know place and size; at the log's end there
is no other witness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cometmq.model.sysflag import TRANSACTION_UNSEEN
from cometmq.store.consume_queue import BLANK_UNIT_SIZE, UNIT, UNIT_SIZE, ConsumeQueue
from cometmq.store.damage import Damage
from cometmq.store.inspection.folder import Folder
from cometmq.store.inspection.placeholders import Lost
from cometmq.store.log_walk import Walk, WalkEnd

GAP_MAX = 100_000  # offsets; more are no gap but another life of the topic

_READ_UNITS = 4096


def lost_in(folder: Folder, damage: Damage, damages: Sequence[Damage]) -> list[Lost]:
    """The messages lost in this one of the log's damages, those with a known place first."""
    found = {item[:3]: item for queue in folder.queues.queues.values() for item in _named(folder, queue, damage)}
    for item in _missing(folder, damage, damages):
        found.setdefault(item[:3], item)
    return sorted(found.values(), key=lambda item: (item.place < 0, item.place, item))


def _named(folder: Folder, queue: ConsumeQueue, damage: Damage) -> Iterator[Lost]:
    """Units that name a place in the damage. A damaged log is rare, so all units are looked at."""
    table = folder.queues
    for start in table.starts(queue):
        for first in range(start, start + queue.file_units, _READ_UNITS):
            data = table.file_units(queue, first, min(_READ_UNITS, start + queue.file_units - first))
            if not any(data):
                break
            for number, (place, size, _) in enumerate(
                UNIT.iter_unpack(data[: len(data) // UNIT_SIZE * UNIT_SIZE]), first
            ):
                if damage.start <= place < damage.end and 0 < size != BLANK_UNIT_SIZE:
                    yield Lost(queue.topic, queue.queue_id, number, place, size)


def _missing(folder: Folder, damage: Damage, damages: Sequence[Damage]) -> Iterator[Lost]:
    """Offsets that neither a message before the damage has nor one behind it.

    Those that another damage has, as units say, or that may be in an earlier one, are not this one's.
    """
    log = folder.log
    earlier = max((other.end for other in damages if other.end <= damage.start), default=0)
    before: dict[tuple[bytes, int], tuple[int, int]] = {}  # place and queue offset
    behind: set[tuple[bytes, int]] = set()
    at: int | None = log.min_offset
    while at is not None:
        segment = log.segment_of(at)
        if segment is None:
            at = _behind(at, damages)
            continue
        walk = Walk(log.view_of(segment.start), segment.start, at - segment.start, check_crc=True)
        for found in walk:
            if found[4] & TRANSACTION_UNSEEN:
                continue  # takes no place in a queue
            key, place, offset = (found[6], found[2]), segment.start + found[0], found[3]
            if place < damage.start:
                before[key] = place, offset
            elif key not in behind:
                behind.add(key)
                last_place, last = before.get(key, (-1, offset))
                if last_place >= earlier and 0 < offset - last - 1 <= GAP_MAX:
                    topic = key[0].decode(errors="replace")
                    for number in range(last + 1, offset):
                        if not _is_elsewhere(folder, (topic, key[1]), number, damage, damages):
                            yield Lost(topic, key[1], number)
        at = segment.end if walk.end is WalkEnd.NEXT_SEGMENT else _behind(segment.start + walk.at, damages)


def _behind(at: int, damages: Sequence[Damage]) -> int | None:
    """Where the log goes on behind the damage at a place; None: it does not."""
    return next((damage.end for damage in damages if damage.start <= at < damage.end), None)


def _is_elsewhere(folder: Folder, key: tuple[str, int], offset: int, damage: Damage, damages: Sequence[Damage]) -> bool:
    """Whether the unit of a message names a place in another damage."""
    queue = folder.queues.queues.get(key)
    unit = folder.queues.file_units(queue, offset, 1) if queue is not None else b""
    place = UNIT.unpack(unit)[0] if unit else -1
    return any(other is not damage and other.start <= place < other.end for other in damages)
