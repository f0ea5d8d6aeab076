"""Master and slave, both CometMQ's: the log, the queues, the tables, and what an acknowledgement waits for."""

from __future__ import annotations

from pathlib import Path

import pytest

from cometmq.errors import PeerRefused

from .ha_kit import SEGMENT, group, log_bytes, message


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_an_empty_slave_gets_the_whole_log_and_can_be_read(tmp_path: Path, flush: str) -> None:
    async with group(tmp_path) as brokers:
        master = await brokers.start(0, flushDiskType=flush)
        await brokers.send(master, 200)
        slave = await brokers.start(1, flushDiskType=flush)
        await brokers.send(master, 100)
        await brokers.caught_up(master)
        ours, theirs = log_bytes(brokers.store(0)), log_bytes(brokers.store(1))
        assert len(ours) > 4 * SEGMENT
        assert ours == theirs
        found = await brokers.pulled(slave, 290, 10)
        assert [record.queue_offset for record in found] == list(range(290, 300))
        channel = await brokers.channel(slave)
        with pytest.raises(PeerRefused, match="REJECTREQUEST"):
            await channel.call(message(), b"for the master")
