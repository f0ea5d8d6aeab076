"""`cometmq namesrv`: a NameServer.

Mirrors: NamesrvStartup.
"""

from __future__ import annotations

from collections.abc import Mapping

from cometmq import log
from cometmq.cli import options
from cometmq.cli.serve import serve
from cometmq.namesrv.app import NameServer, load


def run(arguments: list[str]) -> int:
    parser = options.parser("cometmq namesrv", "A NameServer: brokers register with it, clients ask it for routes.")
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (9876); 0 takes a free one")
    given = parser.parse_args(arguments)
    log.configure(given.verbose)
    values = options.values_of(given.config)
    if given.host is not None:
        values["bindAddress"] = given.host
    if given.port is not None:
        values["listenPort"] = str(given.port)
    return start(values, given.config)


def start(values: Mapping[str, str], config_path: str | None) -> int:
    """Serve; says so in the line that upstream's scripts wait for."""
    server = load(values, config_path)
    options.warn_if_open(server.settings.current.bind_address, "NameServer")
    return serve(server, lambda: print(boot_line(server), flush=True))


def boot_line(server: NameServer) -> str:
    return f"The Name Server boot success. serializeType=JSON, address {server.address}"
