"""Signatures of requests: what they cover, and that the secret is told to nobody."""

from __future__ import annotations

import pickle

from cometmq.wire.command import Command, decode_command
from cometmq.wire.requests.send import SendMessageV2
from cometmq.wire.send_template import SendTemplate, SignedSends
from cometmq.wire.signing import Credentials

USER = Credentials("user", "secret", "lent")


def signature(**changes: object) -> str:
    fields: dict[str, object] = {"code": 34, "ext": {"topic": "T", "queueId": "0"}, "body": b"body"}
    command = Command(**{**fields, **changes})  # type: ignore[arg-type]
    USER.sign(command)
    assert command.ext["AccessKey"] == "user" and command.ext["SecurityToken"] == "lent"
    return command.ext["Signature"]


def test_a_signature_covers_body_and_fields() -> None:
    # echo -n userlent0Tbody | openssl dgst -sha1 -hmac secret -binary | base64
    assert signature() == "z4YDu66AouADI7EbcUJ+5Ld+08o="
    assert signature(opaque=7, flag=2, code=35) == signature()  # these are not of the request's content
    assert signature(body=b"Body") != signature()
    assert signature(ext={"topic": "T", "queueId": "1"}) != signature()
    assert signature(ext={"queueId": "0", "topic": "T"}) == signature()


def test_a_request_that_is_signed_again_is_signed_anew() -> None:
    command = Command(34, ext={"topic": "T"})
    USER.sign(command)
    once = dict(command.ext)
    USER.sign(command)
    assert command.ext == once


def test_the_secret_is_in_no_text() -> None:
    assert "secret" not in repr(USER) and "lent" not in repr(USER)
    assert pickle.loads(pickle.dumps(USER)) == USER


def test_signed_sends_are_those_of_the_template() -> None:
    fixed: dict[str, str | int | bool | None] = {
        "producer_group": "g",
        "topic": "T",
        "queue_id": 1,
        "default_topic": "D",
    }
    fixed["default_topic_queue_nums"] = 4
    plain, signed = SendTemplate(SendMessageV2, **fixed), SignedSends(USER, SendMessageV2, **fixed)
    for kind in ("fill", "fill_one_way"):
        message = 5, 1, 1_700_000_000_000, 2, 'KEYS\x01"k"\x02', b"body"
        expected = decode_command(getattr(plain, kind)(*message)[4:] + b"body")
        found = decode_command(getattr(signed, kind)(*message)[4:] + b"body")
        USER.sign(expected)
        assert (found.ext, found.opaque, found.flag, found.body) == (expected.ext, 5, expected.flag, b"body")
