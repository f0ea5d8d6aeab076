"""Retry and dead letters: what a group could not consume comes back later, or goes to rest in `%DLQ%group`.

send_back      CONSUMER_SEND_MSG_BACK
dead_letters   which messages are dead, and where they go
policy         how long a message waits before it is tried again, by the policy of its group
"""

from __future__ import annotations

from cometmq.broker.admission import Admission
from cometmq.broker.core import Core
from cometmq.broker.retry.dead_letters import DeadLetters
from cometmq.broker.retry.send_back import SendBack


def install(core: Core) -> None:
    """Take messages back from consumers."""
    core.routes.add(
        SendBack(
            core.config,
            DeadLetters(core.groups, core.topics, core.locks),
            core.topics,
            core.reader,
            core.messages,
            core.durability,
            Admission(core.config, core.durability),
        )
    )
