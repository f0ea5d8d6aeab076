"""Deliver a message if, and only if, the local work succeeded."""

import asyncio
import os

from cometmq import Decision, Message, Producer, ReceivedMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
paid: set[str] = set()  # your database


async def check(message: ReceivedMessage) -> Decision:
    """The broker asks if this program, or another of its group, died between its work and the commit."""
    return Decision.COMMIT if message.keys[0] in paid else Decision.ROLLBACK


async def main() -> None:
    async with Producer("payments", namesrv=NAMESRV, checker=check) as producer:
        async with producer.transaction(Message("paid", b"42 EUR", keys=["order-42"])) as transaction:
            paid.add("order-42")
        print("committed", transaction.transaction_id)

        try:
            async with producer.transaction(Message("paid", b"43 EUR", keys=["order-43"])):
                raise RuntimeError("the card was refused")
        except RuntimeError as fault:
            print("rolled back:", fault)


asyncio.run(main())
