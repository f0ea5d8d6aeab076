"""A reply reaches who asked, and is kept."""

from __future__ import annotations

import asyncio

import pytest
from tests.conftest import StartBroker
from tests.unit.broker.test_client_requests import heartbeat
from tests.unit.broker.test_send_and_pull import pulled, send

from cometmq.errors import PeerRefused
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.codes import FLAG_RESPONSE, ResponseCode
from cometmq.wire.command import Command, encode_command
from cometmq.wire.requests.members import HeartBeat
from cometmq.wire.requests.send import PushReplyMessage, SendMessageReply, SendReplyMessage, SendReplyMessageV2

TO_ASKER = "REPLY_TO_CLIENT\x01asker\x02CORRELATION_ID\x0142\x02"


async def asker(address: str, code: int = ResponseCode.SUCCESS) -> tuple[Channel, asyncio.Queue[Command]]:
    """A client that answers every push with `code`."""
    pushed: asyncio.Queue[Command] = asyncio.Queue(100)

    def take(channel: Channel, command: Command) -> None:
        pushed.put_nowait(command)
        channel.send(encode_command(Command(code, opaque=command.opaque, flag=FLAG_RESPONSE)))

    channel = await connect(address, on_request=take)
    await channel.call(HeartBeat(), heartbeat("asker"))
    while not pushed.empty():
        pushed.get_nowait()
    return channel, pushed


@pytest.mark.parametrize("kind", [SendReplyMessage, SendReplyMessageV2])
async def test_a_reply_is_pushed_and_stored(broker: StartBroker, kind: type) -> None:
    async with broker() as (running, channel):
        waiting, pushed = await asker(running.address)
        answer = await channel.call(send(kind, properties=TO_ASKER), b"the answer")
        assert SendMessageReply.read(answer.ext).queue_offset == 0
        while (command := await pushed.get()).code != PushReplyMessage.code:
            pass
        push = PushReplyMessage.read(command.ext)
        assert (push.topic, bytes(command.body)) == ("orders", b"the answer")
        assert push.properties is not None
        assert "CORRELATION_ID\x0142\x02" in push.properties
        assert "PUSH_REPLY_TIME" in push.properties
        (record,) = await pulled(channel)
        assert record.properties_text.startswith(TO_ASKER)
        waiting.close()


@pytest.mark.parametrize(
    ("properties", "told"), [("", "is null"), ("REPLY_TO_CLIENT\x01nobody\x02", "channel of <nobody> not found")]
)
async def test_a_reply_to_nobody_is_kept_and_refused(broker: StartBroker, properties: str, told: str) -> None:
    async with broker() as (_, channel):
        with pytest.raises(PeerRefused, match=told):
            await channel.call(send(SendReplyMessageV2, properties=properties), b"the answer")
        assert len(await pulled(channel)) == 1


async def test_an_asker_that_refuses_is_told_of(broker: StartBroker) -> None:
    async with broker() as (running, channel):
        waiting, _ = await asker(running.address, ResponseCode.SYSTEM_ERROR)
        with pytest.raises(PeerRefused, match="push reply message to asker"):
            await channel.call(send(SendReplyMessageV2, properties=TO_ASKER), b"the answer")
        waiting.close()


async def test_a_reply_that_is_not_to_be_kept_is_only_pushed(broker: StartBroker) -> None:
    async with broker(storeReplyMessageEnable="false") as (running, channel):
        waiting, _ = await asker(running.address)
        answer = await channel.call(send(SendReplyMessageV2, properties=TO_ASKER), b"the answer")
        assert SendMessageReply.read(answer.ext).msg_id == "0"
        waiting.close()
