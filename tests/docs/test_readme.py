"""The README's Python runs as it stands there, but for the address."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from cometmq.testing.pytest_plugin import RunningCluster

README = Path(__file__).parents[2] / "README.md"


def test_a_producer_and_a_consumer(cometmq: RunningCluster) -> None:
    text = README.read_text(encoding="utf-8").replace("127.0.0.1:9876", cometmq.namesrv)
    sends, consumes = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    sent = subprocess.run([sys.executable, "-c", sends], capture_output=True, text=True, timeout=30, check=True)
    assert len(sent.stdout.strip()) == 32
    with subprocess.Popen([sys.executable, "-c", consumes], stdout=subprocess.PIPE, text=True) as consumer:
        try:
            assert consumer.stdout is not None
            assert "42 EUR" in iter(lambda: consumer.stdout.readline().strip(), "")
            consumer.send_signal(signal.SIGINT)
            assert consumer.wait(20) == 0
        finally:
            consumer.kill()
