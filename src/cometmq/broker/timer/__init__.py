"""Messages for any time: a stage that sends them to wait, a wheel on which they wait, and their recall.

    stage           what a message says about its time; where it waits
    service         the task that does it all, and how far it got
    enqueue         onto the wheel
    dequeue         off the wheel
    slots           which slots hold anything, and what is recalled
    open_slots      what is due about now, in memory
    delivery        what is stored when the time has come
    escape          of a slave whose master is gone: it goes to another master
    metrics         how many wait

How a producer names a message that waits is in `wire/recall_handle.py`; the files are in `store/timer_files.py`,
`timer_wheel.py`, `timer_log.py` and `timer_checkpoint.py`.

Mirrors: org.apache.rocketmq.store.timer.
"""

from __future__ import annotations

import asyncio

from cometmq.broker.core import Core
from cometmq.broker.housekeeping import Job
from cometmq.broker.replicated import Replicated
from cometmq.broker.timer.escape import TimerEscape
from cometmq.broker.timer.handlers import RecallHandlers, TimerHandlers
from cometmq.broker.timer.metrics import TimerMetrics
from cometmq.broker.timer.service import TimerService
from cometmq.broker.timer.stage import TIME_KEYS, TimerStage, precision_ms
from cometmq.store.fs import OsFs
from cometmq.store.timer_files import TimerFiles
from cometmq.wire.requests.timer import GetTimerCheckPoint, GetTimerMetrics

_CLEAN_EVERY_S = 30.0
_SAVE_MASTERS_EVERY_S = 3.0


def install(core: Core) -> None:
    """The stage, the service where the wheel is enabled, and the handlers."""
    config, store_config = core.config, core.store.config
    service: TimerService | None = None
    metrics: TimerMetrics | None = None
    if config.timer_wheel_enable:
        service, metrics = _service(core)

    stage = TimerStage(
        store_config,
        core.clock,
        enabled=service is not None,
        waiting_at=service.waiting_at if service is not None else lambda slot_ms: 0,
        on_recall=service.recall if service is not None else lambda key, slot_ms: None,
    )
    core.messages.add_stage(stage, *TIME_KEYS)
    recall = RecallHandlers(config, store_config, core.topics, core.messages, core.durability, core.clock)
    core.routes.add(recall, TimerHandlers(service, metrics))
    core.told.append(lambda: _told(service, metrics))


def _service(core: Core) -> tuple[TimerService, TimerMetrics]:
    store_config = core.store.config
    files = TimerFiles(
        OsFs(),
        store_config.store_path_root_dir,
        precision_ms=precision_ms(store_config.timer_precision_ms),
        log_file_size=store_config.mapped_file_size_timer_log,
    )
    core.closing.callback(files.close)
    files.open(core.store.written_offset)
    metrics = TimerMetrics(core.table("timermetrics"), core.clock)
    core.saved.append(metrics)
    core.replicated.append(Replicated("timer metrics", GetTimerMetrics(), metrics.follow))
    with_topic = store_config.append_topic_for_timer_delete_key
    escape = TimerEscape(files.checkpoint, core.store, core.reader, core.bridge, core.clock, keys_with_topic=with_topic)
    core.duties.add("timed messages", escape.run)
    core.replicated.append(
        Replicated("timer progress", GetTimerCheckPoint(True), escape.follow, often=True, of_the_log=True)
    )
    service = TimerService(files, core.store, core.messages, core.reader, core.durability, metrics, core.clock)
    core.taken_back.append(Replicated("timer progress", GetTimerCheckPoint(), service.take_back))
    core.closing.push_async_callback(service.close)
    core.late.append(service.is_late)
    core.arrivals.listeners.append(service.arrived)
    job = core.role.job
    core.jobs.append(Job("saving the timer", store_config.timer_flush_interval_ms / 1000, job(service.flush)))
    core.jobs.append(Job("deleting old timer files", _CLEAN_EVERY_S, job(service.delete_expired)))
    core.role.add(service.start, service.close)
    if core.role.is_slave:

        async def save() -> None:
            await asyncio.get_running_loop().run_in_executor(None, files.prepare_flush())

        core.jobs.append(Job("saving the master's timer progress", _SAVE_MASTERS_EVERY_S, save))
        core.closing.push_async_callback(save)
    return service, metrics


def _told(service: TimerService | None, metrics: TimerMetrics | None) -> dict[str, str]:
    """What operators hear; the rates are not counted."""
    read_behind_s, offset_behind = (0, 0) if service is None else service.behind()
    return {
        "timerReadBehind": str(read_behind_s),
        "timerOffsetBehind": str(offset_behind),
        "timerCongestNum": str(0 if metrics is None else metrics.total),
        "timerEnqueueTps": "0.0",
        "timerDequeueTps": "0.0",
    }
