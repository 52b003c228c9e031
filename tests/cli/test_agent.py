from __future__ import annotations

from pathlib import Path

import pytest

from wharfinger.cli.agent import host_name, installs, variables
from wharfinger.cli.main import run
from wharfinger.errors import UsageError


@pytest.mark.parametrize("name", ["UPPER", "a_b", "a/b", "-a", "a" * 254])
def test_a_host_has_a_dns_name(name: str) -> None:
    with pytest.raises(UsageError, match="--host"):
        host_name(name)


def test_a_host_is_called_as_its_machine() -> None:
    assert host_name("rack-7.example.org") == "rack-7.example.org"
    assert host_name("")


def test_installs_are_names_and_executables(tmp_path: Path) -> None:
    program, text = tmp_path / "wharfinger", tmp_path / "text"
    program.touch(0o755)
    text.touch(0o644)

    assert installs([f"v2={program}"]) == (("v2", program),)
    for wrong in (f"={program}", str(program), f"v2={text}", f"v2={tmp_path}", f"v2={tmp_path / 'absent'}", "v2="):
        with pytest.raises(UsageError, match="--install"):
            installs([wrong])
    with pytest.raises(UsageError, match="more than once"):
        installs([f"v2={program}", f"v2={program}"])


def test_variables_that_pass_have_names() -> None:
    assert variables(["PROXY", "_x1"]) == {"PROXY", "_x1"}
    for wrong in ("", "A=b", "1A", "A B"):
        with pytest.raises(UsageError, match="--allow-env"):
            variables([wrong])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "A B"], "--host"),
        (["--secrets-dir", "/nowhere"], "there is no folder /nowhere"),
        (["--tenant-label", "a b"], "no key of a label"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["agent", f"--data-dir={tmp_path}", "--health-port=-1", *arguments]) in (1, 2)

    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("error:")
    assert said in line
