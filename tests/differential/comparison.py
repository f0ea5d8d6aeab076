"""Run a script on both sides and collect what differs without an entry that covers it.

A case (a script in one header form) is run once, whoever asks for it first.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .differences import Difference, covering, differences
from .frames import HOSTILE, ending
from .script import FORMS, Form, Script, Server
from .target import Answers, Target

SERVERS: tuple[Server, ...] = ("namesrv", "broker")
# Every module here that is named `…_scripts` brings its own.
SCRIPTS: tuple[Script, ...] = tuple(
    script
    for path in sorted(Path(__file__).parent.glob("*_scripts.py"))
    for script in importlib.import_module(f".{path.stem}", __package__).SCRIPTS
)
CASES: dict[str, tuple[Script, Form]] = {f"{one.name} {form}": (one, form) for one in SCRIPTS for form in FORMS}


@dataclass
class Comparison:
    """Both sides, and what was found so far."""

    java: Target
    comet: Target
    runner: asyncio.Runner
    used: Counter[str] = field(default_factory=Counter)
    _found: dict[str, list[Difference]] = field(default_factory=dict)

    def unexplained(self, case: str) -> list[Difference]:
        """The differences of a case that no entry covers."""
        if case not in self._found:
            self._found[case] = self._compare(*CASES[case])
        return self._found[case]

    def unexplained_end(self, name: str, server: Server) -> list[Difference]:
        """The differences in how a connection ends that carried no request."""
        case = f"{name} {server}"
        if case not in self._found:
            java, comet = self.runner.run(self._end_both(HOSTILE[name], server))
            self._found[case] = self._not_covered(differences(0, name, {"end": java}, {"end": comet}))
        return self._found[case]

    def _compare(self, script: Script, form: Form) -> list[Difference]:
        java, comet = self.runner.run(self._ask_both(script, form))
        found = (differences(script.ask.code, where, java[where], comet[where]) for where in java)
        return self._not_covered(itertools.chain.from_iterable(found))

    def _not_covered(self, found: Iterable[Difference]) -> list[Difference]:
        left_over = []
        for difference in found:
            entry = covering(difference)
            if entry is None:
                left_over.append(difference)
            else:
                self.used[entry.title] += 1
        return left_over

    async def _ask_both(self, script: Script, form: Form) -> list[Answers]:
        return await asyncio.gather(*(side.run(script, form) for side in (self.java, self.comet)))

    async def _end_both(self, data: bytes, server: Server) -> list[str]:
        return await asyncio.gather(*(ending(side.addresses[server], data) for side in (self.java, self.comet)))
