"""Log files without a broker: every cut gives the same rows; ends, torn writes, damage and look-alikes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.columns.log_kit import read_log, write_log
from tests.unit.columns.records import make_record

from cometmq.columns.log_files import check_gaps, find_end, find_files
from cometmq.errors import CorruptRecord, StoreError

BODIES = [bytes([number]) * (number * 37 % 400) for number in range(60)]
ALL = list(range(60))


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("range_size", [40, 91, 500, 1999, 1 << 40])
def test_every_cut_gives_every_row(tmp_path: Path, range_size: int, pure: bool) -> None:
    write_log(tmp_path, BODIES, spare=True)
    assert read_log(tmp_path, range_size=range_size, pure=pure) == (ALL, [])
    assert read_log(tmp_path / "commitlog", range_size=range_size)[0] == ALL


def test_old_files_are_gone(tmp_path: Path) -> None:
    paths = write_log(tmp_path, BODIES)
    paths[0].unlink()
    offsets, _ = read_log(tmp_path)
    assert offsets == list(range(offsets[0], 60))


def test_an_empty_log(tmp_path: Path) -> None:
    write_log(tmp_path, [])
    assert read_log(tmp_path) == ([], [])


def test_a_file_in_the_making(tmp_path: Path) -> None:
    paths = write_log(tmp_path, BODIES)
    (paths[0].parent / f"{len(paths) * 2000:020d}").write_bytes(b"")
    assert read_log(tmp_path)[0] == ALL


def test_a_torn_tail_is_told(tmp_path: Path) -> None:
    *_, last = write_log(tmp_path, BODIES)
    before = find_end(find_files(str(tmp_path)))
    torn = make_record(offset=60, position=before.file.start + before.end)[:70]
    data = bytearray(last.read_bytes())
    data[before.end : before.end + 70] = torn
    last.write_bytes(data)
    tail = find_end(find_files(str(tmp_path)))
    assert tail.end == before.end
    assert 60 < tail.torn_size <= 70  # zeros at its end cannot be told from what was never written
    assert read_log(tmp_path)[0] == ALL


@pytest.mark.parametrize("range_size", [60, 500, 1 << 40])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_damage_is_never_passed_over_silently(tmp_path: Path, range_size: int, number: int) -> None:
    path = write_log(tmp_path, BODIES)[number]
    data = bytearray(path.read_bytes())
    data[300:340] = b"\xee" * 40
    path.write_bytes(data)
    with pytest.raises(CorruptRecord, match="failOnDataLoss=false"):
        read_log(tmp_path, range_size=range_size)
    offsets, said = read_log(tmp_path, range_size=range_size, skip_damage=True)
    assert 1 <= len(set(ALL) - set(offsets)) <= 2
    assert sorted(offsets) == offsets
    assert len(said) == 1
    assert path.name in said[0]


def test_damage_anywhere(tmp_path: Path) -> None:
    """One flipped bit loses no row unsaid; topic, times and the like are under no checksum."""
    (path,) = write_log(tmp_path, BODIES[:5], file_size=4000)
    sound = path.read_bytes()
    end = find_end(find_files(str(tmp_path))).end
    for at in range(0, end, 7):
        broken = bytearray(sound)
        broken[at] ^= 0x40
        path.write_bytes(broken)
        tail = find_end(find_files(str(tmp_path)))
        offsets, said = read_log(tmp_path, skip_damage=True)
        assert len(offsets) == 5 or said or tail.torn_size, at


def test_zeros_in_the_middle(tmp_path: Path) -> None:
    first, *_ = write_log(tmp_path, BODIES)
    first.write_bytes(first.read_bytes()[:1000].ljust(2000, b"\0"))
    with pytest.raises(CorruptRecord):
        read_log(tmp_path)
    _, said = read_log(tmp_path, skip_damage=True)
    assert said


def test_a_missing_and_a_short_file(tmp_path: Path) -> None:
    paths = write_log(tmp_path, BODIES)
    assert check_gaps(find_files(str(tmp_path))) == []
    paths[1].unlink()
    (gap,) = check_gaps(find_files(str(tmp_path)))
    assert "2000 bytes of the log are missing" in gap
    paths[0].write_bytes(paths[0].read_bytes()[:1500])
    (gap,) = check_gaps(find_files(str(tmp_path)))
    assert "2500 bytes" in gap


def test_a_body_that_looks_like_a_record(tmp_path: Path) -> None:
    """Written on purpose, at the place that it claims: read in one piece it is a body, and a cut there is refused."""
    decoy_at = 88 + 100
    decoy = make_record(body=b"", offset=999, position=decoy_at)
    write_log(tmp_path, [b"\0" * 100 + decoy + b"\0" * 100, b"next"])
    assert read_log(tmp_path, range_size=1 << 40)[0] == [0, 1]
    with pytest.raises(CorruptRecord, match="splitFiles=false"):
        read_log(tmp_path, range_size=150)


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="20 digits"):
        find_files(str(tmp_path))
    with pytest.raises(StoreError, match="not a folder"):
        find_files(str(tmp_path / "absent"))
