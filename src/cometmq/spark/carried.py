"""How readers and writers travel to executors: as the name of their class and plain values.

Pickled as usual, a class is named only, and an executor without the package fails with a bare ModuleNotFoundError.
`_revive` is sent by value instead (that is what cloudpickle does with functions of `__main__`), so it runs there
without the package, and says in words what is missing, and where.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _revive(module: str, name: str, arguments: tuple[Any, ...]) -> Any:
    import importlib  # here: nothing of this module is there when it runs

    try:
        made = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as fault:
        import socket
        import sys

        raise ImportError(
            f"the Python of this Spark process ({sys.executable} on {socket.gethostname()}) cannot load {module}: "
            f"{fault}. Every executor needs what the driver has: install CometMQ with its extra spark there, or "
            "send an environment that holds it along (spark.archives with venv-pack or conda-pack, and PYSPARK_PYTHON)"
        ) from None
    return made(*arguments)


_revive.__module__ = "__main__"


def carried(made: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """What `__reduce__` of a reader or writer returns: `made` called with plain values on the other side."""
    return _revive, (made.__module__, made.__qualname__, arguments)
