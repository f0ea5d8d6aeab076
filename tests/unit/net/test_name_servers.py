"""Finding name servers: given, by DNS, and from an address server that may be wrong or away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from cometmq.net.name_servers import NameServers, address_server_url


class Answers(BaseHTTPRequestHandler):
    status, body = 200, b"127.0.0.1:9876;127.0.0.1:9877\n"

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/rocketmq/nsaddr" else 404)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_given_addresses_need_no_look_up() -> None:
    servers = NameServers(" a:1 ; b:2;")
    await servers.refresh()
    assert servers.addresses == ["a:1", "b:2"]


async def test_dns_finds_every_address_behind_a_name() -> None:
    servers = NameServers("localhost:9876", by_dns=True)
    await servers.refresh()
    assert "127.0.0.1:9876" in servers.addresses


async def test_an_address_server_is_asked(domain: str) -> None:
    servers = NameServers(address_server=address_server_url(domain))
    await servers.refresh()
    assert servers.addresses == ["127.0.0.1:9876", "127.0.0.1:9877"]


async def test_a_failing_address_server_keeps_what_is_known(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = NameServers(address_server=address_server_url(domain))
    await servers.refresh()
    for status, body in ((500, b"oops"), (200, b""), (200, b"<html>Sign in</html>")):
        monkeypatch.setattr(Answers, "status", status)
        monkeypatch.setattr(Answers, "body", body)
        await servers.refresh()
        assert servers.addresses == ["127.0.0.1:9876", "127.0.0.1:9877"]


@pytest.mark.parametrize("said", [b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", b""])
async def test_what_is_no_address_server_leaves_none(said: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        servers = NameServers(address_server="http://{}:{}/".format(*server.sockets[0].getsockname()))
        await servers.refresh()
    assert servers.addresses == []


@pytest.mark.parametrize("name", ["no-port", "host.invalid:9876"])
async def test_a_name_that_leads_nowhere_leaves_none(name: str) -> None:
    servers = NameServers(name, by_dns=True)
    await servers.refresh()
    assert servers.addresses == []


def test_the_url_has_the_port_of_the_domain() -> None:
    assert address_server_url("names") == "http://names:8080/rocketmq/nsaddr"
    assert address_server_url("names:80", "other") == "http://names:80/rocketmq/other"
