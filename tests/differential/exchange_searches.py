"""What a broker must find by key and by time, worked out from the messages that it serves.

By key: the newest messages that carry it, each once; but after a kill the original indexes a message again that was in
the index (IndexService.buildIndex), and that one takes two places. By time: the first message stored at that time or
later, behind the last where all are older; this is the rule of 5.x. That of 4.9, where no first or last of equal times
is promised and a time to come finds the last message, is not asked for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from cometmq.wire.record import decode_records

KEYS_MAX = 8
"""So many messages are asked for by a key."""

Records = Mapping[int, Sequence[bytes]]
"""By queue, the bytes of each message from the first on."""


def keys_of(records: Records, twice: Collection[bytes] = ()) -> dict[str, list[bytes]]:
    """What each key must find, if these stand in the index `twice`."""
    placed: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
    for raw in (raw for queue in records.values() for raw in queue):
        (record,) = decode_records(raw)
        for key in record.properties.get("KEYS", "").split():
            placed[key] += [(record.physical_offset, raw)] * (2 if raw in twice else 1)
    return {key: sorted(raw for _, raw in sorted(found)[-KEYS_MAX:]) for key, found in placed.items()}


def times_of(records: Sequence[bytes]) -> dict[int, int]:
    """Times to ask a queue for, and the offset that each must find."""
    found = list(decode_records(b"".join(records)))
    stored = [record.store_time_ms for record in found]
    asked = {0, 1 << 42, *(time + more for time in stored[::30] for more in (0, 1))}
    first = found[0].queue_offset if found else 0
    return {when: first + sum(time < when for time in stored) for when in sorted(asked)}


def wrong_searches(
    records: Records, by_key: Mapping[str, list[bytes]], by_time: Mapping[int, Mapping[int, int]], *, again: int
) -> list[str]:
    """What is not found as it must be; of `by_time` the queues that were asked. So many may be found `again`."""
    twice = {one for found in by_key.values() for one, count in Counter(found).items() if count == 2}
    forgiven = twice if len(twice) <= again else set()
    faults = []
    for key, wanted in keys_of(records, forgiven).items():
        if by_key[key] != wanted:
            faults.append(f"{key} finds {_places(by_key[key])}, not {_places(wanted)}")
    for queue, found in by_time.items():
        wanted_offsets = times_of(records[queue])
        faults += [
            f"{when} in queue {queue} finds {found.get(when)}, not {offset}"
            for when, offset in wanted_offsets.items()
            if found.get(when) != offset
        ]
    return faults


def _places(records: Iterable[bytes]) -> list[int]:
    return [record.physical_offset for raw in records for record in decode_records(raw)]
