"""Name servers hear of changes at once, also those that were found late."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.unit.broker.state_kit import MemoryTable, StillClock

from cometmq.broker.config import BrokerConfig
from cometmq.broker.registration import Registration
from cometmq.broker.topics import Topics
from cometmq.model.topic import TopicConfig
from cometmq.namesrv.app import NameServer
from cometmq.namesrv.config import NamesrvConfig
from cometmq.net.name_servers import NameServers


async def test_a_change_before_the_first_look_up_does_not_silence_those_after_it(tmp_path: Path) -> None:
    namesrv = NameServer(NamesrvConfig(listen_port=0, kv_config_path=str(tmp_path / "kv.json")))
    await namesrv.start()
    config = BrokerConfig()
    found = NameServers(namesrv.address, by_dns=True)
    topics = Topics(MemoryTable(), config, StillClock())
    registration = Registration(config, "127.0.0.1:10911", "127.0.0.1:10912", topics, found)
    topics.on_change = lambda topic: registration.announce(topic) if topic is not None else None
    try:
        topics.update(TopicConfig("Early"))
        await registration.announce_all()
        topics.update(TopicConfig("Late"))
        async with asyncio.timeout(2):
            while namesrv.table.route("Late") is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert namesrv.table.route("Early") is not None
    finally:
        await registration.close()
        await namesrv.stop()
