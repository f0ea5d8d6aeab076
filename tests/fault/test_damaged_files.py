"""Rows 6, 7 and 8: files that are torn, have flipped bits, or are gone. Each state is opened as a broker would.

A torn tail costs only what was torn. A flipped bit is found, or the format cannot tell; it costs no other message. What
can be rebuilt from the log is rebuilt; a table comes back from the copy before it, or the start is refused.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.kit import QuickFs, send

from cometmq.errors import StoreError
from cometmq.store.engine import Store
from cometmq.store.tables import TableFile

from .harness.damage import QUEUES, TABLE, TOPIC, Victim, kill_a_store, read_one
from .harness.rows import Row, share

pytestmark = pytest.mark.timeout(600)

HEAD_SIZE = 88  # of a record before its body, with the body's length
INDEX_HEADER_SIZE = 40
UNIT_SIZE, TAGS_CODE_AT = 20, 12


# Row 6


@pytest.mark.parametrize("filler", ["zeros", "garbage", "old records"])
def test_the_tail_torn_at_every_byte(quick_folder: Path, filler: str) -> None:
    segment_size = 4096 if share() is None else 65_536
    count, unsynced, larger = (24, 3, 1) if share() is None else (331, 155, 10)  # the second file, and full
    victim = kill_a_store(
        quick_folder / "made",
        count,
        unsynced=unsynced,
        larger=larger,
        mapped_file_size_commit_log=segment_size,
        mapped_file_size_consume_queue=20_000,
        max_index_num=2_000,
    )
    first = victim.messages[-unsynced].place.physical_offset
    last_start = victim.messages[-1].place.physical_offset // segment_size * segment_size
    name = f"commitlog/{last_start:020d}"
    first = max(first, last_start)
    end = sum(victim.messages[-1].place[:2])
    cuts = range(first - last_start, end - last_start)
    with Row(6, f"the tail torn at every byte, {filler} behind", trimmed=len(cuts), full=len(cuts)) as row:
        chosen = sorted(row.chance.sample(cuts, min(row.count, len(cuts))))
        for number in row.each():
            cut = chosen[number]
            row.violations += tear(row, victim, quick_folder / "torn", name, last_start, cut, filler, row.chance)


def tear(
    row: Row, victim: Victim, root: Path, name: str, start: int, cut: int, filler: str, chance: random.Random
) -> list[str]:
    whole = victim.files[name]
    rest = len(whole) - cut
    behind = {
        "zeros": lambda: bytes(rest),
        "garbage": lambda: chance.randbytes(min(rest, 1_000)).ljust(rest, b"\0"),
        "old records": lambda: (victim.files["commitlog/" + "0" * 20][:1_500] * 50)[:rest].ljust(rest, b"\0"),
    }[filler]()
    victim.lay_out(root, **{name: whole[:cut] + behind})
    kept = [one for one in victim.messages if sum(one.place[:2]) <= start + cut]
    torn = next(one for one in victim.messages if sum(one.place[:2]) > start + cut)
    what = f"cut at {cut}, {filler}: "
    try:
        store = victim.open(root)
    except Exception as error:
        return [f"{what}the store does not open: {error!r}"]
    try:
        faults = Victim(victim.files, kept, victim.config).judge_in_order(store)
        ends = [sum(1 for one in kept if one.queue_id == queue_id) for queue_id in range(QUEUES)]
        found = [store.max_offset(TOPIC, queue_id) for queue_id in range(QUEUES)]
        if found != ends:
            # Only the body has a checksum: garbage in topic or properties cannot be told.
            intact = cut > torn.place.physical_offset - start + HEAD_SIZE + len(torn.body)
            if filler == "zeros" or not intact or sum(found) != sum(ends) + 1:
                faults.append(f"the queues end at {found}, not at {ends}")
            row.add(format_cannot_tell=1)
        elif not store.writable:
            faults.append(f"not writable: {store.fault}")
        elif [send(store, b"next", TOPIC, queue_id).queue_offset for queue_id in range(QUEUES)] != ends:
            faults.append("the next message has a wrong offset")
        return [what + fault for fault in faults]
    finally:
        store.abandon()


# Row 7


def flips(victim: Victim, hit: int, chance: random.Random) -> Iterator[tuple[str, int, int]]:
    """(file, bit, message number or -1): every bit of one message and its queue unit, of the heads and tables."""
    place = victim.messages[hit].place
    unit = victim.messages[hit].place.queue_offset % 10 * 20
    queue = f"consumequeue/{TOPIC}/{victim.messages[hit].queue_id}/{place.queue_offset // 10 * 200:020d}"
    index = next(name for name in victim.files if name.startswith("index/"))
    segment = f"commitlog/{place.physical_offset // 4096 * 4096:020d}"
    start = place.physical_offset % 4096
    ranges = [
        (segment, range(start, start + place.size), hit),
        (queue, range(unit, unit + 20), hit),
        (index, range(40), -1),
        ("checkpoint", range(48), -1),
        (TABLE, range(len(victim.files[TABLE])), -1),
    ]
    for name, places, number in ranges:
        for at in places if name in victim.files else ():
            for bit in range(8):
                yield name, at * 8 + bit, number
    while True:  # anything, anywhere
        name = chance.choice(sorted(victim.files))
        if victim.files[name]:
            yield name, chance.randrange(len(victim.files[name]) * 8), -2


@pytest.mark.parametrize("hit", [20, 36], ids=["an old message", "a new message"])
@pytest.mark.parametrize("stop", ["killed", "clean", "queues lost"])
def test_flipped_bits(quick_folder: Path, stop: str, hit: int) -> None:
    victim = kill_a_store(quick_folder / "made", 41, clean=stop == "clean")
    victim.messages.pop()  # the checkpoint vouches for all before it; behind damage it is taken for a torn write
    if stop == "queues lost":
        victim.files = {name: data for name, data in victim.files.items() if not name.startswith("consumequeue/")}
    named = sum(1 for _ in itertools.takewhile(lambda found: found[2] != -2, flips(victim, hit, random.Random(0))))
    with Row(7, f"flipped bits, {stop}, message {hit}", trimmed=named // 5, full=named + 10_000) as row:
        points = flips(victim, hit, row.chance)
        if share() is None:  # every fifth, beginning anywhere
            points = itertools.islice(points, row.chance.randrange(5), None, 5)
        for number in row.each():
            name, at, number_hit = next(points)
            found = flip(row, victim, quick_folder, name, at, number_hit)
            if found and stop == "queues lost" and names_another_place(victim, name, at // 8):
                row.add(format_cannot_tell=1)
                continue
            row.violations += [f"flip {number}, {name} bit {at}: {fault}" for fault in found]


def flip(row: Row, victim: Victim, folder: Path, name: str, at: int, hit: int) -> list[str]:
    data = bytearray(victim.files[name])
    data[at // 8] ^= 1 << at % 8
    root = folder / "flipped"
    victim.lay_out(root, **{name: bytes(data)})
    if hit == -2:
        hit = message_at(victim, name, at // 8)
    before = {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()}
    try:
        store = victim.open(root)
    except StoreError as error:
        after = {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()}
        return [f"refused ({error})" + ("" if after == before else ", and the log was changed")]
    except Exception as error:
        return [f"{error!r} came out of the start"]
    try:
        if name.startswith("commitlog/"):
            faults = flipped_record_faults(row, victim, store, hit)
        elif name.startswith("config/"):
            faults = flipped_table_faults(row, root, name)
        else:
            faults = flipped_helper_faults(row, victim, store, root, name, at)
        store.maintain(thorough=True)
        return faults
    except Exception as error:
        return [f"{error!r} came out of a read"]
    finally:
        store.abandon()


def flipped_record_faults(row: Row, victim: Victim, store: Store, hit: int) -> list[str]:
    """It costs no other message, and what it did to its own is found where the format can tell."""
    faults = victim.judge(store, but=hit)
    if hit >= 0:
        one = victim.messages[hit]
        found = read_one(store, one.queue_id, one.place.queue_offset)
        if found is not None and found.body != one.body:
            faults.append(f"the damaged body was served: {found.body!r}")
    row.add(read_only=0 if store.writable else 1)
    return faults


def flipped_table_faults(row: Row, root: Path, name: str) -> list[str]:
    """The newest copy, or the one before it: one of the two is sound, so nothing is refused."""
    try:
        table = TableFile(QuickFs(), str(root / TABLE)).load()
    except StoreError as error:
        return [f"the table is refused: {error}"]
    if table == {"number": 2} or (table == {"number": 1} and name == TABLE):
        return []
    if name == TABLE and table is not None:
        row.add(format_cannot_tell=1, still_json=1)  # a flipped letter or digit; nothing in the file tells
        return []
    return [f"the table holds {table}"]


def flipped_helper_faults(row: Row, victim: Victim, store: Store, root: Path, name: str, at: int) -> list[str]:
    """Queues, index and checkpoint follow the log: nothing at all is lost."""
    faults = victim.judge_in_order(store)
    ends = [store.max_offset(TOPIC, queue_id) for queue_id in range(QUEUES)]
    if ends != victim.ends:
        faults.append(f"the queues end at {ends}, not at {victim.ends}")
    if not store.writable:
        faults.append(f"not writable: {store.fault}")
    lost = [one.key for one in victim.messages if not store.query(TOPIC, one.key, 8, 0, 1 << 60)]
    if lost and name.startswith("index/") and at // 8 >= INDEX_HEADER_SIZE:
        row.add(format_cannot_tell=1, index_entries=1)  # only who reads all entries sees that their chains are broken
    elif lost:
        faults.append(f"{lost} are not found")
    if name.startswith("consumequeue/") and units_of(root, victim, name) != units_of(None, victim, name):
        if at // 8 % UNIT_SIZE >= TAGS_CODE_AT:
            row.add(format_cannot_tell=1, tags_codes=1)  # to tell it, each read would parse the properties of a record
        else:
            faults.append("the file is not as it was")
    return faults


def units_of(root: Path | None, victim: Victim, name: str) -> bytes:
    """The units of messages in a queue's file, as they are or as they were; what stands behind them means nothing."""
    _, _, queue_id, start = name.split("/")
    data = victim.files[name] if root is None else (root / name).read_bytes()
    return data[: max(victim.ends[int(queue_id)] * UNIT_SIZE - int(start), 0)]


