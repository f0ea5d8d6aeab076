"""A broker process whose disk is slow or failing, when told so.

    with SickBroker(folder, flush="SYNC_FLUSH") as broker:
        broker.disk(sync_delay_s=2.0)      every sync takes that long
        broker.disk(sync_errno=errno.EIO)  the next sync of the log fails, those after it do not
        broker.failed_at()                 when it did, by `time.monotonic`, which all processes share
        broker.disk()                      the disk is well again

The process is the real one; only the port to the file system is wrapped, before anything opens it. It reads what is
wrong from a small file, before every sync.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.original import CometBroker

ROOT = Path(__file__).parents[3]


class SickBroker(CometBroker):
    """A `CometBroker` with a disk that can be made ill."""

    def __init__(self, directory: Path, *, flush: str, conf: Mapping[str, object] | None = None) -> None:
        super().__init__(directory, [], flush=flush, conf=conf)
        self.illness = self.dir / "illness.json"
        self.disk()

    def failed_at(self) -> float:
        """The moment just before the last failure was told to the broker."""
        return float(_note_beside(self.illness).read_text())

    def disk(self, *, sync_delay_s: float = 0.0, sync_errno: int = 0) -> None:
        """From now on the disk is like this; an error comes once."""
        fresh = self.illness.with_suffix(".new")
        fresh.write_text(json.dumps({"delay_s": sync_delay_s, "errno": sync_errno, "mark": time.monotonic_ns()}))
        fresh.replace(self.illness)

    def command(self) -> list[str]:
        return [
            sys.executable,
            "-u",
            "-m",
            "tests.fault.harness.sick_broker",
            str(self.illness),
            *super().command()[4:],
        ]

    def environment(self) -> dict[str, str]:
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {**super().environment(), "PYTHONPATH": os.pathsep.join(paths)}


def _note_beside(illness: Path) -> Path:
    return illness.with_suffix(".failed")


def fall_ill(path: Path) -> None:
    """Make this process's syncs as the file says."""
    from cometmq.store.fs import OsFs

    healthy = OsFs.sync
    failed: set[int] = set()

    def sync(self: OsFs, fd: int) -> None:
        illness: dict[str, Any] = json.loads(path.read_bytes())
        time.sleep(illness["delay_s"])
        of_log = Path(f"/proc/self/fd/{fd}").readlink().parent.name == "commitlog"
        if illness["errno"] and of_log and illness["mark"] not in failed:
            failed.add(illness["mark"])
            _note_beside(path).write_text(repr(time.monotonic()))
            raise OSError(illness["errno"], os.strerror(illness["errno"]))
        healthy(self, fd)

    OsFs.sync = sync  # type: ignore[method-assign]


if __name__ == "__main__":
    fall_ill(Path(sys.argv.pop(1)))
    from cometmq.cli import main

    sys.exit(main())
