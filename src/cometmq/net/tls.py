"""Encrypted connections: whose certificates are believed, and which one we show.

The files are read for every new connection, so renewed ones count from the next connection on.

Mirrors: TlsHelper, but that servers are believed only where their certificate proves them.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from cometmq.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """`Tls()` believes whom the system believes; `Tls(ca_file="ca.pem")` those whom that authority vouches for."""

    ca_file: str | None = None
    cert_file: str | None = None  # with `key_file`: what servers get that want to know us
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True  # False: anybody is believed, who can then read and change everything

    def context(self) -> ssl.SSLContext:
        """What a connection is made with; raises `InvalidArgument` for files that cannot be used."""
        if self.key_file is not None and self.cert_file is None:
            raise InvalidArgument("key_file is of no use without cert_file")
        reading = self.ca_file
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                reading = self.cert_file
                context.load_cert_chain(self.cert_file, self.key_file, self.key_password or _no_password)
        except OSError as fault:  # ssl.SSLError is one
            raise InvalidArgument(f"tls: {reading} cannot be used: {fault}") from None
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _no_password() -> str:
    """OpenSSL would ask at the terminal."""
    return ""
