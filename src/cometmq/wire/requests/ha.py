"""What is asked about replication.

Mirrors: RequestCode.GET_BROKER_HA_STATUS, which has no header.
"""

from __future__ import annotations

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, request


@request(RequestCode.GET_BROKER_HA_STATUS)
class GetBrokerHaStatus(Header):
    """The answer's body is JSON (`wire/bodies/ha_status.py`)."""
