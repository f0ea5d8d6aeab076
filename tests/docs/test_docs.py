"""What the documents say is true: links lead somewhere, targets exist, commands parse, generated pages are current."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from tests.docs import config_page

from cometmq.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
WITH_COMMANDS = {"pipeline", "store"}  # which have commands of their own
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INSTALLABLE = {".", *(f".[{extra}]" for extra in PROJECT["optional-dependencies"])}  # nothing is published yet
IDS = [str(page.relative_to(ROOT)) for page in PAGES]


def commands(page: Path) -> list[str]:
    """The lines of the page's shell blocks, without their comments."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_commands_are_ones_we_have(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for line in commands(page):
        program, *arguments = shlex.split(line)
        if program == "make":
            assert arguments[0] in targets, f"{page.name}: there is no target {arguments[0]}"
        elif program == "cometmq":
            command, *flags = arguments
            assert command in COMMANDS, f"{page.name}: there is no command {command}"
            with pytest.raises(SystemExit):
                main([command, *([flags[0]] if command in WITH_COMMANDS else []), "--help"])
            unknown = {flag for flag in flags if flag.startswith("-")} - set(
                re.findall(r"--?\w[\w-]*", capsys.readouterr().out)
            )
            assert not unknown, f"{page.name}: cometmq {command} has no {unknown}"
        elif program == "pip":
            assert arguments[1] in INSTALLABLE, f"{page.name}: {line!r} installs nothing of ours"
        else:
            assert program in ("mqnamesrv", "mqbroker"), f"{page.name}: who runs {line!r}?"


def test_the_settings_page_is_current() -> None:
    assert config_page.PAGE.read_text(encoding="utf-8") == config_page.render(), "run: python -m tests.docs.config_page"
