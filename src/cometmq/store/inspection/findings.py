"""What a look at a store found, in words for people and in fields for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Level(Enum):
    """How bad it is."""

    NOTE = "note"  # the next start takes care of it, or it is worth knowing
    FAULT = "fault"  # not as it should be; `cometmq store repair` says what can be done


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one part of the store."""

    level: Level
    part: str
    text: str


@dataclass(slots=True)
class Report:
    """Everything that was found; `summary` has one line for each part, in the order of looking."""

    summary: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def note(self, part: str, text: str) -> None:
        self.findings.append(Finding(Level.NOTE, part, text))

    def fault(self, part: str, text: str) -> None:
        self.findings.append(Finding(Level.FAULT, part, text))

    @property
    def sound(self) -> bool:
        return not any(found.level is Level.FAULT for found in self.findings)

    def is_sound(self, part: str) -> bool:
        return not any(found.level is Level.FAULT and found.part == part for found in self.findings)

    def to_json(self) -> dict[str, Any]:
        """As `cometmq store check --json` prints it."""
        return {
            "sound": self.sound,
            "parts": {part: {"summary": text, "sound": self.is_sound(part)} for part, text in self.summary.items()},
            "findings": [
                {"level": found.level.value, "part": found.part, "text": found.text} for found in self.findings
            ],
        }
