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


@pytest.mark.parametrize("port", ["-1", "1", "2", "65535"])
def test_a_port_must_leave_room_for_its_neighbours(port: str) -> None:
    with pytest.raises(ConfigError, match=f"listenPort={port}: 3 to 65534"):
        load_settings({"listenPort": port})


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("flushDiskTyp", "; did you mean flushDiskType?"),
        ("brokername", "; did you mean brokerName?"),
        ("aclEnable", ""),
        ("storePathConsumeQueue", ""),  # storePathCommitLog would be another thing
    ],
)
def test_an_unknown_key_is_told_with_what_was_meant_if_that_is_clear(key: str, hint: str) -> None:
    assert load_settings({key: "1"}).warnings == (f"the key {key} is not known and has no effect{hint}",)


@pytest.mark.parametrize(
    "key",
    ["waitTimeMillsInSendQueue", "sendMessageThreadPoolNums", "pullThreadPoolQueueCapacity", "serverWorkerThreads"],
)
def test_who_sizes_threads_is_told_that_there_is_nothing_to_set(key: str) -> None:
    (warning,) = load_settings({key: "1", "sendThreadPoolQueueCapacity": "1"}).warnings
    assert warning == f"the key {key} has no effect: no request waits for a thread here, so nothing is to be set"


@pytest.mark.parametrize(
    ("keys", "warned"),
    [
        ({"namesrvAddr": "10.0.0.1:9876"}, True),
        ({"namesrvAddr": "127.0.0.1:9876;namesrv:9876"}, True),
        ({"namesrvAddr": "10.0.0.1:9876", "bindAddress": "0.0.0.0", "brokerIP1": "127.0.0.1"}, True),
        ({"namesrvAddr": "10.0.0.1:9876", "bindAddress": "0.0.0.0", "brokerIP1": "10.0.0.2"}, False),
        ({"namesrvAddr": "127.0.0.1:9876;localhost:9877;[::1]:9878"}, False),
        ({}, False),
    ],
)
def test_who_registers_elsewhere_with_an_address_of_this_machine_only_is_warned(
    keys: dict[str, str], warned: bool
) -> None:
    assert any("only this machine can reach 127.0.0.1" in text for text in load_settings(keys).warnings) is warned
