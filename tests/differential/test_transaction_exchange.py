"""A store with open transactions passes to the other broker, which asks about those, and about no other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.original import BrokerProcess, CometBroker, CometNamesrv, JavaBroker
from tests.unit.broker.transaction_kit import COMMIT, GROUP, ROLLBACK, begin, bodies, checked, producer

from cometmq.net.pool import connect
from cometmq.wire import fastjson

from .exchange import SMALL_FILES

pytestmark = pytest.mark.timeout(300)

# The first broker leaves open what is open; the second asks at once.
PATIENT = {**SMALL_FILES, "transactionCheckInterval": 100_000}
EAGER = {**SMALL_FILES, "transactionTimeOut": 500, "transactionCheckInterval": 500}
OPEN = ["left", "left for good", "left immune"]
IMMUNE = "CHECK_IMMUNITY_TIME_IN_SECONDS\x011\x02"


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with CometNamesrv(tmp_path_factory.mktemp("namesrv")) as running:
        yield [running.addr]


@pytest.mark.parametrize("first", ["java", "comet"])
def test_open_transactions_pass_to_the_other(first: str, tmp_path: Path, namesrv: list[str]) -> None:
    kinds = (JavaBroker, CometBroker) if first == "java" else (CometBroker, JavaBroker)
    store = tmp_path / "store"
    with kinds[0](tmp_path / "first", namesrv, store=store, conf=PATIENT) as broker:
        asyncio.run(_leave_open(broker))
        if first == "java":
            broker.kill()
        else:
            broker.stop()
            assert counted(store) == {"orders"}
    # Java's op messages come three seconds late: what was delivered tells that it was, but a rollback is lost.
    may_ask = OPEN + ([f"r{number}" for number in range(40)] if first == "java" else [])
    with kinds[1](tmp_path / "second", namesrv, store=store, conf=EAGER) as broker:
        asyncio.run(_end_all(broker, may_ask))
        if first == "java":
            broker.stop()
            assert counted(store) == {"orders"}
        broker.kill()


def counted(store: Path) -> set[str]:
    """The topics of which open transactions are counted."""
    return set(fastjson.loads((store / "config" / "transactionMetrics").read_bytes())["transactionCount"])


async def _leave_open(broker: BrokerProcess) -> None:
    channel = await connect(broker.addr)
    for number in range(40):
        begun = await begin(channel, f"c{number}" if number % 2 else f"r{number}")
        await channel.call(begun.end(COMMIT if number % 2 else ROLLBACK), timeout_ms=10_000)
    for key in OPEN:
        await begin(channel, key, more=IMMUNE if key == "left immune" else "")
    channel.close()


async def _end_all(broker: BrokerProcess, may_ask: list[str]) -> None:
    channel = await connect(broker.addr)
    member, asked = await producer(broker.addr)
    open_still = set(OPEN)
    async with asyncio.timeout(30):
        while open_still:
            copy = checked(await asked.get())
            assert copy.key in may_ask, f"{copy} has ended, but {GROUP} was asked about it"
            open_still.discard(copy.key)
            if copy.key != "left for good":
                verdict = COMMIT if copy.key in OPEN else ROLLBACK
                await channel.call(copy.end(verdict, checked=True), timeout_ms=10_000)
    committed = [f"c{number}" for number in range(40) if number % 2]
    found = await bodies(channel, len(committed) + 2)
    assert found[: len(committed)] == committed
    assert set(found[len(committed) :]) == {"left", "left immune"}
    member.close()
    channel.close()
