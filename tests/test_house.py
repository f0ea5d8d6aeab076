"""The rules of the house, held by reading the source: floors, banned calls, sizes, docstrings, paths.

`ARCHITECTURE.md` gives the reasons.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "cometmq"

# Imports go down only; within a floor, rooms do not import each other.
FLOORS = {
    "standalone": 8,
    "cli": 7, "console": 7, "spark": 7,
    "admin": 6, "proxy": 6,
    "broker": 5, "namesrv": 5, "controller": 5, "blocking": 5, "columns": 5,
    "client": 4, "auth": 4, "store": 4,
    "net": 3,
    "wire": 2, "filter": 2,
    "model": 1,
    "errors": 0, "clock": 0, "config": 0, "log": 0, "metrics": 0, "compiled": 0,
}  # fmt: skip
TEST_KIT = "testing"  # may import all, imported by none

BANNED_MODULES = {"pickle", "subprocess", "marshal", "shelve"}
BANNED_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen"}
PROCESS_CALLS = re.compile(
    r"(^|\.)(create_subprocess_\w+|subprocess_exec|subprocess_shell|posix_spawnp?|fork|exec[lv]p?e?)$"
)
STARTS_PROCESSES = "standalone/processes.py"
LINES_MAX = 500
DEPTH_MAX = 3
VAGUE_NAMES = re.compile(r"(^|/)(utils?|helpers?|common|misc)(\.py|/)")
# Spelled in pieces, so that this file does not trip over itself.
MACHINE_PATH = re.compile("(" + "|".join(["/ro" + "ot/", "/ho" + "me/[a-z]", "/wo" + "rk/", "/tmp/" + "rmq"]) + ")")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """Full names of what a module imports; `from cometmq import x` counts as `cometmq.x`."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: imports are absolute"
            assert node.module is not None
            if node.module == "cometmq":
                yield from (f"cometmq.{alias.name}" for alias in node.names)
            else:
                yield node.module


def own_rooms(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imported(path) if name.startswith("cometmq.")}


def test_every_room_has_a_floor() -> None:
    rooms = {room_of(path) for path in modules()} - {"__init__", "__main__", TEST_KIT}
    assert rooms <= set(FLOORS), f"say in FLOORS where {rooms - set(FLOORS)} stand"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_go_down(path: Path) -> None:
    here = room_of(path)
    if here in (TEST_KIT, "__main__", "__init__"):  # the last is the public face, which imports when it is asked
        return
    floor = FLOORS.get(here, -1)
    for room in own_rooms(path) - {here}:
        assert room != TEST_KIT, f"{here} imports the test kit"
        if room in FLOORS:
            assert FLOORS[room] < floor or (floor == FLOORS[room] == 0), (
                f"{name_of(path)} (floor {floor}) imports {room} (floor {FLOORS[room]})"
            )


@pytest.mark.parametrize(
    ("room", "banned"),
    [
        ("store", {"asyncio", "socket", "uvloop"}),
        ("model", {"asyncio", "socket", "struct", "os", "pathlib"}),
        ("wire", {"asyncio", "time", "os", "pathlib", "random"}),
        ("filter", {"asyncio", "socket", "time", "os", "pathlib"}),
    ],
)
def test_rooms_that_stay_pure(room: str, banned: set[str]) -> None:
    for path in modules():
        if room_of(path) == room:
            found = {name.split(".")[0] for name in imported(path)} & banned
            assert not found, f"{name_of(path)} imports {found}"


def test_sockets_are_opened_on_the_net_floor_only() -> None:
    for path in modules():
        if room_of(path) != "net":
            for node in ast.walk(tree_of(path)):
                call = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                assert call not in {"socket.socket", "asyncio.start_server", "asyncio.open_connection"}, name_of(path)


def test_pyspark_is_imported_by_spark_only() -> None:
    for path in modules():
        if room_of(path) != "spark":
            assert not any(name.split(".")[0] == "pyspark" for name in imported(path)), name_of(path)


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_nothing_runs_what_it_is_given(path: Path) -> None:
    assert not {name.split(".")[0] for name in imported(path)} & BANNED_MODULES
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            call = ast.unparse(node.func)
            assert call not in BANNED_CALLS, f"{name_of(path)}:{node.lineno}: {call}"


def test_processes_are_started_in_one_place() -> None:
    """The cluster that `cometmq standalone` runs; servers start none."""
    for path in modules():
        for node in ast.walk(tree_of(path)):
            call = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if PROCESS_CALLS.search(call):
                assert name_of(path) == STARTS_PROCESSES, f"{name_of(path)}:{node.lineno}: {call}"
                assert call == "asyncio.create_subprocess_exec", "no shell"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_module_has_a_docstring_and_a_bounded_size(path: Path) -> None:
    assert ast.get_docstring(tree_of(path)), "say at the top what lives here"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES_MAX
    assert len(path.relative_to(PACKAGE).parts) <= DEPTH_MAX


def test_protocol_numbers_are_written_in_codes_only() -> None:
    """Codes are passed as members of the enumerations, never as bare numbers."""
    for path in modules():
        if name_of(path) == "wire/codes.py":
            continue
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.Call):
                continue
            call = ast.unparse(node.func).rpartition(".")[2]
            given = [word.value for word in node.keywords if word.arg == "code"]
            if call in ("Command", "request", "PeerRefused", "RequestCode", "ResponseCode"):
                given += node.args[:1]
            for value in given:
                is_number = isinstance(value, ast.Constant) and isinstance(value.value, int)
                assert not is_number, f"{name_of(path)}:{node.lineno}: name this code"


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_machine_paths_in_tracked_files() -> None:
    for name in tracked():
        text = (ROOT / name).read_bytes().decode("utf-8", "replace")
        found = MACHINE_PATH.search(text)
        assert found is None, f"{name} names a path of somebody's machine: {found.group()}"


def test_no_vague_file_names() -> None:
    assert [name for name in tracked() if VAGUE_NAMES.search(name)] == []
