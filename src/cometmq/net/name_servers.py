"""Where the name servers are: as given, by DNS, or asked of an address server over HTTP.

    given           a:9876;b:9876
    DNS             names:9876, every address behind the name
    address server  GET http://domain/rocketmq/nsaddr answers a:9876;b:9876

A look-up that fails keeps the addresses of the last one that did not.

Mirrors: BrokerOuterAPI (dnsLookupAddressByDomain, fetchNameServerAddr), DefaultTopAddressing.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import urllib.request
from http.client import HTTPException
from typing import Final

from cometmq.errors import CometError
from cometmq.net.pool import split_address, split_addresses

log = logging.getLogger("cometmq.net")

LOOKUP_TIMEOUT_S: Final = 3.0
ANSWER_SIZE_MAX: Final = 64 * 1024
DEFAULT_DOMAIN: Final = "jmenv.tbsite.net"
DEFAULT_SUBGROUP: Final = "nsaddr"


class NameServers:
    """The addresses as of the last look-up."""

    def __init__(self, given: str = "", *, by_dns: bool = False, address_server: str | None = None) -> None:
        self._given = split_addresses(given)
        self._by_dns = by_dns
        self._url = address_server
        self.addresses: list[str] = [] if by_dns else self._given

    async def refresh(self) -> None:
        """Look again, if looking is needed at all."""
        try:
            if self._given:
                if self._by_dns:
                    self._take([found for name in self._given for found in await _resolve(name)])
            elif self._url:
                self._take(split_addresses(await asyncio.to_thread(_get, self._url)))
        except (CometError, OSError, ValueError, HTTPException) as failed:
            source = self._url if not self._given else ";".join(self._given)
            log.warning("cannot look up the name servers at %s: %s; keeping %s", source, failed, self.addresses)

    def _take(self, found: list[str]) -> None:
        for address in found:
            split_address(address)  # an address server may answer with a page for people
        if found and found != self.addresses:
            log.info("the name servers are now %s", ";".join(found))
            self.addresses = found


def address_server_url(domain: str = DEFAULT_DOMAIN, subgroup: str = DEFAULT_SUBGROUP) -> str:
    """Where an address server answers; port 8080 unless the domain names one."""
    return f"http://{domain if ':' in domain else domain + ':8080'}/rocketmq/{subgroup}"


async def _resolve(name: str) -> list[str]:
    host, port = split_address(name)
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ips = dict.fromkeys(str(entry[4][0]) for entry in found)
    return [f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}" for ip in ips]


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=LOOKUP_TIMEOUT_S) as answer:
        return str(answer.read(ANSWER_SIZE_MAX), "utf-8").strip()
