"""Every Python block of docs/sdk.md runs, one after the other, on a cluster in a thread of this process."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from tests.docs.pages import ADDRESS, DOCS, blocks

from cometmq.testing.pytest_plugin import RunningCluster

PAGE = DOCS / "sdk.md"
PYTHON = [block for block in blocks(PAGE) if block.language == "python"]


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    """One in a thread of its own, as blocks without `await` hold the loop of the others."""
    running = RunningCluster()
    running.start()
    yield running
    running.stop()


async def test_the_blocks_run(cluster: RunningCluster) -> None:
    names: dict[str, Any] = {}
    for block in PYTHON:
        source = "\n" * block.line + block.text.replace(ADDRESS, cluster.namesrv)
        code = compile(source, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        running = eval(code, names)
        if inspect.isawaitable(running):
            await running
    tests = {name: value for name, value in names.items() if name.startswith("test_")}
    assert tests
    names.clear()


def test_the_test_of_the_page_runs(cometmq: RunningCluster) -> None:
    (block,) = [block for block in PYTHON if "def test_orders" in block.text]
    names: dict[str, Any] = {}
    exec("from cometmq import Message, Producer\n" + block.text, names)
    names["test_orders"](cometmq)
