"""The SDK without `async`: the same classes, on one event loop in one thread of their own.

    with Producer("order-service", namesrv="127.0.0.1:9876") as producer:
        receipt = producer.send(Message("orders", b"…"))

They may be used from any number of threads, also where a loop runs already (Jupyter). Nothing here is written twice:
the classes are derived from those of `cometmq.client` (`faces.py`), and `__init__.pyi` from the same declaration by
`python -m tests.sdk.blocking_stub`.
"""

from __future__ import annotations

from typing import Final

from cometmq.blocking.faces import ReceivedMessage, derive
from cometmq.client import lite_pull, pipeline, producer, push_consumer, simple_consumer

# Which class, and what it offers.
DECLARED: Final = {
    "Pipeline": (pipeline.Pipeline, "send flush receipts sent failures"),
    "Producer": (
        producer.Producer,
        """start close send post send_oneway send_batch pipeline flush request reply transaction send_in_transaction
        recall queues create_topic counters group""",
    ),
    "SimpleConsumer": (
        simple_consumer.SimpleConsumer,
        "start close receive pop ack ack_all change_invisible in_flight counters group",
    ),
    "LitePullConsumer": (
        lite_pull.LitePullConsumer,
        """start close subscribe unsubscribe assign assignment queues poll messages pause resume position positions seek
        seek_to_beginning seek_to_end beginning end offset_for_time commit committed counters
        group""",
    ),
    "PushConsumer": (
        push_consumer.PushConsumer,
        "start close subscribe unsubscribe run suspend resume counters queues group",
    ),
}
# Arguments that are functions of the program, and whether they are to be brought into a thread here.
CALLBACKS: Final = {"checker": True, "execute": True, "listener": False}

for _name, (_source, _offers) in DECLARED.items():
    globals()[_name] = derive(_name, _source, _offers.split(), callbacks=CALLBACKS, of=__name__)

__all__ = ["ReceivedMessage", *DECLARED]
