"""Run a script on both sides and collect what differs without an entry that covers it.

A case (a script in one header form) is run once, whoever asks for it first.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from .broker_scripts import SCRIPTS as BROKER_SCRIPTS
from .differences import Difference, Entry, covering, differences
from .namesrv_scripts import SCRIPTS as NAMESRV_SCRIPTS
from .script import FORMS, Form, Script
from .target import Target

SCRIPTS: tuple[Script, ...] = NAMESRV_SCRIPTS + BROKER_SCRIPTS
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
            self._found[case] = list(self._compare(*CASES[case]))
        return self._found[case]

    def _compare(self, script: Script, form: Form) -> list[Difference]:
        java, comet = self.runner.run(self._ask_both(script, form))
        left_over = []
        for where in java:
            for difference in differences(script.ask.code, where, java[where], comet[where]):
                entry: Entry | None = covering(difference)
                if entry is None:
                    left_over.append(difference)
                else:
                    self.used[entry.title] += 1
        return left_over

    async def _ask_both(self, script: Script, form: Form) -> tuple[dict, dict]:  # type: ignore[type-arg]
        return await asyncio.gather(self.java.run(script, form), self.comet.run(script, form))
