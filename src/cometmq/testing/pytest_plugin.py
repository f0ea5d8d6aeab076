"""The fixture `cometmq`: a cluster for tests, also for those that are not `async`.

    def test_orders(cometmq):                       # one cluster per session, in a thread of its own
        with blocking.Producer("tests", namesrv=cometmq.namesrv) as producer: ...

    async def test_orders(cometmq): ...             # the same: clients of any event loop reach it over TCP

`cometmq.create_topic("orders")` waits for the topic; `cometmq.topic()` is a new one, for a test that wants none of
the others' messages. The plug-in comes with the package; nothing is started until a test asks.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

if TYPE_CHECKING:  # not when pytest starts: most runs use no cluster
    from cometmq.testing.local_cluster import LocalCluster

_T = TypeVar("_T")
WAIT_S: Final = 30.0


class RunningCluster:
    """A `LocalCluster` in a thread, driven from outside of it."""

    def __init__(self) -> None:
        from cometmq.testing.local_cluster import LocalCluster

        self.cluster: LocalCluster = LocalCluster()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cometmq cluster", daemon=True)
        self._numbers = itertools.count(1)

    def start(self) -> None:
        self._thread.start()
        self.run(self.cluster.__aenter__())

    def stop(self) -> None:
        self.run(self.cluster.__aexit__(None, None, None))
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    def run(self, running: Coroutine[Any, Any, _T]) -> _T:
        """Run something on the cluster's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(running, self._loop).result(WAIT_S)

    @property
    def namesrv(self) -> str:
        """What clients take as `namesrv`."""
        return self.cluster.namesrv

    def create_topic(self, topic: str, queues: int = 4) -> str:
        """Make a topic; returns its name."""
        self.run(self.cluster.create_topic(topic, queues))
        return topic

    def topic(self, queues: int = 4) -> str:
        """A new topic that no other test uses."""
        return self.create_topic(f"topic-{next(self._numbers)}", queues)


@pytest.fixture(scope="session")
def cometmq() -> Iterator[RunningCluster]:
    """A name server and a broker in this process, for the whole session."""
    running = RunningCluster()
    running.start()
    yield running
    running.stop()
