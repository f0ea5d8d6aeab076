"""Delay levels: messages that wait in `SCHEDULE_TOPIC_XXXX`, one queue for each level, until they are due.

stage        in: a message that asks for a level goes to the schedule topic
deliveries   out: what is due goes to its own topic
escape       out, of a slave whose master is gone: what is due goes to another master
progress     how far each level is: delayOffset.json
"""

from __future__ import annotations

from cometmq.broker.core import Core
from cometmq.broker.delay.deliveries import DelayedDeliveries
from cometmq.broker.delay.escape import DelayEscape
from cometmq.broker.delay.handlers import DelayHandlers
from cometmq.broker.delay.progress import DelayOffsets
from cometmq.broker.delay.stage import DelayStage
from cometmq.broker.delivered_marks import strip_mark
from cometmq.broker.housekeeping import Job
from cometmq.broker.replicated import Replicated
from cometmq.model import properties
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.store.delivery_time import delay_levels_ms
from cometmq.wire.requests.delay import GetAllDelayOffset


def install(core: Core) -> None:
    """Take delayed messages in, and deliver them."""
    config = core.store.config
    delays_ms = delay_levels_ms(config.message_delay_level)
    core.messages.add_stage(strip_mark, properties.DELIVERED_MARK, producers_only=True)
    core.messages.add_stage(DelayStage(len(delays_ms)), properties.DELAY)

    table = core.table("delayOffset.json")
    progress = DelayOffsets(table, core.store, core.clock, core.config.delay_offset_update_version_step)
    core.saved.append(progress)  # and so saved at the end, when everything is on the disk

    async def save() -> None:
        progress.note_growth()
        await progress.persist_aside()

    core.jobs.append(Job("saving delay offsets", config.flush_delay_offset_interval / 1000, core.role.job(save)))
    core.routes.add(DelayHandlers(progress))
    core.replicated.append(Replicated("delay offsets", GetAllDelayOffset(), progress.follow, of_the_log=True))
    core.taken_back.append(Replicated("delay offsets", GetAllDelayOffset(), progress.take_back))

    def told() -> dict[str, str]:
        ends = {level: core.store.max_offset(SCHEDULE_TOPIC, level - 1) for level in progress.current}
        return {f"scheduleMessageOffset_{level}": f"{progress.current[level]},{end}" for level, end in ends.items()}

    core.told.append(told)
    progress.keeps_ahead = core.config.enable_slave_acting_master
    escape = DelayEscape(len(delays_ms), core.store, core.reader, progress, core.bridge, core.clock)
    core.duties.add("delay levels", escape.run)
    running: list[DelayedDeliveries] = []

    def start() -> None:
        deliveries = DelayedDeliveries(delays_ms, core.store, core.messages, core.reader, progress, core.clock)
        core.arrivals.listeners.append(deliveries.arrived)
        deliveries.start()
        running.append(deliveries)

    async def stop() -> None:
        while running:
            deliveries = running.pop()
            core.arrivals.listeners.remove(deliveries.arrived)
            await deliveries.close()

    core.role.add(start, stop)
    core.closing.push_async_callback(stop)
