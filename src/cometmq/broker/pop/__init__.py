"""Pop: balance by message instead of by queue; the broker keeps the books.

    popping.py         hands messages out: which ones, their checkpoint, where the next pop goes on
    answers.py         sends them
    warming.py         reads what an expression will be asked about, where it is old
    places.py          where a group goes on in a queue, and where a new one starts
    inflight.py        how many messages a group holds, where that is limited
    buffer.py          between handing out and committing the offset; merges acknowledgements in memory
    at_slave.py        the same at a slave that acts for its master, all of it in memory
    revive_log.py      checkpoints and acknowledgements on their way through the timer into the revive topic
    revive.py          reads the revive topic, and brings back what was not acknowledged
    window.py          … the checkpoints it holds meanwhile, and those it has no room for
    retry_messages.py  … as a message of the group's retry topic
    acknowledging.py   acknowledgements, and asking for more time
    looking.py         peek, notification, polling info
    long_polling.py    who waits
    checkpoint.py, handle.py, retry_topic.py, recoding.py   texts, names and bytes

Mirrors: PopMessageProcessor and its kin with `popConsumerKVServiceEnable=false`, the default of 5.5.0.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from cometmq.broker.core import Core
from cometmq.broker.housekeeping import Job
from cometmq.broker.order_info import OrderInfos
from cometmq.broker.pop.acknowledging import Acknowledging
from cometmq.broker.pop.at_slave import PopsAtSlave
from cometmq.broker.pop.buffer import Books, PopBuffer
from cometmq.broker.pop.checks import Checks
from cometmq.broker.pop.inflight import Inflight
from cometmq.broker.pop.long_polling import ANY_QUEUE
from cometmq.broker.pop.looking import Looking
from cometmq.broker.pop.order_waking import OrderWaking
from cometmq.broker.pop.places import Places
from cometmq.broker.pop.popping import Popping
from cometmq.broker.pop.retry_messages import RetryMessages
from cometmq.broker.pop.retry_topic import normal_topic, revive_topic
from cometmq.broker.pop.revive import PENDING_MAX, Reviver
from cometmq.broker.pop.revive_log import ReviveLog

BUFFER_TICK_S: Final = 0.2
COLD_READERS: Final = 4


def install(core: Core) -> None:
    """Let groups pop."""
    config, clock, store, store_host = core.config, core.clock, core.store, core.store.store_host
    order_infos = OrderInfos(core.table("consumerOrderInfo.json"), core.topics, core.groups, clock)
    core.saved.append(order_infos)
    topic = revive_topic(config.broker_cluster_name)
    revive_log = ReviveLog(topic, config.revive_queue_num, core.messages, store_host, clock)
    buffer: Books
    if core.role.is_slave:
        buffer = at_slave = PopsAtSlave(config, core.offsets, clock)
        core.duties.add("serving pops", at_slave.serve)
    else:
        buffer, at_slave = PopBuffer(config, revive_log, core.offsets, core.durability, clock), None
    inflight = Inflight(config, core.offsets, clock, counts=not core.role.is_slave)
    checks = Checks(config, core.topics, core.groups)
    places = Places(config, core.offsets, buffer, order_infos, store)
    readers = ThreadPoolExecutor(COLD_READERS, "cometmq-pop-read")
    popping = Popping(
        config,
        checks,
        core.topics,
        core.offsets,
        places,
        buffer,
        inflight,
        order_infos,
        store,
        clock,
        core.reads,
        readers,
    )
    pops = popping.long_polling
    looking = Looking(config, checks, core.topics, places, order_infos, store, clock, pops, readers)

    def notify_queue(topic: str, group: str, queue_id: int) -> None:
        pops.notify((topic, group, queue_id))

    def notify_freed(topic: str, group: str, queue_id: int) -> None:
        if store.max_offset(topic, queue_id) > places.seen_offset(topic, group, queue_id):
            if not pops.notify((topic, group, ANY_QUEUE)):
                pops.notify((topic, group, queue_id))
            looking.long_polling.notify_all_queues(topic, group, queue_id)

    acknowledging = Acknowledging(
        checks, core.offsets, buffer, inflight, revive_log, order_infos, store, core.durability, clock, notify_queue
    )

    def notify_finished(topic: str, group: str, queue_id: int) -> None:
        pops.notify_all_queues(normal_topic(topic, group), group, queue_id)

    def notify_moved(group: str, topic: str, queue_id: int) -> None:
        pops.notify_all_queues(topic, group, queue_id)

    inflight.on_freed = notify_finished
    if at_slave is not None:
        at_slave.on_visible = notify_finished
    core.routes.add(popping, looking, acknowledging)
    core.offsets.on_reset.append(notify_moved)
    core.offsets.on_removed.append(order_infos.removed)
    core.arrivals.listeners += [pops.arrived, looking.long_polling.arrived]
    core.jobs.append(Job("writing pop's checkpoints", BUFFER_TICK_S, buffer.tick))

    waking = OrderWaking(notify_freed, clock)
    if config.enable_notify_after_pop_order_lock_release:
        order_infos.when_free = waking.when_free
        for held in order_infos.locked():
            waking.when_free(*held)

    retry_messages = RetryMessages(
        core.messages,
        revive_log,
        core.durability,
        core.topics,
        core.offsets,
        store_host,
        clock,
        v2=config.enable_retry_topic_v2,
    )
    revivers = [
        Reviver(
            topic,
            queue_id,
            config.broker_name,
            core.reader,
            core.bridge.read,
            retry_messages,
            inflight,
            core.topics,
            core.groups,
            core.offsets,
            clock,
            interval_ms=config.revive_interval,
            pending_max=max(PENDING_MAX // config.revive_queue_num, 1),
            timer_is_late=lambda: any(is_late() for is_late in core.late),
            end_of=store.next_offset,
        )
        for queue_id in range(config.revive_queue_num)
    ]
    tasks: list[asyncio.Task[None]] = []

    def start() -> None:
        tasks.extend(asyncio.create_task(one.run(), name=f"reviving {at}") for at, one in enumerate(revivers))

    async def stop() -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        tasks.clear()

    core.role.add(start, stop)

    async def close() -> None:
        popping.close()
        looking.close()
        waking.close()
        await stop()
        acknowledging.flush()
        buffer.flush()
        readers.shutdown(cancel_futures=True)

    core.closing.push_async_callback(close)
