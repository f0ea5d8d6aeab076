"""Every Python block of docs/sdk.md runs, one after the other, on a cluster in this process."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

from cometmq.testing.local_cluster import LocalCluster
from cometmq.testing.pytest_plugin import RunningCluster

PAGE = Path(__file__).parents[2] / "docs" / "sdk.md"
ADDRESS = "127.0.0.1:9876"


def blocks() -> list[tuple[int, str]]:
    """Line and text of each block."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.finditer(r"```python\n(.*?)```", text, re.DOTALL)
    return [(text.count("\n", 0, block.start(1)), block.group(1)) for block in found]


async def test_the_blocks_run() -> None:
    names: dict[str, Any] = {}
    async with LocalCluster() as cluster:
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
