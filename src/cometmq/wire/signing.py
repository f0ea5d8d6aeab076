"""Signed requests: who asks, and the proof that they know the secret.

    AccessKey      who asks
    SecurityToken  beside a key that was lent for a while
    Signature      Base64(HMAC-SHA1(secret, values of all other fields in the order of their names · body))

They travel as fields of the header, like those of the request itself; the secret never does, and is in no text that a
person or a log gets to see.

Mirrors: AclClientRPCHook, AclUtils.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Final

from cometmq.wire.command import Command

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user of the cluster: `Credentials("orders", "the secret")`."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def sign(self, command: Command) -> None:
        """Add the fields to a request that is complete otherwise."""
        fields = command.ext
        fields.pop(SIGNATURE, None)
        fields[ACCESS_KEY] = self.access_key
        if self.security_token is not None:
            fields[SECURITY_TOKEN] = self.security_token
        signed = "".join(fields[name] for name in sorted(fields)).encode() + command.body
        digest = hmac.digest(self.secret_key.encode(), signed, "sha1")
        fields[SIGNATURE] = b64encode(digest).decode()
