"""What every suite shares: `async def` tests, and a broker in the test's own process."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests import minutes
from tests.scheduling import TwoLanes

from cometmq.broker.app import Broker, load_settings
from cometmq.net.channel import Channel
from cometmq.net.pool import connect

# A property says nothing of time, and a machine that others keep busy has its own.
settings.register_profile("without deadlines", deadline=None)
settings.load_profile("without deadlines")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> TwoLanes:
    return TwoLanes(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Minutes per suite."""
    reports = [one for of_kind in terminalreporter.stats.values() for one in of_kind]
    timed = [(one.nodeid, one.duration) for one in reports if isinstance(one, pytest.TestReport)]
    seconds = minutes.seconds_by_suite(timed, lanes=terminalreporter.config.getoption("numprocesses", None) or 1)
    if lines := minutes.summary(seconds):
        terminalreporter.section("minutes per suite")
        for line in lines:
            terminalreporter.write_line(line)
        for line in minutes.warnings(seconds):
            terminalreporter.write_line(f"WARNING: {line}", yellow=True)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in wanted}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


StartBroker = Callable[..., AbstractAsyncContextManager[tuple[Broker, Channel]]]


@pytest.fixture
def broker(tmp_path: Path) -> StartBroker:
    """`async with broker(flushDiskType="ASYNC_FLUSH") as (broker, channel)`: a real one, on free ports."""

    @asynccontextmanager
    async def start(**keys: str) -> AsyncIterator[tuple[Broker, Channel]]:
        small = {
            "storePathRootDir": str(tmp_path / "store"),
            "listenPort": "0",
            "mappedFileSizeCommitLog": str(1 << 20),
            "maxHashSlotNum": "100",
            "maxIndexNum": "1000",
        }
        running = Broker(load_settings(small | keys))
        await running.start()
        channel = await connect(running.address)
        try:
            yield running, channel
        finally:
            channel.close()
            await running.stop()

    return start
