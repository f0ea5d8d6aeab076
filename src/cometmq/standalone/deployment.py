"""A deployment: a folder of settings files, one for each process of a cluster.

    namesrv*.conf   a NameServer each
    broker*.conf    a broker each; brokerId 0 is a master, others are slaves of the master with their brokerName

Paths in them are relative to the folder in which the processes run. `write` makes such files for a cluster of a
given shape on one machine, with ports that follow from each other:

    NameServers   9876, 9877, …
    brokers       10911, 10921, …: masters and their slaves in turn; each takes port - 2 and + 1 too
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from string import ascii_lowercase
from typing import Final

from cometmq.broker.config import MASTER_ID
from cometmq.config import read_properties
from cometmq.errors import ConfigError
from cometmq.store.inspection.folder import refuse_if_open
from cometmq.store.lock import LOCK_NAME

NAMESRV: Final = "namesrv"
BROKER: Final = "broker"

MASTERS_MAX: Final = len(ascii_lowercase)
SLAVES_MAX: Final = 8
NAMESRVS_MAX: Final = 8
BROKER_PORT: Final = 10911
PORT_STEP: Final = 10
SMALL_LOG_FILE: Final = 64 << 20  # several brokers on one disk, to try them out


@dataclass(frozen=True)
class Member:
    """One process: what it is, and the file that says the rest."""

    kind: str
    file: Path
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.file.stem

    @property
    def is_slave(self) -> bool:
        return self.kind == BROKER and int(self.values.get("brokerId", MASTER_ID)) != MASTER_ID


@dataclass(frozen=True)
class Shape:
    """How many of what; a port of 0 takes a free one for each."""

    masters: int = 1
    slaves: int = 0  # of each master
    namesrvs: int = 1
    host: str | None = None
    namesrv_port: int = 9876
    broker_port: int | None = None

    def __post_init__(self) -> None:
        for flag, number, least, most in (
            ("--masters", self.masters, 1, MASTERS_MAX),
            ("--slaves", self.slaves, 0, SLAVES_MAX),
            ("--namesrvs", self.namesrvs, 1, NAMESRVS_MAX),
        ):
            if not least <= number <= most:
                raise ConfigError(f"{flag} {number}: {least} to {most} are possible")


def read(folder: Path) -> list[Member]:
    """The members of a folder, in the order in which they start: NameServers, masters, slaves."""
    found = [Member(kind, file, read_properties(file)) for kind, file in _files(folder)]
    if not any(member.kind == BROKER for member in found):
        raise ConfigError(f"{folder} is no deployment: files named namesrv*.conf and broker*.conf are expected in it")
    return sorted(found, key=lambda member: (member.kind != NAMESRV, member.is_slave, member.name))


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for kind in (NAMESRV, BROKER):
        for file in sorted(folder.glob(f"{kind}*.conf")):
            yield kind, file.absolute()


def write(folder: Path, shape: Shape, given: Mapping[str, str]) -> list[Member]:
    """Write the files of a cluster into `folder`. Every broker gets the keys of `given`; its role stays its own.

    Raises `StoreLocked`, and writes nothing, while a broker runs in one of its folders.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for lock in sorted(folder.glob(f"*/{LOCK_NAME}")):
        refuse_if_open(str(lock.parent))
    members = [*_namesrvs(folder, shape), *_brokers(folder, shape, given)]
    for member in members:
        lines = [f"{key}={value}\n" for key, value in member.values.items()]
        member.file.write_text("# Written by `cometmq standalone`, anew at each start.\n" + "".join(lines), "utf-8")
    return sorted(members, key=lambda member: (member.kind != NAMESRV, member.is_slave))


def _bind(shape: Shape) -> dict[str, str]:
    return {} if shape.host is None else {"bindAddress": shape.host}


def _namesrvs(folder: Path, shape: Shape) -> Iterator[Member]:
    for number in range(shape.namesrvs):
        name = NAMESRV if shape.namesrvs == 1 else f"{NAMESRV}-{number + 1}"
        port = _port(shape.namesrv_port, number)
        values = {**_bind(shape), "listenPort": port, "kvConfigPath": str(folder / name / "kvConfig.json")}
        yield Member(NAMESRV, folder / f"{name}.conf", values)


def _brokers(folder: Path, shape: Shape, given: Mapping[str, str]) -> Iterator[Member]:
    base = shape.broker_port if shape.broker_port is not None else int(given.get("listenPort", BROKER_PORT))
    places = count(0, PORT_STEP)
    for letter in ascii_lowercase[: shape.masters]:
        for broker_id in range(shape.slaves + 1):
            broker_name = f"broker-{letter}"
            name = broker_name if broker_id == MASTER_ID else f"{broker_name}-s{broker_id}"
            own = {
                "brokerName": broker_name,
                "brokerId": str(broker_id),
                "brokerRole": given.get("brokerRole", "ASYNC_MASTER") if broker_id == MASTER_ID else "SLAVE",
                "listenPort": _port(base, next(places)),
                "storePathRootDir": str(folder / name),
            }
            common = {"mappedFileSizeCommitLog": str(SMALL_LOG_FILE), **given, **_bind(shape)}
            yield Member(BROKER, folder / f"{name}.conf", {**common, **own})


def _port(base: int, shift: int) -> str:
    if base + shift > 65_534:
        raise ConfigError(f"the ports that follow {base} end above 65534: choose a smaller first one")
    return str(base + shift if base else 0)


def addresses_of(namesrvs: Iterable[str]) -> str:
    """How brokers and clients are told of several NameServers."""
    return ";".join(namesrvs)
