"""Let a program's log go to a topic. It never waits for the broker, and never fails because of it."""

import logging
import os

from cometmq import TopicHandler

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")

handler = TopicHandler("logs", namesrv=NAMESRV)
log = logging.getLogger("shop")
log.addHandler(handler)
log.warning("sold out: %s", "umbrellas")
handler.flush()
print("sent", handler.sent, "dropped", handler.dropped)
