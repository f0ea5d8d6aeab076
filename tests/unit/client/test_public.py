"""What `import cometmq` offers, what it costs, and the fixture that comes with it."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cometmq as package
from cometmq import Message, Producer, PushConsumer, testing
from cometmq.client.consumer_functions import PushOptions
from cometmq.client.log_handler import ProducerOptions
from cometmq.client.options import ClientOptions, MoreOptions
from cometmq.client.pipeline import SendOptions
from cometmq.testing.pytest_plugin import RunningCluster


def test_names_for_type_checkers_are_those_at_run_time() -> None:
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    typed = {
        alias.asname: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == package._PUBLIC
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError):
        package.nothing  # noqa: B018


def test_options_for_type_checkers_are_those_at_run_time() -> None:
    fields = {field.name: field.type for field in dataclasses.fields(ClientOptions)}
    own = {"namesrv", "client_id"}
    assert {name: kind for name, kind in fields.items() if name not in own} == declared(MoreOptions)
    assert taken(PushConsumer) | declared(MoreOptions) == declared(PushOptions)
    of_producers = taken(Producer)
    del of_producers["namesrv"]  # which a handler of logs takes itself
    assert of_producers | declared(MoreOptions) == declared(ProducerOptions)
    assert taken(Producer.send) == declared(SendOptions)


def taken(function: Callable[..., object]) -> dict[str, str]:
    """What a function takes by keyword only."""
    return {
        name: parameter.annotation
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def declared(options: Any) -> dict[str, str]:
    """The fields of a TypedDict, as they are written."""
    return {name: kind.__forward_arg__ for name, kind in options.__annotations__.items()}


def test_importing_costs_nothing() -> None:
    program = "import sys, cometmq; print(*[name for name in sys.modules if name.startswith('cometmq')])"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["cometmq"]


def test_the_test_kit() -> None:
    for name in testing.__all__:
        assert getattr(testing, name).__name__ == name
    with pytest.raises(AttributeError):
        testing.nothing  # noqa: B018
    program = "import sys, cometmq.testing.pytest_plugin; print([n for n in sys.modules if n.startswith('cometmq.b')])"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_the_fixture(cometmq: RunningCluster) -> None:
    async def send(topic: str) -> str:
        async with Producer("tests", namesrv=cometmq.namesrv) as producer:
            return (await producer.send(Message(topic, b"1"))).topic

    first, second = cometmq.topic(), cometmq.topic()
    assert first != second
    assert asyncio.run(send(first)) == first
