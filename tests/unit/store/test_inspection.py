"""Looking at a store: what is sound is called sound, what is not is named, and what can be mended is mended."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from tests.unit.store.kit import SEGMENT_SIZE, HandClock, bodies, open_small, read_all, send, settle

from cometmq.cli import main
from cometmq.store.fs import Buffer, OsFs
from cometmq.store.inspection import plan
from cometmq.store.inspection.placeholders import SENTENCE

CONFIG = "maxHashSlotNum=16\nmaxIndexNum=64\n"
COUNT = 40


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def content(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "lock"}


def body_of(number: int) -> bytes:
    return b"%d " % number * 40


class Folder:
    """A store of two queues that was stopped or killed, and the command that looks at it."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str], *, clean: bool = True) -> None:
        self.root = root / "store"
        self.capsys = capsys
        self.config = root / "broker.conf"
        self.config.write_text(CONFIG)
        clock = HandClock()
        store = open_small(self.root, clock=clock)
        self.places = []
        for number in range(COUNT):
            clock.ms += 10
            data = f"KEYS\x01k{number}\x02TAGS\x01t{number % 3}\x02".encode()
            fields = {"keys": f"k{number}", "tags": f"t{number % 3}"}
            self.places.append(send(store, body_of(number), queue_id=number % 2, properties_data=data, **fields))
            settle(store)
        store.maintain(thorough=True)
        store.close() if clean else store.abandon()
        config = self.root / "config"
        config.mkdir(exist_ok=True)
        topic = {"topicName": "T", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
        (config / "topics.json").write_bytes(orjson.dumps({"topicConfigTable": {"T": topic}}))

    def log(self, start: int = 0) -> Path:
        return self.root / "commitlog" / f"{start:020d}"

    def run(self, *arguments: str) -> tuple[int, str, str]:
        code = main(["store", arguments[0], str(self.root), "-c", str(self.config), *arguments[1:]])
        out, err = self.capsys.readouterr()
        return code, out, err


@pytest.fixture(params=[True, False], ids=["stopped", "killed"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Folder:
    return Folder(tmp_path, capsys, clean=request.param)


def test_a_sound_store_is_sound_and_stays_as_it_is(folder: Folder) -> None:
    before = content(folder.root)
    code, out, _ = folder.run("check")
    assert code == 0, out
    assert f"{COUNT} messages" in out and "BAD" not in out and out.endswith("sound\n")
    code, out, _ = folder.run("check", "--json")
    assert code == 0 and json.loads(out)["sound"]
    code, out, _ = folder.run("repair")
    assert code == 0 and "nothing to repair" in out
    assert content(folder.root) == before


def test_no_store_and_an_open_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Folder(tmp_path, capsys)
    assert main(["store", "check", str(tmp_path)]) == 2
    assert "no folder commitlog" in capsys.readouterr().err
    store = open_small(folder.root)
    command = [sys.executable, "-m", "cometmq.cli", "store", "check", str(folder.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "a broker has this store open" in done.stderr
    store.close()


@pytest.mark.parametrize("seed", range(8))
def test_damage_is_named_and_mended(folder: Folder, seed: int) -> None:
    """Bytes of the log change; repaired, all other messages are there at their offsets, and new ones are taken."""
    chance = random.Random(seed)
    place = chance.choice(folder.places[3:-3])
    hit, size = place[0] + chance.choice([0, 4, 28, 100]), chance.choice([4, 60, 500])
    size = min(size, SEGMENT_SIZE - hit % SEGMENT_SIZE)
    patch(folder.log(hit - hit % SEGMENT_SIZE), hit % SEGMENT_SIZE, chance.randbytes(size))
    if chance.random() < 0.4:
        shutil.rmtree(folder.root / "consumequeue")
    lost = {number for number, at in enumerate(folder.places) if at[0] < hit + size and hit < sum(at[:2])}
    code, out, _ = folder.run("check")
    assert code == 1 and "damaged at byte" in out, out
    before = content(folder.root)
    code, out, _ = folder.run("repair")
    assert code == 1 and "nothing was changed" in out
    assert content(folder.root) == before
    code, out, _ = folder.run("repair", "--apply")
    assert code == 0 and out.endswith("sound\n"), out
    assert folder.run("check")[0] == 0
    assert list((folder.root / "damaged").iterdir())
    for _ in range(2):  # as it was left, and after a kill
        store = open_small(folder.root)
        assert not store.damages and store.writable
        for queue_id in range(2):
            found = read_all(store, queue_id=queue_id)
            assert [record.queue_offset for record in found] == list(range(COUNT // 2))
            for record in found:
                number = record.queue_offset * 2 + queue_id
                if number in lost:
                    assert record.body.rstrip() == SENTENCE[: len(record.body)].rstrip()
                else:
                    assert record.body == body_of(number)
        store.abandon()


def test_a_lost_file_of_the_log_is_filled(folder: Folder) -> None:
    folder.log(SEGMENT_SIZE).unlink()
    gone = [number for number, place in enumerate(folder.places) if SEGMENT_SIZE <= place[0] < 2 * SEGMENT_SIZE]
    code, out, _ = folder.run("check")
    assert code == 1 and f"{SEGMENT_SIZE:020d} is missing" in out
    code, out, _ = folder.run("repair", "--apply")
    assert code == 0, out
    store = open_small(folder.root)
    for queue_id in range(2):
        found = bodies(store, queue_id=queue_id)
        assert len(found) == COUNT // 2
        assert [number for number, body in enumerate(found) if b"damaged" in body] == [
            number // 2 for number in gone if number % 2 == queue_id
        ]
    store.close()


def test_units_are_put_right(folder: Folder) -> None:
    queues = {path: path.read_bytes() for path in folder.root.glob("consumequeue/*/*/*")}
    path = min(queues)
    patch(path, 3 * 20 + 7, b"\x55")  # a place
    patch(path, 5 * 20 + 15, b"\x55")  # a tag
    code, out, _ = folder.run("check")
    assert code == 1 and "T/0 has 2 wrong units, the first is number 3" in out
    assert folder.run("repair", "--apply")[0] == 0
    assert {path: path.read_bytes() for path in queues} == queues
    path.unlink()
    code, out, _ = folder.run("repair", "--apply")
    assert code == 0, out
    store = open_small(folder.root)
    assert bodies(store) == [body_of(number) for number in range(0, COUNT, 2)]
    store.close()


@pytest.mark.parametrize("bit", range(8))
def test_no_bit_of_a_unit_flips_unseen(folder: Folder, bit: int) -> None:
    """In each of twenty units another byte, the tags code's among them."""
    queues = {path: path.read_bytes() for path in folder.root.glob("consumequeue/*/*/*")}
    for number in range(20):
        path = sorted(queues)[number // 10]
        at = number % 10 * 20 + number
        patch(path, at, bytes([queues[path][at] ^ 1 << bit]))
    code, out, _ = folder.run("check")
    assert code == 1 and "T/0 has 20 wrong units, the first is number 0" in out
    assert folder.run("repair", "--apply")[0] == 0
    assert {path: path.read_bytes() for path in queues} == queues
    assert folder.run("check")[0] == 0


def test_a_damaged_header_of_the_index_is_noted(folder: Folder) -> None:
    path = max((folder.root / "index").iterdir())
    patch(path, 0, b"\x01")
    code, out, _ = folder.run("check")
    assert code == 0 and f"{path}: its header is not what its entries say" in out
    open_small(folder.root).close()
    assert "its header" not in folder.run("check")[1]


def test_the_index(folder: Folder) -> None:
    path = min((folder.root / "index").iterdir())
    patch(path, 40 + 16 * 4 + 20 * 5 + 16, b"\x00\x00\x00\x63")  # what entry 5 says is older
    code, out, _ = folder.run("check")
    assert code == 1 and "entry 5 of" in out, out
    code, out, _ = folder.run("repair", "--apply")
    assert code == 1 and "left: remove the index" in out and "--accept-loss" in out
    assert folder.run("repair", "--apply", "--accept-loss")[0] == 0
    store = open_small(folder.root)
    assert all(store.query("T", f"k{number}", 8, 0, 1 << 60) for number in range(COUNT))
    store.close()


def test_tables(folder: Folder) -> None:
    config = folder.root / "config"
    (config / "consumerOffset.json").write_text("{")
    (config / "consumerOffset.json.bak").write_text('{"offsetTable":{}}')
    (config / "subscriptionGroup.json").write_text("nothing")
    (config / "topics.json").write_text("\x00")
    code, out, _ = folder.run("check")
    assert code == 1 and "subscriptionGroup.json cannot be read" in out and "topics.json cannot be read" in out
    code, out, _ = folder.run("repair", "--apply")
    assert code == 1 and "left: " in out and "costs: settings of consumer groups" in out
    assert (config / "consumerOffset.json").read_text().startswith("{")
    assert folder.run("repair", "--apply", "--accept-loss")[0] == 0
    assert json.loads((config / "topics.json").read_text())["topicConfigTable"]["T"]["writeQueueNums"] == 2
    assert (config / "subscriptionGroup.json.damaged").read_text() == "nothing"
    assert folder.run("check")[0] == 0


def test_dump(folder: Folder) -> None:
    code, out, _ = folder.run("dump")
    assert code == 0 and len(out.splitlines()) == COUNT
    code, out, _ = folder.run("dump", "--topic", "T", "--queue", "1", "--offset", "3", "--offset-end", "6", "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert [(record["queueId"], record["queueOffset"]) for record in found] == [(1, 3), (1, 4), (1, 5)]
    assert found[0]["body"].encode() == body_of(7) and found[0]["properties"]["KEYS"] == "k7"
    _, out, _ = folder.run("dump", "--key", "k9", "--json")
    assert json.loads(out)["physicalOffset"] == folder.places[9][0]
    first, last = folder.places[20][0], folder.places[23][0]
    _, out, _ = folder.run("dump", "--physical", str(first), "--physical-end", str(last))
    assert [int(line.split()[0]) for line in out.splitlines()] == [place[0] for place in folder.places[20:23]]
    assert len(folder.run("dump", "--limit", "2")[1].splitlines()) == 2
    patch(folder.log(), folder.places[5][0] + 100, b"\xff")
    code, out, err = folder.run("dump")
    assert code == 1 and len(out.splitlines()) == COUNT - 1
    assert f"bytes {folder.places[5][0]} to {folder.places[6][0]}" in err


def test_garbage_everywhere_is_reported_not_raised(folder: Folder) -> None:
    chance = random.Random(5)
    files = [path for path in folder.root.rglob("*") if path.is_file() and path.stat().st_size]
    for path in files:
        whole = path.read_bytes()
        for _ in range(2):
            at = chance.randrange(len(whole))
            patch(path, at, chance.randbytes(chance.choice([1, 8, 300]))[: len(whole) - at])
            for command in ("check", "dump", "repair"):
                assert folder.run(command)[0] in (0, 1, 2)
            path.write_bytes(whole)


def spoil(folder: Folder, number: int, at: int = 100) -> None:
    place = folder.places[number].physical_offset + at
    patch(folder.log(place - place % SEGMENT_SIZE), place % SEGMENT_SIZE, b"\xff\xfe\xfd")


@pytest.mark.parametrize("queues", ["there", "lost"])
def test_each_damage_is_told_with_its_own_losses(folder: Folder, queues: str) -> None:
    if queues == "lost":
        shutil.rmtree(folder.root / "consumequeue")
    for number in (3, 7, 30):
        spoil(folder, number)
    code, out, _ = folder.run("repair")
    assert code == 1 and out.count("takes the place of 1 lost message of T") == 3, out
    code, out, _ = folder.run("repair", "--apply")
    assert code == 0, out
    store = open_small(folder.root)
    for queue_id in range(2):
        found = bodies(store, queue_id=queue_id)
        lost = [number for number, body in enumerate(found) if body != body_of(number * 2 + queue_id)]
        assert len(found) == COUNT // 2 and lost == ([1, 3] if queue_id else [15])
    store.close()


def test_a_message_that_two_damages_may_have_had_is_told_once(folder: Folder) -> None:
    """Without units nobody can say in which of them it stood."""
    shutil.rmtree(folder.root / "consumequeue")
    spoil(folder, 4)
    spoil(folder, 6)  # the next of its queue; between them stands one of the other queue
    code, out, _ = folder.run("repair")
    assert code == 1 and "place of 2 lost messages" in out and "place of no message we know of" in out, out
    assert folder.run("repair", "--apply")[0] == 0
    store = open_small(folder.root)
    assert [len(bodies(store, queue_id=queue_id)) for queue_id in range(2)] == [COUNT // 2] * 2
    store.close()


def test_a_second_repair_keeps_the_copies_of_the_first(folder: Folder) -> None:
    copies = folder.root / "damaged"
    kept: dict[str, bytes] = {}
    for number in range(3):
        spoil(folder, 5, at=100 + number)
        assert folder.run("repair", "--apply")[0] == 0
        now = {path.name: path.read_bytes() for path in copies.iterdir()}
        assert len(now) == number + 1 and kept.items() <= now.items()
        kept = now


class NotingFs(OsFs):
    """Notes in which order files are written and names are synced."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        self.notes.append(("write", str(Path(f"/proc/self/fd/{fd}").readlink())))
        return super().pwrite(fd, data, offset)

    def fsync_dir(self, path: str) -> None:
        self.notes.append(("names", path))
        super().fsync_dir(path)


def test_names_are_synced_before_the_damage_is_gone(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = NotingFs()
    monkeypatch.setattr(plan, "OsFs", lambda: fs)
    spoil(folder, 5)
    shutil.rmtree(folder.root / "consumequeue")
    assert folder.run("repair", "--apply")[0] == 0
    overwritten = fs.notes.index(("write", str(folder.log())))
    assert ("names", str(folder.root)) in fs.notes[:overwritten]
    copied = [number for number, (what, path) in enumerate(fs.notes) if what == "write" and "/damaged/" in path]
    assert copied and ("names", f"{folder.root}/damaged") in fs.notes[copied[-1] : overwritten]
