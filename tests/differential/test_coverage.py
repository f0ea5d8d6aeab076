"""The scripts leave no gap: every code that CometMQ answers × valid, missing, wrong type, absent × both forms."""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest

from cometmq.wire.schema import Header, wire_name

from .comparison import CASES, SCRIPTS, SERVERS
from .handled import handled
from .script import FORMS, VALID, Script, Server

ANSWERED = [(server, request) for server in SERVERS for request in sorted(handled(server), key=lambda one: one.code)]

# Declared first by the issue that built the ground floor; later ones add theirs by having a handler.
GROUND_FLOOR: dict[Server, set[int]] = {
    "namesrv": {100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327,
                901, 904},
    "broker": {10, 11, 12, 14, 15, 17, 18, 21, 29, 30, 31, 32, 33, 34, 35, 38, 43, 46, 200, 201, 207, 215, 225, 310,
               320, 351, 352, 361},
}  # fmt: skip


def scripted(server: Server) -> dict[int, Script]:
    return {script.ask.code: script for script in SCRIPTS if script.server == server and not script.title}


@pytest.mark.parametrize("server", SERVERS)
def test_every_code_has_a_script(server: Server) -> None:
    answered = {int(request.code) for request in handled(server)}
    assert answered >= GROUND_FLOOR[server]
    assert answered == set(scripted(server))


def test_every_script_runs_in_both_header_forms() -> None:
    assert len(CASES) == len(SCRIPTS) * len(FORMS)


@pytest.mark.parametrize(("server", "request_type"), ANSWERED, ids=lambda one: getattr(one, "__name__", one))
def test_every_declared_field_is_left_out_and_misspelt(server: Server, request_type: type[Header]) -> None:
    script = scripted(server)[int(request_type.code)]
    variants = script.variants()
    assert VALID in variants
    for name, kind in required(request_type):
        assert f"missing {name}" in variants
        if kind != "str":
            assert f"wrong type {name}" in variants
    named = [name for name, value in script.ask.fields.items() if "{topic}" in value or "{group}" in value]
    if {"topic", "group", "consumerGroup", "groupName"} & set(script.ask.fields):
        assert any(f"absent {name}" in variants for name in named)
    if script.ask.body is not None:
        assert "missing body" in variants


def required(request_type: type[Header]) -> list[tuple[str, str]]:
    """The wire names and types of the fields that a request must carry."""
    return [
        (item.metadata.get("wire") or wire_name(item.name), str(item.type).split(" ")[0])
        for item in fields(request_type)  # type: ignore[arg-type]
        if item.default is MISSING
    ]
