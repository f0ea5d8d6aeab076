"""What one message costs in the store: append, write and dispatch of 1 KiB, in microseconds.

    .venv/bin/python bench/micro_store.py [--messages 200000] [--turn 64] [--keys]

The log is written with ASYNC_FLUSH, so the disk is not measured; `--turn` messages share one write, as in one turn
of the event loop.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time

from cometmq.store.config import ASYNC_FLUSH, StoreConfig
from cometmq.store.engine import Store
from cometmq.wire.record import pack_host


def measure(messages: int, turn: int, *, body_size: int, indexed: bool) -> dict[str, float]:
    """Microseconds per message, by step."""
    host = pack_host("127.0.0.1", 10911)
    body = bytes(range(256)) * (body_size // 256)
    spent = {"append": 0, "write": 0, "dispatch": 0}
    clock = time.thread_time_ns  # the processor, not the neighbours
    with tempfile.TemporaryDirectory() as root:
        config = StoreConfig(store_path_root_dir=root, flush_disk_type=ASYNC_FLUSH, message_index_enable=indexed)
        store = Store.open(config, store_host=host)
        append = store.append
        for first in range(0, messages, turn):
            began = clock()
            for number in range(first, first + turn):
                uniq_key = f"7F000001{number:024X}"
                data = f"UNIQ_KEY\x01{uniq_key}\x02WAIT\x01true\x02".encode()
                append(
                    "BenchmarkTest", number & 7, body, data, None, None, uniq_key, 0, 0, 1_700_000_000_000, host, 0, 0
                )
            appended = clock()
            store.write()
            written = clock()
            store.dispatch()
            dispatched = clock()
            spent["append"] += appended - began
            spent["write"] += written - appended
            spent["dispatch"] += dispatched - written
        began = clock()
        store.close()
        closed = clock() - began
        began = clock()
        Store.open(config, store_host=host).close()
        reopened = clock() - began
    result = {step: round(nanoseconds / messages / 1000, 2) for step, nanoseconds in spent.items()}
    result["total"] = round(sum(spent.values()) / messages / 1000, 2)
    result["close_ms"] = round(closed / 1e6, 1)
    result["reopen_ms"] = round(reopened / 1e6, 1)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--turn", type=int, default=64)
    parser.add_argument("--body-size", type=int, default=1024)
    parser.add_argument("--no-index", action="store_true")
    args = parser.parse_args()
    print(json.dumps(measure(args.messages, args.turn, body_size=args.body_size, indexed=not args.no_index)))


if __name__ == "__main__":
    main()
