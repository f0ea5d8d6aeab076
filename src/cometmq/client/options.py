"""How to reach a cluster, and how patient to be. Producers and consumers take these as keywords.

Mirrors: ClientConfig.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self, TypedDict, Unpack

from cometmq.errors import InvalidArgument, PeerUnreachable
from cometmq.net.pool import split_address, split_addresses
from cometmq.net.tls import Tls
from cometmq.wire.signing import Credentials

NAMESRV_VARIABLE: Final = "NAMESRV_ADDR"


def check_numbers(**numbers: int) -> None:
    """Refuse those below 1, by their names."""
    for name, number in numbers.items():
        if number < 1:
            raise InvalidArgument(f"{name} is {number}; it must be at least 1")


class MoreOptions(TypedDict, total=False):
    """What every client takes besides; a test holds it together with the fields below."""

    request_timeout_ms: int
    connect_timeout_ms: int
    heartbeat_interval_s: float
    route_interval_s: float
    close_timeout_s: float
    heartbeat_v2: bool
    credentials: Credentials | None
    tls: Tls | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """`namesrv` is `a:9876;b:9876`, or an http address that tells them."""

    namesrv: str
    client_id: str | None = None
    request_timeout_ms: int = 3_000
    connect_timeout_ms: int = 3_000
    heartbeat_interval_s: float = 30.0
    route_interval_s: float = 30.0
    close_timeout_s: float = 3.0
    heartbeat_v2: bool = True
    credentials: Credentials | None = None
    tls: Tls | None = None

    @classmethod
    def of(
        cls, namesrv: str | Sequence[str] | None, *, client_id: str | None = None, **others: Unpack[MoreOptions]
    ) -> Self:
        """Options as a program gives them; without `namesrv` the variable that Java reads counts."""
        if namesrv is None:
            namesrv = os.environ.get(NAMESRV_VARIABLE, "")
        text = namesrv if isinstance(namesrv, str) else ";".join(namesrv)
        if not text.strip(" ;,"):
            raise InvalidArgument(f'say where the name server is: namesrv="host:9876", or set {NAMESRV_VARIABLE}')
        text = text.replace(",", ";").strip()
        if not text.startswith(("http://", "https://")):
            for address in split_addresses(text):
                try:
                    split_address(address)
                except PeerUnreachable as fault:
                    raise InvalidArgument(f"namesrv: {fault}") from None
        if unknown := others.keys() - MoreOptions.__annotations__.keys():
            known = ", ".join(MoreOptions.__annotations__)
            raise TypeError(
                f"no such option: {', '.join(sorted(unknown))}; besides its own, every client takes {known}"
            )
        made = cls(namesrv=text, client_id=client_id, **others)
        for name in ("request_timeout_ms", "connect_timeout_ms", "heartbeat_interval_s", "route_interval_s"):
            if getattr(made, name) <= 0:
                raise InvalidArgument(f"{name} is {getattr(made, name)}; it must be more than 0")
        if made.close_timeout_s < 0:
            raise InvalidArgument(f"close_timeout_s is {made.close_timeout_s}; it may not be negative")
        if made.tls is not None:
            made.tls.context()  # files that cannot be used are told at once
        return made
