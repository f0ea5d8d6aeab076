"""What the commands that start servers share: their flags, files and warnings."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from shutil import which

from cometmq import config
from cometmq.errors import ConfigError, PeerUnreachable
from cometmq.net.pool import split_address, split_addresses
from cometmq.net.server import is_loopback

log = logging.getLogger("cometmq")


def parser(program: str, about: str) -> argparse.ArgumentParser:
    """A parser with the flags that all of them have."""
    made = argparse.ArgumentParser(prog=program, description=about, allow_abbrev=False)
    made.add_argument("-c", "--config", "--configFile", metavar="FILE", help="settings, as key=value lines")
    made.add_argument("-v", "--verbose", action="count", default=0, help="log more; twice: log much more")
    return made


def values_of(path: str | None) -> dict[str, str]:
    """The keys of a settings file; none without one."""
    return config.read_properties(path) if path is not None else {}


def check_addresses(addresses: str) -> str:
    """`a:9876;b:9876` as it is, if it is that."""
    try:
        for address in split_addresses(addresses):
            split_address(address)
    except PeerUnreachable:
        raise ConfigError(
            f'The Name Server Address[{addresses}] illegal, please set it as follows, "127.0.0.1:9876;192.168.0.1:9876"'
        ) from None
    return addresses


def warn_if_open(host: str, what: str) -> None:
    """Say so when others than this machine can reach a server that asks nobody who they are."""
    if not is_loopback(host):
        log.warning(
            "the %s listens on %s without authentication: whoever reaches it can read, write and administer. "
            "Keep it in a network you trust, or bind it to 127.0.0.1.",
            what,
            host,
        )


def own_command(folder: Path | None = None) -> str:
    """`cometmq` as it can be typed in a folder: by its path where the shell would not find it, as after `make run`."""
    beside, folder = Path(sys.executable).with_name("cometmq"), folder or Path.cwd()
    if which("cometmq") is not None or not beside.exists():
        return "cometmq"
    return str(beside.relative_to(folder)) if beside.is_relative_to(folder) else str(beside)


def items(section: object) -> list[str]:
    """`key=value` of every setting, an unset one with nothing after the sign, as Java prints them."""
    rendered = config.render(section)
    return [f"{key}={rendered.get(key, '')}" for key in config.keys_of(type(section))]
