"""What opening a store costs after a kill: seconds for each GiB of 1 KiB messages that has to be replayed.

    .venv/bin/python bench/micro_replay.py [--mib 256] [--case kill]

    kill      as a kill leaves it: the queues are written up to the last second, the index up to the last minute
    queues    the queues are lost, the index is there
    all       queues, index and checkpoint are lost: everything is rebuilt

Wall time and processor time; the smaller of the rounds, for the neighbours on the machine come and go.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from cometmq.store.config import ASYNC_FLUSH, StoreConfig
from cometmq.store.engine import Store
from cometmq.wire.record import pack_host

HOST: Final = pack_host("127.0.0.1", 10911)
CASES: Final = {"kill": (), "queues": ("consumequeue",), "all": ("consumequeue", "index", "checkpoint")}
TURN: Final = 64


def fill(config: StoreConfig, size: int) -> int:
    """Send until the log has `size` bytes, then let go as a killed process does; returns the bytes."""
    store = Store.open(config, store_host=HOST)
    body = bytes(range(256)) * 4
    sent = 0
    while store.written_offset < size:
        for number in range(sent, sent + TURN):
            key = f"7F000001{number:024X}"
            data = f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02TAGS\x01tag{number % 10}\x02".encode()
            store.append("BenchmarkTest", number & 7, body, data, f"tag{number % 10}", None, key, born_host=HOST)
        sent += TURN
        store.write()
        store.dispatch()
    store.flush_log()
    store.maintain()
    written = store.written_offset
    store.abandon()
    return written


def measure(size: int, case: str, rounds: int) -> dict[str, float | str]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "store")
        config = StoreConfig(store_path_root_dir=str(root), flush_disk_type=ASYNC_FLUSH)
        written = fill(config, size)
        for lost in CASES[case]:
            path = root / lost
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        wall, processor = [], []
        for _ in range(rounds):
            saved = Path(folder, "saved")
            shutil.copytree(root, saved, ignore=shutil.ignore_patterns("commitlog"))
            began, began_processor = time.perf_counter(), time.thread_time()
            store = Store.open(config, store_host=HOST)
            wall.append(time.perf_counter() - began)
            processor.append(time.thread_time() - began_processor)
            store.abandon()
            for path in root.iterdir():
                if path.name != "commitlog":
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            shutil.copytree(saved, root, dirs_exist_ok=True)
            shutil.rmtree(saved)
    gib = written / (1 << 30)
    return {"case": case, "s_per_gib": round(min(wall) / gib, 2), "processor_s_per_gib": round(min(processor) / gib, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    for case in args.case or CASES:
        print(json.dumps(measure(args.mib << 20, case, args.rounds)))


if __name__ == "__main__":
    main()
