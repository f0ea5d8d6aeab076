"""The short cut of sends: where the extension is, what producers usually send is stored and answered in one call.

    frames of one read ─ SendLane ─ records in the log's pending bytes, one piece of ready replies

`net/channel.py` offers what a read brought; the lane takes the sends at its front and leaves the first frame that is
not one of these, and all behind it, to the patient way (`net/routes.py`, `handlers/send.py`), which alone says what is
right. Taken are messages and batches

    with a JSON header that differs in opaque, born time and properties alone from one that was found good before,
    whose properties have a unique key of letters and digits, wait for the disk, and do not concern the broker,
    that fit into the segment, while nothing stands against sends.

The replies say success, and leave when that is true (`durability.py`).

What is known of a header is dropped when a topic changes. `tests/property/test_send_lane.py` holds both ways to the
same bytes, in the log and in the replies.
"""

from __future__ import annotations

from typing import Final, Literal, Protocol
from zlib import crc32

from cometmq import compiled
from cometmq.broker.acknowledgements import Acknowledgements, ReadyReplies
from cometmq.broker.admission import Admission
from cometmq.broker.durability import Durability
from cometmq.broker.handlers.send import Send
from cometmq.broker.sent_properties import SentProperties
from cometmq.clock import Clock
from cometmq.errors import CometError
from cometmq.model.java_hash import tags_code
from cometmq.net.channel import Channel
from cometmq.net.routes import Call
from cometmq.store.append import UNDISPATCHED_MAX, SendRoute
from cometmq.store.engine import Store
from cometmq.wire.command import decode_command

ROUTES_MAX: Final = 10_000

# Where the messages of a header go, and whether it is that of a batch; False: never for the lane; None: not now.
Learned = SendRoute | Literal[False] | None


class SendLane(Protocol):
    """The face of the compiled class."""

    def __call__(self, channel: Channel, view: memoryview, at: int, /) -> int: ...

    def forget(self) -> None: ...


def open_lane(
    store: Store,
    clock: Clock,
    send: Send,
    sent: SentProperties,
    admission: Admission,
    durability: Durability,
    acknowledgements: Acknowledgements,
) -> SendLane | None:
    """The lane of a broker; None where the extension is not."""
    lane_type = getattr(compiled.twins, "SendLane", None)
    if lane_type is None:
        return None
    appender = store.appender

    def room() -> tuple[int, int]:
        """How many sends, and messages in them, may be taken now without a second thought."""
        if not admission.is_open or durability.lacks_replicas:
            return 0, 0
        return admission.waiting_room, UNDISPATCHED_MAX - len(appender.undispatched)

    def learn(channel: Channel, head: bytes) -> Learned:
        """Of a frame up to its body."""
        try:
            call = Call(channel, decode_command(head))
            found = send.plain_destination(call)
        except CometError:  # the patient way says so to whom it concerns
            return None
        if not found:
            return found
        is_batch, destination = found
        return appender.route(*destination, is_batch=is_batch)

    def answer(channel: Channel, frames: bytes, count: int, end_offset: int) -> None:
        durability.let_leave_when_safe(ReadyReplies(channel, frames, count, end_offset))

    lane: SendLane = lane_type(
        appender.log,
        appender.queues,
        appender.undispatched,
        sent.shapes,
        sent.read,
        sent.own_text.encode(),
        store.store_host.hex().upper().encode(),
        acknowledgements.literals,
        store.config.max_message_size,
        ROUTES_MAX,
        room,
        learn,
        answer,
        clock.now_ms,
        crc32,
        tags_code,
    )
    return lane
