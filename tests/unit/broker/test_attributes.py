"""Changes of attributes: what is taken, and the original's sentence for what is not."""

from __future__ import annotations

import pytest

from cometmq.broker.attributes import GROUP_ATTRIBUTES, TOPIC_ATTRIBUTES, alter, parse_changes
from cometmq.errors import RequestRefused


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (None, {}),
        ("", {}),
        (",", {}),
        ("+message.type=FIFO", {"+message.type": "FIFO"}),
        ("+message.type=FIFO,", {"+message.type": "FIFO"}),
        ("+a=1,-b", {"+a": "1", "-b": ""}),
    ],
)
def test_parse(text: str | None, changes: dict[str, str]) -> None:
    assert parse_changes(text) == changes


# The sentences are those of Apache RocketMQ 5.5.0.
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("xyz", "delete attribute format is wrong: xyz"),
        ("message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        ("+message.type=", "Index 1 out of bounds for length 1"),
        ("+a=1,+a=2", "key duplication: +a"),
        ("+nope=1", "unsupported key: nope"),
        ("-message.type", "only add attribute is supported while creating topic. key: message.type"),
        ("+queue.type=x", "value is not in set: [SimpleCQ, BatchCQ]"),
        ("+reserve.time=abc", 'For input string: "abc"'),
        ("+reserve.time=-5", "value is not in range(-1, 9223372036854775807)"),
    ],
)
def test_refused_for_a_new_topic(text: str, why: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        alter(TOPIC_ATTRIBUTES, None, parse_changes(text))
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-message.type", "attempt to delete a nonexistent key: message.type"),
        ("+queue.type=BatchCQ", "attempt to update an unchangeable attribute. key: queue.type"),
        ("+message.type=FIFO,-message.type", "alter duplication key. key: message.type"),
    ],
)
def test_refused_for_an_old_topic(text: str, why: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        alter(TOPIC_ATTRIBUTES, {}, parse_changes(text))
    assert str(refused.value) == why


def test_booleans_come_in_any_case() -> None:
    key = "lite.sub.reset.offset.exclusive"
    assert alter(GROUP_ATTRIBUTES, None, {f"+{key}": "TRUE"}) == {key: "TRUE"}
    with pytest.raises(RequestRefused, match="boolean attribute format is wrong"):
        alter(GROUP_ATTRIBUTES, None, {f"+{key}": "yes"})
