"""Send many small messages in few requests."""

import asyncio
import os

from cometmq import Message, Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer("sensors", namesrv=NAMESRV) as producer:
        readings = [Message("readings", b"%d" % number) for number in range(300)]
        receipts = await producer.send_batch(readings)  # cut where one request would be too large
        print("sent", len(receipts), "readings; the last is", receipts[-1].message_id)


asyncio.run(main())
