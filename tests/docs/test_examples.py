"""Every file of examples/ runs to its end against a cluster, and says what it is there to show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from cometmq.testing.pytest_plugin import RunningCluster

FOLDER: Final = Path(__file__).parents[2] / "examples"
SAYS: Final = {
    "batch.py": ["sent 300 readings"],
    "blocking.py": ["read hello"],
    "broadcasting.py": ["first empties prices", "second empties prices"],
    "delay.py": ["called back", "stand up came after 1"],
    "filters.py": ["sold in Europe: book", "sold in Europe: desk", "dear: desk"],
    "lite_pull.py": ["read ['report 0', 'report 1', 'report 2', 'report 3']", "read again"],
    "logging_to_a_topic.py": ["sent 1 dropped 0"],
    "ordered.py": [f"order-{number} was created, paid, shipped" for number in (1, 2, 3)],
    "push_consumer.py": ["billed order-42 at attempt 2"],
    "request_reply.py": ["the answer: HOW ARE YOU?"],
    "send.py": ["to queue", "sent 1000 more"],
    "simple_consumer.py": ["worked on task 0", "worked on task 1", "worked on task 2"],
    "transaction.py": ["committed", "rolled back: the card was refused"],
    "watching.py": ["sent 10 tried again 0 given up 0", "the trace tells of"],
}


def run(cometmq: RunningCluster, *arguments: str) -> str:
    env = {**os.environ, "NAMESRV_ADDR": cometmq.namesrv}
    done = subprocess.run([sys.executable, *arguments], env=env, cwd=FOLDER, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.py") if not path.name.startswith("test_")))
def test_it_runs(cometmq: RunningCluster, name: str) -> None:
    said = run(cometmq, name)
    for words in SAYS[name]:
        assert words in said


def test_the_tests_among_them_pass(cometmq: RunningCluster) -> None:
    assert "1 passed" in run(cometmq, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_with_a_cluster.py")
