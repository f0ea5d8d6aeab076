"""The settings in force: those of the file, and what was changed since over the network.

Changes pass an allow-list, take effect at once, and are written to `configStorePath` (the file that was given
with `-c`, as upstream), so that they outlive a restart.

Mirrors: Configuration, DefaultRequestProcessor.updateConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cometmq.config import keys_of, parse_properties, render, section
from cometmq.errors import ConfigError, RequestRefused
from cometmq.namesrv.config import CHANGEABLE, NamesrvConfig
from cometmq.namesrv.files import write_whole


class Settings:
    """Read `current` where a setting is needed, never keep it."""

    def __init__(self, config: NamesrvConfig, file_values: Mapping[str, str] | None = None) -> None:
        self.current = config
        # Keys of the file that we do not know are shown and kept: they may be another program's.
        self._others = {key: value for key, value in (file_values or {}).items() if key not in keys_of(NamesrvConfig)}

    def render(self) -> str:
        """All keys, sorted, as `key=value` lines."""
        pairs = {**self._others, **render(self.current)}
        return "".join(f"{key}={pairs[key]}\n" for key in sorted(pairs))

    def update(self, text: str) -> None:
        """Take `key=value` lines; all of them or, if one may not change or cannot be used, none."""
        asked = parse_properties(text)
        forbidden = set(self.current.config_black_list.split(";"))
        for key in asked:
            if key not in CHANGEABLE or key in forbidden:
                raise RequestRefused(
                    "NO_PERMISSION",
                    f"Can not update config in black list. {key} is not a key that can change while the NameServer "
                    f"runs; set it in its configuration file and restart. Changeable: {', '.join(sorted(CHANGEABLE))}",
                )
        try:
            changed = section(NamesrvConfig, asked)
        except ConfigError as broken:
            raise RequestRefused("INVALID_PARAMETER", str(broken)) from None
        names = keys_of(NamesrvConfig)
        before = self.current
        self.current = replace(before, **{names[key]: getattr(changed, names[key]) for key in asked})
        try:
            write_whole(self.current.config_store_path, self.render().encode())
        except ConfigError:
            self.current = before
            raise
