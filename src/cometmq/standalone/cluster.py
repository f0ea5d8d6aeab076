"""A cluster on one machine, to try it out: every NameServer and broker of a deployment as a process of its own.

The death of one does not end the others, for that is what a cluster is there to bear: it is told, together with the
command that starts it again. Only when none is left, the whole ends.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from cometmq import __version__
from cometmq.standalone.deployment import BROKER, NAMESRV, Member, addresses_of
from cometmq.standalone.processes import Child

_ADDRESS: Final = re.compile(r"address (\S+)|The broker\[[^,]*, ([^\]]+)\]")


class Cluster:
    """`await start()`; all of them serve until `await stop()`."""

    def __init__(
        self,
        members: list[Member],
        data: Path,
        *,
        verbosity: int = 0,
        tell: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True),
    ) -> None:
        self._members = members
        self._flags = ["-" + "v" * verbosity] if verbosity else []
        self._tell = tell
        self.data = data
        self.addresses: dict[str, str] = {}
        self.children: dict[str, Child] = {}
        self._stopping = False
        self._all_gone = asyncio.Event()

    async def start(self) -> None:
        """NameServers, then masters, then slaves; of each, all at once."""
        self.data.mkdir(parents=True, exist_ok=True)
        for kind, is_slave in ((NAMESRV, False), (BROKER, False), (BROKER, True)):
            started = [member for member in self._members if (member.kind, member.is_slave) == (kind, is_slave)]
            await asyncio.gather(*map(self._start, started))
        for child in self.children.values():
            assert child.ended is not None
            child.ended.add_done_callback(partial(self._lost, child))

    async def _start(self, member: Member) -> None:
        arguments = [member.kind, "-c", str(member.file), *self._flags]
        if member.kind == BROKER and "namesrvAddr" not in member.values and self.namesrv:
            arguments += ["-n", self.namesrv]
        child = Child(member.name, arguments, self.data / f"{member.name}.log", self.data)
        self.children[member.name] = child
        await child.start()
        found = _ADDRESS.search(await child.booted())
        self.addresses[member.name] = (found[1] or found[2]) if found is not None else ""

    @property
    def namesrv(self) -> str:
        """What clients are told."""
        names = [member.name for member in self._members if member.kind == NAMESRV]
        return addresses_of(self.addresses[name] for name in names if name in self.addresses)

    @property
    def _running(self) -> list[Child]:
        return [one for one in self.children.values() if one.ended is not None and not one.ended.done()]

    def _lost(self, child: Child, _: object) -> None:
        if self._stopping:
            return
        left = self._running
        rest = f"{len(left)} {'other goes' if len(left) == 1 else 'others go'} on" if left else "none is left"
        self._tell(
            f"{child.name} (pid {child.pid}) {child.how_it_ended()}; {rest}.{child.last_words()}\n"
            f"  Start it again, in {self.data}: {child.command}"
        )
        if not left:
            self._all_gone.set()

    async def all_gone(self) -> None:
        """Wait until every process has ended by itself."""
        await self._all_gone.wait()

    async def stop(self) -> None:
        """Brokers first: they say good-bye to the NameServers."""
        self._stopping = True
        if running := len(self._running):
            self._tell(f"Stopping {running} process{'es' if running > 1 else ''}; a second Ctrl-C ends them at once.")
        kinds = {member.name: member.kind for member in self._members}
        for kind in (BROKER, NAMESRV):
            children = [child for name, child in self.children.items() if kinds[name] == kind]
            await asyncio.gather(*(child.stop() for child in children))

    def banner(self) -> str:
        """Who listens where, where the data is, what to try next."""
        width = max(map(len, self.addresses))
        lines = [f"CometMQ {__version__} serves, {len(self.children)} processes. Ctrl-C stops them all."]
        for member in self._members:
            what = "NameServer" if member.kind == NAMESRV else member.values.get("brokerRole", "ASYNC_MASTER")
            pid = self.children[member.name].pid
            lines.append(f"  {member.name:<{width}}  {self.addresses[member.name]:<21}  {what}, pid {pid}")
        lines.append(f"  data and logs in {self.data}")
        lines.append(f"  try next: mqadmin clusterList -n '{self.namesrv}', or kill one of them and look on")
        return "\n".join(lines)
