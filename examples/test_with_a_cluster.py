"""Tests of your own programs: `pytest examples/test_with_a_cluster.py`.

The fixture `cometmq` comes with the package: a cluster in the test's own process, up in a few hundredths of a second.
"""

from cometmq import Message
from cometmq.blocking import LitePullConsumer, Producer
from cometmq.testing.pytest_plugin import RunningCluster


def test_what_is_sent_is_read(cometmq: RunningCluster) -> None:
    topic = cometmq.topic()  # a new one, for this test alone
    with Producer("tests", namesrv=cometmq.namesrv) as producer:
        producer.send(Message(topic, b"1"))
    with LitePullConsumer("tests", namesrv=cometmq.namesrv, start_from="first") as consumer:
        consumer.subscribe(topic)
        assert [message.body for message in consumer.poll()] == [b"1"]
