"""What the brokers of one name ask of each other.

Mirrors: ExchangeHAInfoRequestHeader, ExchangeHAInfoResponseHeader.
"""

from __future__ import annotations

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, request


class ExchangeHaInfoReply(Header):
    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


@request(RequestCode.EXCHANGE_BROKER_HA_INFO, reply=ExchangeHaInfoReply)
class ExchangeHaInfo(Header):
    """With a HA address: a master that starts says where it is. Without: a slave asks its master for that."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None
