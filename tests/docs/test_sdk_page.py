"""Every Python block of docs/sdk.md runs, one after the other, on a cluster in a thread of this process."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cometmq.testing.pytest_plugin import RunningCluster

PAGE = Path(__file__).parents[2] / "docs" / "sdk.md"
ADDRESS = "127.0.0.1:9876"


def blocks() -> list[tuple[int, str]]:
    """Line and text of each block."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.finditer(r"```python\n(.*?)```", text, re.DOTALL)
    return [(text.count("\n", 0, block.start(1)), block.group(1)) for block in found]


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    """One in a thread of its own, as blocks without `await` hold the loop of the others."""
    running = RunningCluster()
    running.start()
    yield running
    running.stop()


async def test_the_blocks_run(cluster: RunningCluster) -> None:
    names: dict[str, Any] = {}
    for line, block in blocks():
        source = "\n" * line + block.replace(ADDRESS, cluster.namesrv)
        code = compile(source, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        running = eval(code, names)
        if inspect.isawaitable(running):
            await running
    tests = {name: value for name, value in names.items() if name.startswith("test_")}
    assert tests
    names.clear()


def test_the_test_of_the_page_runs(cometmq: RunningCluster) -> None:
    (block,) = [block for _, block in blocks() if "def test_orders" in block]
    names: dict[str, Any] = {}
    exec("from cometmq import Message, Producer\n" + block, names)
    names["test_orders"](cometmq)
