"""Logging to a topic: everything arrives, and nothing that goes wrong reaches the program."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from tests.sdk.conftest import Server

from cometmq import TopicHandler
from cometmq.errors import InvalidArgument, InvalidName
from cometmq.testing.pytest_plugin import RunningCluster

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.Logger("shop.orders")
    yield made
    for handler in list(made.handlers):
        handler.close()


async def test_records_arrive(cometmq: RunningCluster, logger: logging.Logger) -> None:
    topic = cometmq.topic()
    handler = TopicHandler(topic, namesrv=cometmq.namesrv)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.warning("paid %d", 42)
    logger.info("\ud800 and 日本")
    found = await Server("comet", cometmq.namesrv).read(topic, 2)
    assert {message.body.decode() for message in found} == {"WARNING paid 42", "INFO ? and 日本"}
    assert {(message.tags, *message.keys) for message in found} == {
        ("WARNING", "shop.orders"), ("INFO", "shop.orders")
    }  # fmt: skip


def test_many_threads(cometmq: RunningCluster, logger: logging.Logger) -> None:
    handler = TopicHandler(cometmq.topic(), namesrv=cometmq.namesrv)
    logger.addHandler(handler)

    def work() -> None:
        for number in range(200):
            logger.warning("%d", number)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handler.close()
    assert (handler.sent, handler.dropped, handler.failed) == (800, 0, 0)
    assert not [thread for thread in threading.enumerate() if thread.name == "cometmq logs"]
    logger.warning("late")
    assert handler.dropped == 1


def test_without_a_server_nothing_waits(logger: logging.Logger) -> None:
    handler = TopicHandler("logs", namesrv=NOWHERE, waiting=10, close_timeout_s=0.2)
    logger.addHandler(handler)
    begun = time.monotonic()
    for number in range(1000):
        logger.warning("%d", number)
    assert time.monotonic() - begun < 1
    handler.close()
    assert time.monotonic() - begun < 2
    assert handler.sent == 0
    assert handler.dropped + handler.failed >= 980


def test_its_own_records_are_left_out() -> None:
    handler = TopicHandler("logs", namesrv=NOWHERE)
    handler.handle(logging.makeLogRecord({"name": "cometmq.client", "msg": "no route"}))
    assert handler._thread is None
    handler.close()


def test_wrong_options_are_refused_at_once() -> None:
    with pytest.raises(InvalidName):
        TopicHandler("a topic", namesrv=NOWHERE)
    with pytest.raises(InvalidArgument):
        TopicHandler("logs", namesrv="nowhere")
    with pytest.raises(InvalidArgument):
        TopicHandler("logs", namesrv=NOWHERE, waiting=0)
    with pytest.raises(InvalidArgument):
        TopicHandler("logs", namesrv=NOWHERE, retries=-1)
    with pytest.raises(
        TypeError, match="no such option: retrys; besides its own, every client takes request_timeout_ms"
    ):
        TopicHandler("logs", namesrv=NOWHERE, retrys=1)  # type: ignore[call-arg]


def test_a_program_that_never_closes_it_ends(cometmq: RunningCluster) -> None:
    topic = cometmq.topic()
    program = (
        "import logging, cometmq;"
        f"logging.getLogger().addHandler(cometmq.TopicHandler({topic!r}, namesrv={cometmq.namesrv!r}));"
        "logging.warning('last words')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=20, check=True)
    assert done.stderr == b""


async def test_last_words_arrive(cometmq: RunningCluster) -> None:
    topic = cometmq.topic()
    program = (
        "import logging, os, cometmq;"
        f"h = cometmq.TopicHandler({topic!r}, namesrv={cometmq.namesrv!r});"
        "log = logging.getLogger(); log.addHandler(h); log.warning('parent'); h.flush();"
        "pid = os.fork(); log.warning('child' if pid == 0 else 'after');"
        "pid and os.waitpid(pid, 0)"
    )
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], timeout=20, check=True)
    found = await Server("comet", cometmq.namesrv).read(topic, 3)
    assert sorted(message.body for message in found) == [b"after", b"child", b"parent"]
