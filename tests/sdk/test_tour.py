"""`cometmq tour`, on a server that comes along, on a running CometMQ and on Apache RocketMQ."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Iterator

import pytest
from tests.sdk.conftest import Server

from cometmq.cli import main
from cometmq.cli.tour import Seen, guide, show_progress, table
from cometmq.client.instance import ClientInstance
from cometmq.client.options import ClientOptions
from cometmq.wire.bodies.topics import decode_topic_list
from cometmq.wire.requests.namesrv import GetAllTopicList

STEPS = ["topic", "send", "consume", "delay", "retry, dead letter", "transaction", "query by key"]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("cometmq")
    level = logger.level
    yield
    logger.setLevel(level)


async def test_on_a_running_server(server: Server) -> None:
    begun = time.monotonic()
    seen = await guide(server.namesrv, io.StringIO())
    assert [one.name for one in seen] == STEPS
    assert all(one.is_ok for one in seen), table(seen)
    assert time.monotonic() - begun < 30
    instance = await ClientInstance.join(ClientOptions.of(server.namesrv))
    try:
        topics = decode_topic_list((await instance.name_servers.call(GetAllTopicList())).body)
    finally:
        await instance.leave()
    assert not [topic for topic in topics if "cometmq-tour" in topic]


def test_on_one_that_comes_along(capsys: pytest.CaptureFixture[str]) -> None:
    begun = time.monotonic()
    assert main(["tour"]) == 0
    assert time.monotonic() - begun < 30
    said = capsys.readouterr()
    assert said.out.count("✓") == len(STEPS)
    assert max(map(len, said.out.splitlines())) <= 80  # as wide as a terminal is, at the least
    assert said.err == ""


def test_without_a_server_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tour", "-n", "127.0.0.1:1"]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().out
    assert main(["tour", "-n", "nowhere"]) == 1
    assert "illegal" in capsys.readouterr().err


def test_the_bar_is_for_terminals() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    show_progress(out, 1, 2, "send")
    assert out.getvalue().startswith("\r[████████████░░░░░░░░░░░░] 1/2 send")
    assert table([Seen("send", False, "no", 1.0)]).splitlines()[-1] == "✗  send  no             1.00 s"
