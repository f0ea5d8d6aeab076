"""What opening a store costs after a kill: seconds for each GiB of 1 KiB messages that has to be replayed.

    .venv/bin/python -m bench.micro_replay [--mib 256] [--case kill] [--save]

    kill      as a kill leaves it: the queues are written up to the last second, the index up to the last minute
    queues    the queues are lost, the index is there
    all       queues, index and checkpoint are lost: everything is rebuilt

With the compiled extension, and without it. Wall time and processor time; the smaller of the rounds, for the neighbours
on the machine come and go. `--save` keeps the result in the tree. Exit code 1: more than `LIMIT_S_PER_GIB`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.results import Result, Run
from cometmq import compiled
from cometmq.store.config import ASYNC_FLUSH, StoreConfig
from cometmq.store.engine import Store
from cometmq.wire.record import pack_host

LATEST: Final = "replay/latest"
LIMIT_S_PER_GIB: Final = 5.0
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


def measure(size: int, case: str, rounds: int) -> dict[str, float]:
    """Of one case, by the twins that this process has."""
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
    return {"s_per_gib": round(min(wall) / gib, 2), "processor_s_per_gib": round(min(processor) / gib, 2)}


def measure_pure(size: int, case: str, rounds: int) -> dict[str, float]:
    """The same in a process without the extension."""
    call = (
        f"import json; from bench.micro_replay import measure; print(json.dumps(measure({size}, {case!r}, {rounds})))"
    )
    environment = os.environ | {"COMETMQ_PURE": "1"}
    done = subprocess.run([sys.executable, "-c", call], env=environment, capture_output=True, text=True, check=True)
    return dict[str, float](json.loads(done.stdout))


def misses(result: Result) -> list[str]:
    """What takes too long."""
    return [
        f"{run.side}, {run.workload}: {run.values['s_per_gib']} s per GiB; {LIMIT_S_PER_GIB:g} are allowed"
        for run in result.runs
        if run.values["s_per_gib"] > LIMIT_S_PER_GIB
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.micro_replay", description="Opening a store after a kill.")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--save", action="store_true", help=f"as bench/results/{LATEST}.json")
    args = parser.parse_args(arguments)
    result = Result.begin(LATEST, 0, args.rounds, {"mib": args.mib, "limit_s_per_gib": LIMIT_S_PER_GIB})
    for case in args.case or CASES:
        if compiled.twins is not None:
            result.runs.append(Run("comet", 1, case, measure(args.mib << 20, case, args.rounds)))
        result.runs.append(Run("pure", 1, case, measure_pure(args.mib << 20, case, args.rounds)))
    if args.save:
        result.save()
    for run in result.runs:
        print(run.side, run.workload, json.dumps(run.values))
    print("\n".join(misses(result)) or "PASS")
    return 1 if misses(result) else 0


if __name__ == "__main__":
    sys.exit(main())
