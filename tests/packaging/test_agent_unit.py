"""`deploy/systemd/wharfinger-agent.service`: what the agent's promises need of systemd."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from wharfinger.cli.main import command_line

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "wharfinger-agent.service"


def settings(section: str) -> dict[str, str]:
    found: dict[str, str] = {}
    current = ""
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif "=" in line and not line.startswith("#") and current == section:
            name, _, value = line.partition("=")
            assert name not in found, f"{name} stands there twice"
            found[name] = value
    return found


def test_instances_outlive_the_agent_and_have_cgroups_of_their_own() -> None:
    service = settings("Service")

    assert service["KillMode"] == "process"
    assert set(service["Delegate"].split()) >= {"memory", "cpu"}
    assert service["DelegateSubgroup"] == "agent"
    assert service["Restart"] == "always"


@pytest.mark.parametrize("name", ["ProtectControlGroups", "ProcSubset", "PrivatePIDs", "MemoryDenyWriteExecute"])
def test_nothing_is_forbidden_that_the_agent_needs(name: str) -> None:
    assert name not in settings("Service")


def test_it_is_hardened_and_its_files_are_its_own() -> None:
    service = settings("Service")

    assert service["UMask"] == "0077"
    assert service["StateDirectoryMode"] == "0700"
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert f"/var/lib/{service['StateDirectory']}" in service["ExecStart"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_understands_it(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/wharfinger/bin/wharfinger", "/bin/true"))

    said = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False).stderr

    assert [line for line in said.splitlines() if unit.name in line and "DelegateSubgroup" not in line] == []


def test_its_command_line_is_one_that_there_is() -> None:
    program, command, *arguments = shlex.split(settings("Service")["ExecStart"])
    known = {name for option in get_command(command_line()).commands[command].params for name in option.opts}  # type: ignore[attr-defined]

    assert Path(program).name == "wharfinger"
    assert {argument for argument in arguments if argument.startswith("--")} <= known
