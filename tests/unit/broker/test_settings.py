"""Settings that cannot be meant stop the start; those that Java takes are taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import StartBroker

from cometmq.broker.app import Broker, load_settings
from cometmq.errors import ConfigError


@pytest.mark.parametrize("text", ["sync_flush", "SYNC", "", "FLUSH"])
def test_a_flush_mode_that_is_none_does_not_become_the_weaker_one(text: str) -> None:
    with pytest.raises(ConfigError, match="flushDiskType"):
        load_settings({"flushDiskType": text})


async def test_clients_may_be_told_a_name(broker: StartBroker) -> None:
    async with broker(brokerIP1="localhost") as (running, _):
        assert running.address == f"localhost:{running.port}"


async def test_a_name_that_nobody_knows_is_told(tmp_path: Path) -> None:
    keys = {"brokerIP1": "no.such.host.invalid", "listenPort": "0", "storePathRootDir": str(tmp_path)}
    with pytest.raises(ConfigError, match=r"no\.such\.host\.invalid"):
        await Broker(load_settings(keys)).start()


def test_queues_and_index_stay_where_java_keeps_them() -> None:
    settings = load_settings({"storePathRootDir": "/s", "storePathConsumeQueue": "/q", "storePathIndex": "/i"})
    assert (settings.store.consume_queue_dir, settings.store.index_dir) == ("/s/consumequeue", "/s/index")
    assert len(settings.warnings) == 2
