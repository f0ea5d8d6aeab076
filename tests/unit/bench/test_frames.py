"""The driver's requests are what a Java client would send, however often they are patched."""

from __future__ import annotations

import pytest
from bench.frames import OPAQUE_FIRST, Batches, Block, Pulls, Sends
from bench.workloads import BATCH_COUNT, BODY_SIZE, PULL_COUNT, QUEUES

from cometmq.model import properties
from cometmq.wire.batch import split_batch
from cometmq.wire.codes import FRAME_SIZE_MAX, RequestCode
from cometmq.wire.command import Command, decode_command
from cometmq.wire.frame import FrameDecoder
from cometmq.wire.requests.consume import PullMessage
from cometmq.wire.requests.send import SendMessageV2


def commands(block: Block) -> list[Command]:
    return [decode_command(frame) for frame in FrameDecoder(FRAME_SIZE_MAX).feed(bytes(block.data))]


def test_sends_are_numbered_and_unique() -> None:
    load = Sends("t", connections=2, chunk=16, seed=7)
    seen: set[str] = set()
    for turn in range(3):
        for connection in range(2):
            found = commands(load.next_block(connection, OPAQUE_FIRST + 16 * turn))
            assert [command.opaque for command in found] == [OPAQUE_FIRST + 16 * turn + n for n in range(16)]
            for place, command in enumerate(found):
                assert command.code == RequestCode.SEND_MESSAGE_V2
                assert len(command.body) == BODY_SIZE
                request = SendMessageV2.read(command.ext)
                assert request.queue_id == place % QUEUES
                given = properties.parse(request.properties or "")
                assert given["WAIT"] == "true" and given["TAGS"]
                seen.add(given["UNIQ_KEY"])
    assert len(seen) == 3 * 2 * 16
    assert {len(key) for key in seen} == {32}


def test_batches_carry_whole_messages() -> None:
    load = Batches("t", connections=1, seed=7)
    keys = set()
    for queue in range(QUEUES):
        (command,) = commands(load.next_block(0, OPAQUE_FIRST))
        request = SendMessageV2.read(command.ext)
        assert (command.code, request.queue_id, request.batch) == (RequestCode.SEND_BATCH_MESSAGE, queue, True)
        inner = split_batch(command.body)
        assert [len(body) for _, body, _ in inner] == [BODY_SIZE] * BATCH_COUNT
        keys |= {properties.parse(data.decode())["UNIQ_KEY"] for _, _, data in inner}
    assert len(keys) == QUEUES * BATCH_COUNT


def test_pulls_stay_in_their_ranges() -> None:
    load = Pulls("t", connections=2, ranges=[(100, 100 + 2 * PULL_COUNT), (0, PULL_COUNT + 1), (5, 5)])
    asked = []
    for _ in range(3):
        (command,) = commands(load.next_block(0, OPAQUE_FIRST))
        request = PullMessage.read(command.ext)
        asked.append((request.queue_id, request.queue_offset, request.max_msg_nums))
    assert asked == [(0, 100, PULL_COUNT), (1, 0, PULL_COUNT), (0, 100 + PULL_COUNT, PULL_COUNT)]


def test_pulls_from_empty_queues_are_refused() -> None:
    with pytest.raises(ValueError, match="send some first"):
        Pulls("t", connections=1, ranges=[(0, PULL_COUNT - 1)])
