"""Options of how a cluster is reached: its name servers, who we are there, and how connections are encrypted.

What must not stand in a program, or in a table of the catalog, which keeps its options for all to see, stands in a
file on the driver, `name=value` in each line. `clientConfig` names it, else the variable COMETMQ_CLIENT_CONFIG. What is
given as an option counts more than what the file says. Tasks are given the values (`with_config`), so no executor needs
that file; those that the options of TLS name must be there on each.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from cometmq import config
from cometmq.client.options import NAMESRV_VARIABLE, ClientOptions
from cometmq.errors import ConfigError, InvalidArgument
from cometmq.net.tls import Tls
from cometmq.wire.signing import Credentials

if TYPE_CHECKING:
    from cometmq.spark.options import Words

CONFIG_VARIABLE: Final = "COMETMQ_CLIENT_CONFIG"
WHO: Final = ("accessKey", "secretKey", "securityToken")
TLS_FILES: Final = {"tls.caFile": "ca_file", "tls.certFile": "cert_file", "tls.keyFile": "key_file"}
TLS: Final = ("tls.enable", *TLS_FILES, "tls.keyPassword", "tls.verify")
SECRETS: Final = ("secretKey", "securityToken", "tls.keyPassword")
CONNECTING: Final = ("namesrvAddr", "requestTimeoutMs", "retryTimeoutMs", "clientConfig", *WHO, *TLS)


def client_of(words: Words) -> ClientOptions:
    """How to reach the cluster."""
    namesrv = words.text("namesrvAddr") or os.environ.get(NAMESRV_VARIABLE)
    if not namesrv:
        raise InvalidArgument(
            f'say where the name server is: .option("namesrvAddr", "host:9876"), or set {NAMESRV_VARIABLE}'
        )
    timeout_ms = words.number("requestTimeoutMs") or 10_000
    return ClientOptions.of(
        namesrv,
        request_timeout_ms=timeout_ms,
        connect_timeout_ms=min(timeout_ms, 3_000),
        credentials=_credentials(words),
        tls=_tls(words),
    )


def usual_client(namesrv: str) -> ClientOptions:
    """The same for who is given no options: by the file that the variable names."""
    from cometmq.spark.options import Words  # which has the names of this module

    return client_of(Words(with_config({"namesrvAddr": namesrv})))


def revived_client(plain: dict[str, Any]) -> ClientOptions:
    """What `asdict` has made plain values of."""
    who, tls = plain["credentials"], plain["tls"]
    return ClientOptions(
        **{**plain, "credentials": who and Credentials(**who), "tls": tls and Tls(**tls)},
    )


def with_config(given: Mapping[str, str]) -> dict[str, str]:
    """The options, and those of the file where they say nothing. Who reads a store's files needs none."""
    names = {name.lower(): name for name in given}
    named = names.get("clientconfig")
    path = given[named].strip() if named is not None else os.environ.get(CONFIG_VARIABLE)
    if not path or "storepath" in names:
        return dict(given)
    found = _read(path, CONFIG_VARIABLE if named is None else f"the option {named}")
    return {**{name: value for name, value in found.items() if name.lower() not in names}, **given}


def _read(path: str, where: str) -> dict[str, str]:
    try:
        found = config.read_properties(path)
    except ConfigError as fault:
        raise InvalidArgument(f"{where}: {fault}") from None
    if unknown := found.keys() - {*WHO, *TLS}:
        raise InvalidArgument(f"{where}: {path} has {min(unknown)}; there are {', '.join((*WHO, *TLS))}")
    return found


def _credentials(words: Words) -> Credentials | None:
    access_key, secret_key, token = (words.text(name) for name in WHO)
    if access_key is None and secret_key is None and token is None:
        return None
    if access_key is None or secret_key is None:
        raise InvalidArgument("the options accessKey and secretKey go together: who asks, and what proves it")
    return Credentials(access_key, secret_key, token)


def _tls(words: Words) -> Tls | None:
    given = words.names(TLS)
    if not words.flag("tls.enable", bool(given)):
        return None
    return Tls(
        **{field: words.text(name) for name, field in TLS_FILES.items()},
        key_password=words.text("tls.keyPassword"),
        verify=words.flag("tls.verify", True),
    )
