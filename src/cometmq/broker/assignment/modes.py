"""How a group consumes a topic, where an admin has said so: `messageRequestMode.json`.

    messageRequestModeMap   topic → group → {consumerGroup, mode: PULL or POP, popShareQueueNum, topic}

`popShareQueueNum` is how many clients besides itself pop from the queues that fall to a client; 0 or less, or as many
as there are others: all pop from all. Saved before the admin is answered.

Mirrors: MessageRequestModeManager.
"""

from __future__ import annotations

from typing import Any

from cometmq.broker.replicated import read_table
from cometmq.broker.saved import Saved, Table
from cometmq.wire.bodies.assignment import RequestMode, request_mode_from_json


class RequestModes(Saved):
    """What was set, by topic and group."""

    def __init__(self, table: Table) -> None:
        super().__init__(table, self.to_json)
        self._modes: dict[str, dict[str, RequestMode]] = {}
        self.load(self._read)

    def _read(self, saved: dict[str, Any]) -> None:
        for topic, groups in (saved.get("messageRequestModeMap") or {}).items():
            self._modes[topic] = {group: request_mode_from_json(fields) for group, fields in groups.items()}

    def to_json(self) -> dict[str, Any]:
        """The whole table as the file and replies hold it."""
        return {
            "messageRequestModeMap": {
                topic: {group: mode.to_json() for group, mode in groups.items()}
                for topic, groups in self._modes.items()
            }
        }

    def follow(self, body: bytes) -> None:
        """Have what was set at the master."""
        rows, _ = read_table(body, "messageRequestModeMap")
        modes = {
            topic: {group: request_mode_from_json(fields) for group, fields in groups.items()}
            for topic, groups in rows.items()
            if isinstance(groups, dict)
        }
        if modes != self._modes:
            self._modes = modes
            self.mark()
            self.persist()

    def get(self, topic: str, group: str) -> RequestMode | None:
        return self._modes.get(topic, {}).get(group)

    def put(self, topic: str, group: str, mode: RequestMode) -> None:
        self._modes.setdefault(topic, {})[group] = mode
        self.mark()
