"""Damage in the middle of the log: nothing is cut off, everything else is read, and nothing more is taken."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.unit.store.kit import SEGMENT_SIZE, HandClock, QuickFs, bodies, open_small, read_all, send, settle

from cometmq.errors import StoreNotWritable
from cometmq.store.append import Appended
from cometmq.store.engine import Store


def segment(root: Path, start: int = 0) -> Path:
    return root / "commitlog" / f"{start:020d}"


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def killed_store(root: Path, count: int, size: int = 200) -> list[Appended]:
    """A store killed some time after its last message; returns where they are."""
    clock = HandClock()
    store = open_small(root, clock=clock)
    places = []
    for number in range(count):
        clock.ms += 10
        places.append(send(store, bytes([number + 1]) * size, queue_id=number % 2, keys=f"k{number}"))
        settle(store)
    store.maintain()
    store.abandon()
    return places


def log_of(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()}


def all_bodies(store: Store) -> list[bytes]:
    return bodies(store, queue_id=0) + bodies(store, queue_id=1)


@pytest.mark.parametrize("lost", [[], ["consumequeue"], ["index"], ["consumequeue", "index"]], ids=str)
@pytest.mark.parametrize("damage", [b"\xff", bytes(700)], ids=["a byte", "three messages"])
def test_the_rest_is_read_and_nothing_is_taken(tmp_path: Path, damage: bytes, lost: list[str]) -> None:
    places = killed_store(tmp_path, 40)
    hit = places[5].physical_offset + 100
    patch(segment(tmp_path), hit, damage)
    gone = {number for number, place in enumerate(places) if hit < sum(place[:2]) and place[0] < hit + len(damage)}
    before = log_of(tmp_path)
    for name in lost:
        shutil.rmtree(tmp_path / name)
    for _ in range(2):  # the second start finds what the first found
        store = open_small(tmp_path)
        (found,) = store.damages
        assert (found.at, found.end) == (places[5].physical_offset, places[max(gone) + 1].physical_offset)
        assert str(segment(tmp_path)) in (store.fault or "") and f"byte {found.at}" in (store.fault or "")
        with pytest.raises(StoreNotWritable, match="cometmq store repair"):
            send(store, b"new")
        for refused in (store.write, store.flush_log):
            with pytest.raises(StoreNotWritable):
                refused()
        if lost == ["index"] or not lost:  # the queues name the lost ones, too
            for number, place in enumerate(places):
                result = store.read("T", number % 2, place.queue_offset, 1)
                # Of the first the body alone is damaged: whoever reads it sees that. The others are passed over.
                assert result.ranges == ([place[:2]] if number not in gone or number == min(gone) else [])
                assert result.next_offset == place.queue_offset + 1
        else:
            wanted = [bytes([number + 1]) * 200 for number in range(40) if number not in gone]
            assert sorted(all_bodies(store)) == sorted(wanted)
            assert [record.queue_offset for record in read_all(store)] == [
                place.queue_offset for number, place in enumerate(places) if number % 2 == 0 and number not in gone
            ]
        for number in range(40):
            assert number in gone or store.query("T", f"k{number}", 8, 0, 1 << 60), number
        store.maintain(thorough=True)
        assert store.clean_expired() == []
        store.close()
        assert (tmp_path / "abort").exists()
        assert log_of(tmp_path) == before


def test_damage_at_a_segments_end_and_in_several_places(tmp_path: Path) -> None:
    places = killed_store(tmp_path, 60)
    by_segment = {place.physical_offset // SEGMENT_SIZE: place for place in places}
    last_of_first, last_of_second = by_segment[0], by_segment[1]
    patch(segment(tmp_path), last_of_first.physical_offset + 20, b"\xaa" * (SEGMENT_SIZE - last_of_first[0] - 20))
    patch(segment(tmp_path, SEGMENT_SIZE), 4, b"\xaa" * 4)  # and the first of the next
    patch(segment(tmp_path, SEGMENT_SIZE), last_of_second[0] % SEGMENT_SIZE + 100, b"\xaa")
    store = open_small(tmp_path)
    first, second = store.damages
    assert (first.start, first.end) == (last_of_first[0], SEGMENT_SIZE + last_of_first.size)
    assert second.start == last_of_second[0] and second.end == 2 * SEGMENT_SIZE
    assert "1 more place" in (store.fault or "")
    store.close()


@pytest.mark.parametrize("behind", ["new", "old"])
def test_a_torn_write_is_no_damage(tmp_path: Path, behind: str) -> None:
    """Sound messages behind the tear were never synced, or are leftovers: they go, as in the original."""
    clock = HandClock()
    store = open_small(tmp_path, clock=clock)
    first = send(store, b"a" * 50)
    settle(store)
    clock.ms += 10
    if behind == "old":
        send(store, b"stale" * 10)
        stale = send(store, b"stale" * 10)
        settle(store)
        old = segment(tmp_path).read_bytes()[stale[0] :]
    store.abandon()
    if behind == "old":  # as Java leaves it: cut before the stale ones, then one shorter message written
        patch(segment(tmp_path), first.size, bytes(SEGMENT_SIZE - first.size))
    store = open_small(tmp_path, clock=clock)
    clock.ms += 10
    send(store, b"b" * 20)
    settle(store)
    clock.ms += 10
    store.maintain()  # what is synced is known; what comes now is not
    end = store.written_offset
    if behind == "new":
        send(store, b"c" * 50)
        send(store, b"d" * 50)
        store.write()
    store.abandon()
    if behind == "old":
        patch(segment(tmp_path), stale[0], old[: SEGMENT_SIZE - stale[0]])
    patch(segment(tmp_path), end, b"torn")
    store = open_small(tmp_path, clock=clock)
    assert not store.damages and store.writable
    assert [len(body) for body in bodies(store)] == [50, 20]
    assert not any(segment(tmp_path).read_bytes()[end:])
    store.close()


@pytest.mark.parametrize("clean", [True, False])
def test_a_bit_of_a_last_unit_flips(tmp_path: Path, clean: bool) -> None:
    """The queue is as it was: the log knows better. An idle queue's last message may stand far back."""
    origin, root = tmp_path / "origin", tmp_path / "copy"
    clock = HandClock()
    store = open_small(origin, QuickFs(), clock)
    for number in range(7):
        send(store, b"%d" % number, topic="Idle")
    for _ in range(30):
        clock.ms += 5000
        send(store, bytes(500), topic="Busy")
        settle(store)
    store.maintain(thorough=True)
    store.close() if clean else store.abandon()
    path = Path("consumequeue", "Idle", "0", "0" * 20)
    whole = (origin / path).read_bytes()
    for bit in range(96):  # offset and size; a tag's hash is not to be told from another
        shutil.copytree(origin, root)
        data = bytearray(whole)
        data[120 + bit // 8] ^= 1 << bit % 8
        (root / path).write_bytes(data)
        store = open_small(root, clock=clock)
        assert bodies(store, "Idle") == [b"%d" % number for number in range(7)], bit
        assert store.next_offset("Idle", 0) == 7 and store.max_offset("Busy", 0) == 30
        store.close()
        assert (root / path).read_bytes() == whole, bit
        shutil.rmtree(root)
