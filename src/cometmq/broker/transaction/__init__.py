"""Transactions: half messages, their ends, and the checks in between."""

from __future__ import annotations

from typing import Final

from cometmq.broker.core import Core
from cometmq.broker.handlers.extensions import ExtensionHandlers
from cometmq.broker.housekeeping import Job
from cometmq.broker.role import SLAVE
from cometmq.broker.transaction.checks import Checks
from cometmq.broker.transaction.ends import Ends
from cometmq.broker.transaction.escape import TransactionEscape
from cometmq.broker.transaction.handlers import TransactionHandlers
from cometmq.broker.transaction.many import ManyHandlers
from cometmq.broker.transaction.metrics import TransactionMetrics
from cometmq.broker.transaction.recovery import recover
from cometmq.broker.transaction.service import Transactions
from cometmq.model import properties

PROGRESS_EVERY_S: Final = 1.0


def install(core: Core) -> None:
    """Let the broker take transactions."""
    config, store, clock = core.config, core.store, core.clock
    metrics = TransactionMetrics(core.table("transactionMetrics"), clock)
    core.saved.append(metrics)
    transactions = Transactions(config, store, core.messages, core.offsets, core.topics, metrics, clock)
    core.messages.add_stage(transactions.begin, properties.TRANSACTION_PREPARED, producers_only=True)
    ends = Ends(store, transactions)
    is_slave = config.broker_role == SLAVE
    core.routes.add(
        TransactionHandlers(config, store, core.reader, core.durability, transactions, ends, clock),
        ManyHandlers(core.reader, core.durability, ends, is_slave=is_slave),
        ExtensionHandlers(message_index_enable=store.config.message_index_enable),
    )
    checks = Checks(config, store, core.reader, core.durability, core.members, transactions, clock)
    job = core.role.job
    core.jobs.append(Job("checking transactions", config.transaction_check_interval / 1000, job(checks.round)))
    core.jobs.append(Job("saving how far transactions are", PROGRESS_EVERY_S, job(transactions.save_progress)))

    def start() -> None:
        recover(store, core.offsets, transactions)

    async def stop() -> None:
        await transactions.close(core.durability)

    core.role.add(start, stop)
    core.duties.add("half messages", TransactionEscape(store, core.offsets, core.bridge).run)
    core.closing.push_async_callback(transactions.close, core.durability)
