"""The broker says which consumer takes which queues.

strategies.py     the ways to divide queues among clients; pure
modes.py          whether a group pulls or pops a topic: messageRequestMode.json
topic_queues.py   the queues of a topic on all brokers, as the name servers know them
handlers.py       QUERY_ASSIGNMENT, SET_MESSAGE_REQUEST_MODE, GET_ALL_MESSAGE_REQUEST_MODE
"""

from __future__ import annotations

from cometmq.broker.assignment.handlers import AssignmentHandlers
from cometmq.broker.assignment.modes import RequestModes
from cometmq.broker.assignment.topic_queues import TopicQueues
from cometmq.broker.core import Core
from cometmq.broker.replicated import Replicated
from cometmq.wire.requests.members import GetAllMessageRequestMode


def install(core: Core) -> None:
    """Answer who asks for its queues."""
    modes = RequestModes(core.table("messageRequestMode.json"))
    queues = TopicQueues(core.name_servers, core.clock, core.config.load_balance_poll_name_server_interval)
    core.saved.append(modes)
    core.replicated.append(Replicated("request modes", GetAllMessageRequestMode(), modes.follow))
    core.closing.push_async_callback(queues.close)
    core.routes.add(AssignmentHandlers(core.config, core.topics, core.groups, core.members, modes, queues))
