"""Apache RocketMQ's broker registers with our NameServers, and its mqadmin reads and changes what they know."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.original import CometNamesrv, JavaBroker, compact_jvm
from tests.original.java import java_command, java_environment

from cometmq.errors import PeerRefused
from cometmq.model.names import AUTO_CREATE_TOPIC
from cometmq.model.route import TopicRoute
from cometmq.net.pool import connect
from cometmq.wire.bodies.route import decode_route
from cometmq.wire.requests.namesrv import GetRouteInfo

pytestmark = pytest.mark.timeout(300)

DEADLINE_S = 60.0
AT_ONCE_S = 5.0  # for its silence alone this broker is dropped after ten
# Upstream's own NameServer cannot read what this broker compresses: its header denies it.
BROKER_CONF = {"compressedRegister": "true", "enableSlaveActingMaster": "true"}


class Scene:
    """Two of our NameServers, and a Java broker that registers with both."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.namesrvs = [CometNamesrv(folder / f"namesrv-{n}") for n in range(2)]
        for namesrv in self.namesrvs:
            stack.callback(namesrv.kill)
            namesrv.start()
        addrs = [namesrv.addr for namesrv in self.namesrvs]
        self.broker = JavaBroker(folder / "broker", addrs, conf=BROKER_CONF)
        stack.callback(self.broker.kill)
        self.broker.start()

    def mqadmin(self, *arguments: str) -> str:
        """What mqadmin prints, told of our first NameServer."""
        home = self.folder / "mqadmin"
        home.mkdir(exist_ok=True)
        command = java_command(home, compact_jvm(), "org.apache.rocketmq.tools.command.MQAdminStartup", *arguments)
        command += ["-n", self.namesrvs[0].addr]
        done = subprocess.run(
            command, env=java_environment(home), capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(tmp_path_factory.mktemp("java-broker"), stack)


def route(namesrv: CometNamesrv, topic: str = AUTO_CREATE_TOPIC) -> TopicRoute | None:
    async def ask() -> TopicRoute | None:
        channel = await connect(namesrv.addr)
        try:
            return decode_route((await channel.call(GetRouteInfo(topic))).body)
        except PeerRefused as refused:
            assert refused.code == 17
            return None
        finally:
            channel.close()

    return asyncio.run(ask())


def eventually(condition: Callable[[], bool], what: str, within_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.05)


def test_both_name_servers_have_its_route(scene: Scene) -> None:
    for namesrv in scene.namesrvs:
        eventually(lambda n=namesrv: route(n) is not None, "the route of TBW102")  # type: ignore[misc]
        found = route(namesrv)
        assert found is not None
        assert found.brokers[0].addrs == {0: scene.broker.addr}
        assert found.brokers[0].enable_acting_master
        assert found.queues[0].broker_name == "broker-a" and found.queues[0].perm == 7


def test_mqadmin_lists_clusters_and_routes(scene: Scene) -> None:
    clusters = scene.mqadmin("clusterList")
    assert scene.broker.addr in clusters and "V5_5_0" in clusters
    shown = scene.mqadmin("topicRoute", "-t", AUTO_CREATE_TOPIC)
    assert f'0:"{scene.broker.addr}"' in shown.replace(" ", "").replace('"0"', "0")


def test_mqadmin_creates_a_topic_that_both_name_servers_know(scene: Scene) -> None:
    scene.mqadmin("updateTopic", "-c", "DefaultCluster", "-t", "made-by-mqadmin", "-r", "3", "-w", "3")
    for namesrv in scene.namesrvs:
        eventually(lambda n=namesrv: route(n, "made-by-mqadmin") is not None, "the new topic")  # type: ignore[misc]
    found = route(scene.namesrvs[1], "made-by-mqadmin")
    assert found is not None and found.queues[0].write_queue_nums == 3


def test_mqadmin_drains_the_broker(scene: Scene) -> None:
    assert "wipe write perm of broker[broker-a]" in scene.mqadmin("wipeWritePerm", "-b", "broker-a")
    drained = route(scene.namesrvs[0])
    assert drained is not None and drained.queues[0].perm & 2 == 0


def test_mqadmin_keeps_values_and_changes_settings(scene: Scene) -> None:
    assert "success" in scene.mqadmin("updateKvConfig", "-s", "space", "-k", "key", "-v", "value")
    changed = scene.mqadmin("updateNamesrvConfig", "-k", "waitSecondsForService", "-v", "7")
    assert "success" in changed
    assert "waitSecondsForService" in scene.namesrvs[0].conf.read_text()
    refused = scene.mqadmin("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "elsewhere")
    assert "Can not update config in black list" in refused


def test_it_is_gone_at_once_when_it_is_killed(scene: Scene) -> None:
    scene.broker.kill()
    for namesrv in scene.namesrvs:
        eventually(lambda n=namesrv: route(n) is None, "the loss of the broker", AT_ONCE_S)  # type: ignore[misc]
