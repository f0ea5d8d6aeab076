"""A declared setting does something: a key that nobody reads would be accepted in silence."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from cometmq.broker.app import Broker, load_settings
from cometmq.broker.config import BrokerConfig
from cometmq.broker.ha.config import HaConfig
from cometmq.errors import ConfigError
from cometmq.namesrv.config import NamesrvConfig
from cometmq.net.pool import connect
from cometmq.store.config import StoreConfig

SOURCES = Path(__file__).parents[3] / "src" / "cometmq"
ONLY_SHOWN = {"rocketmq_home", "product_env_name"}  # part of the answer to get-config, as upstream


@pytest.mark.parametrize("section", [BrokerConfig, StoreConfig, HaConfig, NamesrvConfig])
def test_every_setting_is_read_somewhere(section: type) -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    names = {item.name for item in dataclasses.fields(section)} - ONLY_SHOWN
    unread = {name for name in names if not re.search(rf"\.{name}\b", code)}
    assert unread == set()


@pytest.mark.parametrize("role", ["master", ""])
def test_a_role_that_cannot_be_played_is_refused(role: str) -> None:
    with pytest.raises(ConfigError, match="brokerRole"):
        load_settings({"brokerRole": role})


def test_a_slave_needs_an_id_and_a_master_has_none() -> None:
    with pytest.raises(ConfigError, match="brokerId"):
        load_settings({"brokerRole": "SLAVE"})
    assert load_settings({"brokerRole": "SLAVE", "brokerId": "2"}).broker.broker_id == 2
    assert load_settings({"brokerRole": "SYNC_MASTER", "brokerId": "2"}).broker.broker_id == 0


def test_a_role_that_promises_too_much_is_warned_about() -> None:
    assert any("waits for nobody" in warning for warning in load_settings({"brokerRole": "SYNC_MASTER"}).warnings)
    assert not load_settings({"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}).warnings


@pytest.mark.parametrize(
    "keys",
    [
        {"inSyncReplicas": "0"},
        {"minInSyncReplicas": "0"},
        {"minInSyncReplicas": "2", "inSyncReplicas": "1"},
        {"haTransferBatchSize": "0"},
        {"haTransferBatchSize": str(4 << 20)},
    ],
)
def test_replication_that_cannot_be_is_refused(keys: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=next(iter(keys))):
        load_settings(keys)


async def test_the_ha_port_can_be_chosen(tmp_path: Path) -> None:
    keys = {"storePathRootDir": str(tmp_path), "listenPort": "0", "mappedFileSizeCommitLog": str(1 << 20)}
    first = Broker(load_settings(keys))
    await first.start()
    taken = Broker(load_settings({**keys, "storePathRootDir": str(tmp_path / "b"), "haListenPort": str(first.port)}))
    with pytest.raises(ConfigError, match=str(first.port)):
        await taken.start()
    (await connect(first.address)).close()
    await first.stop()
