"""How a broker fares, and how far a master's slaves are: asked of masters without any."""

from __future__ import annotations

from .script import Ask, Script

SCRIPTS: tuple[Script, ...] = (Script("broker", Ask(907)), Script("broker", Ask(28)))
