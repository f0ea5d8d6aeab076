"""Which messages stood where the log is damaged?

Two witnesses: units of queues that name a place in the damage, and offsets that are missing between the messages of a
queue before the damage and behind it. Units are asked first, for they also know place and size.
"""

from __future__ import annotations

from collections.abc import Iterator

from cometmq.store.consume_queue import BLANK_UNIT_SIZE, UNIT, UNIT_SIZE, ConsumeQueue
from cometmq.store.damage import Damage
from cometmq.store.inspection.folder import Folder
from cometmq.store.inspection.placeholders import Lost
from cometmq.store.log_walk import Walk, WalkEnd

GAP_MAX = 100_000  # offsets; more are no gap but another life of the topic

_READ_UNITS = 4096


def lost_in(folder: Folder, damage: Damage) -> list[Lost]:
    """The lost messages, those with a known place first."""
    found = {item[:3]: item for queue in folder.queues.queues.values() for item in _named(folder, queue, damage)}
    for item in _missing(folder, damage):
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


def _missing(folder: Folder, damage: Damage) -> Iterator[Lost]:
    """Offsets that neither a message before the damage has nor one behind it."""
    log = folder.log
    before: dict[tuple[bytes, int], int] = {}
    behind: set[tuple[bytes, int]] = set()
    at = log.min_offset
    while (segment := log.segment_of(at)) is not None or at < damage.end:
        if segment is None:
            at = damage.end
            continue
        walk = Walk(log.view_of(segment.start), segment.start, at - segment.start, check_crc=True)
        for found in walk:
            if found[4] & 0x4:
                continue  # takes no place in a queue
            key, offset = (found[6], found[2]), found[3]
            if segment.start + found[0] < damage.start:
                before[key] = offset
            elif key not in behind:
                behind.add(key)
                last = before.get(key)
                if last is not None and 0 < offset - last - 1 <= GAP_MAX:
                    topic = key[0].decode(errors="replace")
                    yield from (Lost(topic, key[1], number) for number in range(last + 1, offset))
        end = segment.start + walk.at
        if walk.end is WalkEnd.NEXT_SEGMENT:
            at = segment.end
        elif end < damage.end:
            at = damage.end
        else:
            return
