"""What a producer is told of a stored message.

Mirrors: SendMessageProcessor.handlePutMessageResult.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from cometmq.broker.config import BrokerConfig
from cometmq.model import properties
from cometmq.net.routes import Call
from cometmq.wire.codes import ResponseCode, SerializeType
from cometmq.wire.reply_template import ReplyTemplate

_SUCCESS: Final = int(ResponseCode.SUCCESS)
_JSON: Final = int(SerializeType.JSON)


class Receipt(NamedTuple):
    """Where a message stands; of a batch, the ids of all and the offset of the first."""

    msg_id: str
    queue_id: int
    queue_offset: int
    transaction_id: str | None


class BatchReceipt(Receipt):
    """Of an inner batch: its unique key stands for all its messages, so the slow way tells it twice."""

    uniq_key = ""


class Acknowledgements:
    """Answers sends; plain success takes the short way through a template."""

    def __init__(self, config: BrokerConfig) -> None:
        self.fixed_fields: Mapping[str, str] = {
            properties.MSG_REGION: config.region_id,
            properties.TRACE_ON: "true" if config.trace_on else "false",
        }
        self._template = ReplyTemplate(self.fixed_fields, ("msgId", "queueId", "queueOffset", "transactionId"))

    def send(self, call: Call, receipt: Receipt, code: int = _SUCCESS) -> None:
        """Tell the producer, in the header form that it speaks."""
        command = call.command
        transaction_id = receipt[3]
        # A unique key is the producer's own text: only one that needs no escape goes into the template.
        if code == _SUCCESS and command.serialize == _JSON and transaction_id and transaction_id.isalnum():
            call.reply_frame(self._template.fill(command.opaque, *receipt))
            return
        msg_id, queue_id, queue_offset, _ = receipt
        fields = {"msgId": msg_id, "queueId": str(queue_id), "queueOffset": str(queue_offset), **self.fixed_fields}
        if transaction_id is not None:
            fields["transactionId"] = transaction_id
        if isinstance(receipt, BatchReceipt):
            fields["transactionId"] = fields["batchUniqId"] = receipt.uniq_key
        call.reply(code=code, ext=fields)
