"""The same without async, for scripts and threads."""

import os

from cometmq import Message
from cometmq.blocking import LitePullConsumer, Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")

with Producer("scripts", namesrv=NAMESRV) as producer:
    producer.create_topic("greetings")
    print("sent", producer.send(Message("greetings", b"hello")).message_id)

with LitePullConsumer("script-readers", namesrv=NAMESRV, start_from="first") as consumer:
    consumer.subscribe("greetings")
    while not (messages := consumer.poll()):
        pass
    print("read", messages[0].body.decode())
