"""The fast port: everything that the main port answers, but for what hands out messages."""

from __future__ import annotations

from tests.conftest import StartBroker
from tests.unit.broker.test_send_and_pull import pull, pulled, send

from cometmq.broker.ports import FAST_PORT_SHIFT, ON_MAIN_PORT_ONLY
from cometmq.net.pool import connect
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command


async def test_what_is_sent_to_the_fast_port_is_pulled_from_the_main_one(broker: StartBroker) -> None:
    async with broker() as (running, main):
        fast = await connect(f"127.0.0.1:{running.port + FAST_PORT_SHIFT}")
        await fast.call(send(), b"quickly")
        assert (await fast.exchange(pull().command())).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert [bytes(record.body) for record in await pulled(main)] == [b"quickly"]
        fast.close()


async def test_every_other_code_is_known_at_both_ports(broker: StartBroker) -> None:
    async with broker() as (running, main):
        fast = await connect(f"127.0.0.1:{running.port + FAST_PORT_SHIFT}")
        for code in sorted(running.codes):
            at_main, at_fast = [await channel.exchange(Command(code)) for channel in (main, fast)]
            assert at_main.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED, code
            if code in ON_MAIN_PORT_ONLY:
                told = (at_fast.code, at_fast.remark)
                assert told == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported")
            else:
                assert at_fast.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED, code
        fast.close()
