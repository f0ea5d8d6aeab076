"""Apache RocketMQ as those run it who let nobody in unasked: requests are signed, connections encrypted.

`with SecuredCluster(folder) as cluster:` serves at `cluster.namesrv_addr`. It speaks TLS alone, with a certificate that
`cluster.ca_file` vouches for and that names `localhost` and 127.0.0.1, and wants to see one of its clients' too. Its
broker knows one user, `ACCESS_KEY` with `SECRET_KEY`.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from cometmq.net.tls import Tls
from cometmq.wire.signing import Credentials

from .java import JavaBroker, JavaNamesrv, compact_jvm
from .registration import registered

ACCESS_KEY: Final = "orders"
SECRET_KEY: Final = "a secret of orders"

KNOWN: Final = Credentials(ACCESS_KEY, SECRET_KEY)

_PROVIDERS: Final = "org.apache.rocketmq.auth.authentication.provider"


class SecuredCluster:
    """A name server and a broker; see the module."""

    def __init__(self, directory: Path) -> None:
        authority = trustme.CA()
        self.ca_file = directory / "ca.pem"
        authority.cert_pem.write_to_path(self.ca_file)
        self.cert_file, self.key_file = write_certificate(directory, "server", authority)
        client_cert, client_key = write_certificate(directory, "client", authority)
        jvm = (*(flag for flag in compact_jvm() if "tls.server.mode" not in flag), *self._tls())
        self.namesrv = JavaNamesrv(directory / "namesrv", jvm=jvm)
        user = {"username": ACCESS_KEY, "password": SECRET_KEY}
        inner = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
        conf = {
            "authenticationEnabled": "true",
            "authenticationProvider": f"{_PROVIDERS}.DefaultAuthenticationProvider",
            "authenticationMetadataProvider": f"{_PROVIDERS}.LocalAuthenticationMetadataProvider",
            "initAuthenticationUser": json.dumps(user),
            "innerClientAuthenticationCredentials": json.dumps(inner),
        }
        self.broker = JavaBroker(directory / "broker", [self.namesrv.addr], conf=conf, jvm=jvm)
        self.tls = Tls(ca_file=str(self.ca_file), cert_file=str(client_cert), key_file=str(client_key))
        self._running = ExitStack()

    def _tls(self) -> list[str]:
        flags = {
            "tls.test.mode.enable": "false",
            "tls.server.mode": "enforcing",
            "tls.server.need.client.auth": "require",
            "tls.server.authClient": "true",
            "tls.server.certPath": self.cert_file,
            "tls.server.keyPath": self.key_file,
            "tls.server.trustCertPath": self.ca_file,
            "tls.enable": "true",
            "tls.client.authServer": "true",
            "tls.client.certPath": self.cert_file,
            "tls.client.keyPath": self.key_file,
            "tls.client.trustCertPath": self.ca_file,
        }
        return [f"-D{name}={value}" for name, value in flags.items()]

    @property
    def namesrv_addr(self) -> str:
        return self.namesrv.addr

    def __enter__(self) -> Self:
        with ExitStack() as running:
            for server in (self.namesrv, self.broker):
                running.callback(server.kill)
                server.start()
            # Their first handshake is too slow for the first registration; the second comes ten seconds later.
            asyncio.run(registered(self.namesrv_addr, within_s=60, credentials=KNOWN, tls=self.tls))
            self._running = running.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()


def write_certificate(directory: Path, name: str, authority: trustme.CA) -> tuple[Path, Path]:
    """A certificate for this machine and its key, in the form that Java reads."""
    issued = authority.issue_cert("localhost", "127.0.0.1", common_name=name)
    cert_file, key_file = directory / f"{name}.pem", directory / f"{name}.key"
    cert_file.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key = load_pem_private_key(issued.private_key_pem.bytes(), password=None)
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return cert_file, key_file
