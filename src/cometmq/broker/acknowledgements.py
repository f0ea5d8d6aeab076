"""What a producer is told of a stored message.

Mirrors: SendMessageProcessor.handlePutMessageResult.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from cometmq.broker.config import BrokerConfig
from cometmq.model import properties
from cometmq.net.channel import Channel
from cometmq.net.routes import Call
from cometmq.wire.codes import FLAG_RESPONSE, RequestCode, ResponseCode, SerializeType
from cometmq.wire.command import Body, Command, decode_command, encode_head
from cometmq.wire.frame import FrameDecoder
from cometmq.wire.message_id import parse_offset_id
from cometmq.wire.reply_template import ReplyTemplate

_SUCCESS: Final = int(ResponseCode.SUCCESS)
_JSON: Final = int(SerializeType.JSON)


class Receipt(msgspec.Struct, gc=False):
    """Where a message stands; of a batch, the ids of all and the offset of the first."""

    msg_id: str
    queue_id: int
    queue_offset: int
    transaction_id: str | None


class BatchReceipt(Receipt):
    """Of an inner batch: its unique key stands for all its messages, so the slow way tells it twice."""

    uniq_key: str = ""


class TimedReceipt(Receipt):
    """Of a message that waits for its time: it can be called back. It takes the slow way too."""

    uniq_key: str = ""
    recall_handle: str = ""


class ReadyReplies:
    """Replies of success to `count` sends of one connection, encoded before it is sure that they may leave.

    The messages stand in the log one behind the other, in the order of the replies, the last up to `end_offset`.
    """

    __slots__ = ("channel", "count", "end_offset", "frames")

    def __init__(self, channel: Channel, frames: bytes, count: int, end_offset: int) -> None:
        self.channel = channel
        self.frames = frames
        self.count = count
        self.end_offset = end_offset

    def apart(self) -> list[tuple[int, Call, Receipt]]:
        """Each send for itself, with the end of its messages, for who has something else to tell than success."""
        replies = [decode_command(frame) for frame in FrameDecoder().feed(self.frames)]
        begins = [parse_offset_id(reply.ext["msgId"].partition(",")[0])[1] for reply in replies]
        return [
            (end, Call(self.channel, Command(RequestCode.SEND_MESSAGE_V2, opaque=reply.opaque)), _receipt_in(reply.ext))
            for reply, end in zip(replies, [*begins[1:], self.end_offset], strict=True)
        ]


def _receipt_in(ext: Mapping[str, str]) -> Receipt:
    return Receipt(ext["msgId"], int(ext["queueId"]), int(ext["queueOffset"]), ext["transactionId"])


Owed = tuple[Call, Receipt] | ReadyReplies


def fixed_fields(config: BrokerConfig) -> dict[str, str]:
    """What every answer to a send carries, and every message that is sent."""
    return {
        properties.MSG_REGION: config.region_id,
        properties.TRACE_ON: "true" if config.trace_on else "false",
    }


class Acknowledgements:
    """Answers sends; plain success takes the short way through a template."""

    def __init__(self, config: BrokerConfig) -> None:
        self.fixed_fields: Mapping[str, str] = fixed_fields(config)
        self._template = ReplyTemplate(
            self.fixed_fields,
            ("msgId", "queueId", "queueOffset", "transactionId"),
            texts=("msgId", "transactionId"),
        )

    def send(self, call: Call, receipt: Receipt, code: int = _SUCCESS) -> None:
        """Tell the producer, in the header form that it speaks."""
        if call.claim():
            call.channel.send(self._frame(call.command, receipt, code))

    @property
    def literals(self) -> tuple[bytes, ...]:
        """The template of success in JSON, cut at its gaps: message id, queue id and offset, unique key, opaque."""
        return self._template.literals

    def send_all(self, owed: Iterable[Owed]) -> None:
        """Tell many; what one connection gets leaves in one write, now."""
        leaving: defaultdict[Channel, list[Body]] = defaultdict(list)
        for one in owed:
            if isinstance(one, ReadyReplies):
                leaving[one.channel].append(one.frames)
                continue
            call, receipt = one
            if call.claim():
                leaving[call.channel].append(self._frame(call.command, receipt, _SUCCESS))
        for channel, frames in leaving.items():
            channel.send_now(frames)

    def _frame(self, command: Command, receipt: Receipt, code: int) -> bytes:
        transaction_id = receipt.transaction_id
        # A unique key is the producer's own text: only one that needs no escape goes into the template.
        if code == _SUCCESS and command.serialize == _JSON and transaction_id and transaction_id.isalnum():
            return self._template.fill(
                command.opaque,
                receipt.msg_id.encode(),
                receipt.queue_id,
                receipt.queue_offset,
                transaction_id.encode(),
            )
        fields = {
            "msgId": receipt.msg_id,
            "queueId": str(receipt.queue_id),
            "queueOffset": str(receipt.queue_offset),
            **self.fixed_fields,
        }
        if transaction_id is not None:
            fields["transactionId"] = transaction_id
        if isinstance(receipt, BatchReceipt):
            fields["transactionId"] = fields["batchUniqId"] = receipt.uniq_key
        elif isinstance(receipt, TimedReceipt):
            fields["transactionId"], fields["recallHandle"] = receipt.uniq_key, receipt.recall_handle
        answer = Command(code, opaque=command.opaque, flag=FLAG_RESPONSE, ext=fields, serialize=command.serialize)
        return encode_head(answer, 0)
