"""What a process of a cluster runs: a command, until it is told to stop or the one who started it is gone.

Its standard input is a pipe that nobody writes into. When that ends, its starter has ended, however that came, and
nobody is left who would stop this process: it stops itself, cleanly.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from cometmq.cli import main


def _stop_when_alone() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_stop_when_alone, name="starter-watch", daemon=True).start()
    sys.exit(main())
