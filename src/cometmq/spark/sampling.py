"""How large messages are, by looking at the next few of each queue: for `maxBytesPerTrigger`."""

from __future__ import annotations

from cometmq.model.queue import MessageQueue
from cometmq.model.sysflag import PullFlag
from cometmq.spark.cluster import Cluster, by_broker
from cometmq.spark.offsets import Offsets
from cometmq.spark.pulling import TOOLS_GROUP
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.consume import PullMessage, PullMessageReply

SAMPLE: int = 32


def message_sizes(cluster: Cluster, starts: Offsets, group: str | None) -> dict[MessageQueue, float]:
    """Bytes that a message of each queue takes on average, as far as can be seen."""
    found: dict[MessageQueue, float] = {}
    for broker, own in by_broker(starts).items():
        channel = cluster.channel(broker)
        for queue in own:
            request = PullMessage(
                group or TOOLS_GROUP, str(queue.topic), queue.queue_id, starts[queue], SAMPLE,
                int(PullFlag.SUBSCRIPTION), 0, 0, 0, "*",
            )  # fmt: skip
            answer = channel.answer(channel.ask(request)[0], timeout_ms=cluster.options.request_timeout_ms)
            if answer.code == ResponseCode.SUCCESS:
                count = PullMessageReply.read(answer.ext).next_begin_offset - starts[queue]
                found[queue] = len(answer.body) / max(1, count)
    return found
