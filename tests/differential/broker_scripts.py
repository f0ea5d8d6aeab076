from .script import Script
SCRIPTS: tuple[Script, ...] = ()
