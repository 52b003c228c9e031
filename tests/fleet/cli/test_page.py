"""`docs/fleet.md` names commands, conditions and fields that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import yaml
from typer.main import get_command

from tests.cli.shell import Shell
from wharfinger.cli import main
from wharfinger.fleet.model.rollout import Condition
from wharfinger.fleet.reading.fleet_templates import known_plugins
from wharfinger.fleet.spec.fleet import read_fleet

PAGE = (Path(__file__).parents[3] / "docs" / "fleet.md").read_text()
COMMANDS = sorted(set(re.findall(r"(?:wharfinger |`)((?:fleet|host) [a-z]+(?:-[a-z]+)*)", PAGE)))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_is_one(outside: Shell, command: str) -> None:
    assert outside(*command.split(), "--help").code == 0


def test_every_command_is_on_the_page() -> None:
    groups = get_command(main.command_line()).commands  # type: ignore[attr-defined]

    assert {f"fleet {name}" for name in groups["fleet"].commands} <= set(COMMANDS)
    assert "host list" in COMMANDS


def test_every_condition_is_explained() -> None:
    kinds = get_args(get_type_hints(Condition)["type"])

    assert [kind for kind in kinds if f"| {kind} |" not in PAGE] == []


def test_the_example_is_a_valid_fleet() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)

    found = read_fleet(yaml.safe_load(example), known_plugins(), name="gold")

    assert (found.spec.replicas, found.spec.canary, found.template.memory) == (4, 1, 2**30)
