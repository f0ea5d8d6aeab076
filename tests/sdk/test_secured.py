"""Against a cluster that lets nobody in unasked: signed requests, encrypted connections, and whoever lacks either."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.original.secured import ACCESS_KEY, KNOWN, SECRET_KEY, SecuredCluster, write_certificate
from tests.sdk.conftest import Server
from tests.sdk.push_kit import Heard, new, until

from cometmq import Credentials, Decision, LitePullConsumer, Message, Producer, PushConsumer, SimpleConsumer, Tls
from cometmq.blocking import Producer as BlockingProducer
from cometmq.client.instance import ClientInstance
from cometmq.client.options import ClientOptions
from cometmq.errors import CometError, PeerError
from cometmq.model.names import AUTO_CREATE_TOPIC


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("secured")) as cluster:
        yield cluster


@pytest.fixture
def tls(secured: SecuredCluster) -> Tls:
    return secured.tls


async def test_everything_is_signed_and_encrypted(secured: SecuredCluster, tls: Tls) -> None:
    how: dict[str, Any] = {"namesrv": secured.namesrv_addr, "credentials": KNOWN, "tls": tls}
    topic, sent = new(), set(range(10))
    async with Producer("secured", checker=lambda message: Decision.UNKNOWN, **how) as producer:
        await producer.create_topic(topic, queues=2)
        await producer.send(Message(topic, b"0", tags="t", keys=["k"], properties={"名": "é\t"}))
        await producer.send_batch([Message(topic, b"1"), Message(topic, b"2")])
        async with producer.pipeline() as pipeline:
            for number in range(3, 8):
                await pipeline.send(Message(topic, b"%d" % number))
        await producer.send_oneway(Message(topic, b"8"))
        async with producer.transaction(Message(topic, b"9")):
            pass
    pushed, pulled, popped = Heard(), set[int](), set[int]()
    push = PushConsumer(new("group"), start_from="first", **how)
    async with push.subscribe(topic, pushed):
        await until(lambda: set(pushed.numbers) == sent)
    async with LitePullConsumer(new("group"), start_from="first", **how) as consumer:
        await consumer.assign(await consumer.queues(topic))
        async with asyncio.timeout(30):
            while pulled != sent:
                pulled |= {int(message.body) for message in await consumer.poll()}
    async with SimpleConsumer(new("group"), start_from="first", **how) as simple, asyncio.timeout(30):
        while popped != sent:
            messages = await simple.pop(topic)
            popped |= {int(message.body) for message in messages}
            await simple.ack_all(messages)


def test_without_async(secured: SecuredCluster, tls: Tls) -> None:
    with BlockingProducer("secured", namesrv=secured.namesrv_addr, credentials=KNOWN, tls=tls) as producer:
        assert producer.send(Message(new(), b"1")).queue_offset == 0


@pytest.mark.parametrize(
    ("credentials", "told"),
    [
        (None, "username cannot be null"),
        (Credentials(ACCESS_KEY, "not the secret"), "check signature failed"),
        (Credentials("nobody", SECRET_KEY), "not exist|not found|check"),
    ],
)
async def test_who_is_not_known_is_told_so(
    secured: SecuredCluster, tls: Tls, credentials: Credentials | None, told: str
) -> None:
    async with Producer("secured", namesrv=secured.namesrv_addr, credentials=credentials, tls=tls) as producer:
        with pytest.raises(CometError, match=told) as refused:
            await producer.send(Message(new(), b"1"))
    assert SECRET_KEY not in str(refused.value)


async def test_who_is_not_believed_is_not_spoken_to(secured: SecuredCluster, tls: Tls, tmp_path: Path) -> None:
    stranger = trustme.CA()
    stranger_file = tmp_path / "stranger.pem"
    stranger.cert_pem.write_to_path(stranger_file)
    cert_file, key_file = write_certificate(tmp_path, "stranger", stranger)
    asking = {
        "not vouched for": replace(tls, ca_file=str(stranger_file)),
        "not vouched for: see": replace(tls, ca_file=None),  # nor does the system know the authority
        "name server answers": replace(tls, cert_file=str(cert_file), key_file=str(key_file)),
        "closed by the peer": None,
    }
    for told, wrong in asking.items():
        with pytest.raises(PeerError, match=told):
            await _ask(secured.namesrv_addr, wrong)
    await _ask(secured.namesrv_addr, replace(tls, ca_file=None, verify=False))
    await _ask(secured.namesrv_addr.replace("127.0.0.1", "localhost"), tls)


async def test_a_server_that_does_not_speak_tls(comet: Server) -> None:
    with pytest.raises(PeerError, match="does it speak TLS"):
        await _ask(comet.namesrv, Tls())


async def _ask(namesrv: str, tls: Tls | None) -> None:
    instance = await ClientInstance.join(
        ClientOptions.of(namesrv, credentials=KNOWN, tls=tls, request_timeout_ms=2_000)
    )
    try:
        await instance.name_servers.route(AUTO_CREATE_TOPIC)
    finally:
        await instance.leave()