def names_another_place(victim: Victim, name: str, at: int) -> bool:
    """Whether these bytes say in which queue a message stands, and where: no checksum covers them."""
    number = message_at(victim, name, at) if name.startswith("commitlog/") else -1
    place = int(name.split("/")[1]) + at - victim.messages[number].place.physical_offset if number >= 0 else 0
    return 12 <= place < 16 or 20 <= place < 28


def message_at(victim: Victim, name: str, at: int) -> int:
    """The message whose bytes or unit these are, or -1."""
    if name.startswith("commitlog/"):
        at += int(name.split("/")[1])
        return next((n for n, one in enumerate(victim.messages) if one.place[0] <= at < sum(one.place[:2])), -1)
    if name.startswith("consumequeue/"):
        _, _, queue_id, start = name.split("/")
        offset = (int(start) + at) // 20
        return next(
            (
                number
                for number, one in enumerate(victim.messages)
                if one.queue_id == int(queue_id) and one.place.queue_offset == offset
            ),
            -1,
        )
    return -1


# Row 8

PARTS = ("consumequeue", "index", "checkpoint", "abort", "config/table.json", "config/table.json.bak")


@pytest.mark.parametrize("how", ["gone", "zeros"])
@pytest.mark.parametrize("stop", ["killed", "clean"])
@pytest.mark.parametrize(("size", "count", "larger"), [("60 messages", 60, 1), ("600 larger ones", 600, 8)])
def test_parts_that_are_gone(quick_folder: Path, stop: str, how: str, size: str, count: int, larger: int) -> None:
    # The larger one has several files of the log, and indexes that are not full.
    config = {} if count == 60 else {"mapped_file_size_commit_log": 1 << 16, "max_index_num": 2_000}
    victim = kill_a_store(quick_folder / "made", count, clean=stop == "clean", larger=larger, **config)
    subsets = [subset for size in range(len(PARTS) + 1) for subset in itertools.combinations(PARTS, size)]
    with Row(8, f"parts {how}, {stop}, {size}", trimmed=16 if count == 60 else 2, full=len(subsets)) as row:
        row.chance.shuffle(subsets)
        for number in row.each():
            lost = subsets[number]
            names = [name for name in victim.files if name in lost or name.partition("/")[0] in lost]
            changed = {name: None if how == "gone" else bytes(len(victim.files[name])) for name in names}
            found = lose(victim, quick_folder / "left", changed, lost, how)
            row.violations += [f"{how} {lost}: {fault}" for fault in found]


def lose(victim: Victim, root: Path, changed: dict[str, bytes | None], lost: tuple[str, ...], how: str) -> list[str]:
    victim.lay_out(root, **changed)
    try:
        store = victim.open(root)
    except Exception as error:
        return [f"the store does not open: {error!r}"]
    faults = victim.judge(store)
    faults += [f"{one.key} is not found" for one in victim.messages if not store.query(TOPIC, one.key, 8, 0, 1 << 60)]
    if not store.writable:
        faults.append(f"not writable: {store.fault}")
    store.close()
    for name, data in victim.files.items():
        if name.startswith("consumequeue/") and (root / name).read_bytes() != data:
            faults.append(f"{name} is not as it was")
    return faults + table_faults(root, lost, how)


def table_faults(root: Path, lost: tuple[str, ...], how: str) -> list[str]:
    newest, backup = TABLE not in lost, f"{TABLE}.bak" not in lost
    expected: object = 2 if newest else 1 if backup else None if how == "gone" else StoreError
    try:
        table = TableFile(QuickFs(), str(root / TABLE)).load()
        found: object = None if table is None else table["number"]
    except StoreError:
        found = StoreError
    return [] if found == expected else [f"the table holds {found}, not {expected}"]
