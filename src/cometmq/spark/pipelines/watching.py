"""Hears of every batch of every stream of a driver in this process.

A Connect session is told of its own streams only, and a pipeline's run elsewhere; but all of them are told to the
driver's own listeners. Ours is an object of Python that the Java side calls (py4j); all other events go by unheard.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import orjson

Heard = Callable[[dict[str, Any]], None]

_PROGRESS = "QueryProgressEvent"


class _Listener:
    """Implements Spark's listener; what is not asked for answers with nothing."""

    class Java:
        implements = ("org.apache.spark.scheduler.SparkListenerInterface",)

    def __init__(self, heard: Heard) -> None:
        self._heard = heard

    def onOtherEvent(self, event: Any) -> None:  # noqa: N802
        if event.getClass().getSimpleName() == _PROGRESS:
            with contextlib.suppress(Exception):  # a display that fails must not fail the pipeline
                self._heard(orjson.loads(event.progress().json()))

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("on"):
            raise AttributeError(name)
        return lambda *_: None


def watch(context: Any, heard: Heard) -> None:
    """Have `heard` called with each batch's progress, as Spark writes it in JSON."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
    context._jsc.sc().addSparkListener(_Listener(heard))
