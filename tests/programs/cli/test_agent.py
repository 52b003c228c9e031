"""The agent: its name, and what its instances may have."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import get_args

import pytest

from wharfinger.cli.main import run
from wharfinger.cli.options import settings_from
from wharfinger.cli.processes.process_options import BindOptions
from wharfinger.dev.cli.dev import dev
from wharfinger.errors import UsageError
from wharfinger.options import arguments
from wharfinger.programs.cli.agent import InstanceOptions, agent, host_name, installs, secrets_folder, variables


def test_instances_of_a_compatible_agent_are_compatible() -> None:
    assert arguments(BindOptions()) == ()
    assert arguments(BindOptions(0, compatible=True)) == ("--own-node-margin=0", "--compatible")


def test_compatible_means_the_best_node_and_no_runner_up() -> None:
    for margin in (0, BindOptions().own_node_margin):
        settings = BindOptions(margin, compatible=True).settings()
        assert (settings.own_node_margin, settings.runners_up) == (0, False)
    assert BindOptions(7).settings().own_node_margin == 7
    with pytest.raises(UsageError, match="--own-node-margin 7"):
        BindOptions(7, compatible=True).settings()


@pytest.mark.parametrize("name", ["UPPER", "a_b", "a/b", "-a", "a" * 254])
def test_a_host_has_a_dns_name(name: str) -> None:
    with pytest.raises(UsageError, match="--host"):
        host_name(name)


def test_a_host_is_called_as_its_machine() -> None:
    assert host_name("rack-7.example.org") == "rack-7.example.org"
    assert host_name("")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "A B"], "--host"),
        (["--secrets-dir", "/nowhere"], "there is no folder /nowhere"),
        (["--tenant-label", "a b"], "no key of a label"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml"),
    ],
)
def test_impossible_options_are_reported_in_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["agent", f"--data-dir={tmp_path}", "--health-port=-1", *arguments]) in (1, 2)

    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("error:")
    assert said in line


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


def test_they_are_handed_on_to_a_process_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wharfinger").touch(0o755)
    (tmp_path / "secrets").mkdir()

    given = {"install": ["v2=wharfinger"], "secrets_dir": Path("secrets"), "allow_env": ["TZ", "PROXY"]}

    assert arguments(settings_from(InstanceOptions, given)) == (
        f"--install=v2={tmp_path}/wharfinger",
        f"--secrets-dir={tmp_path}/secrets",
        "--allow-env=PROXY",
        "--allow-env=TZ",
    )
    assert arguments(InstanceOptions()) == ()
    assert secrets_folder(None) is None


@pytest.mark.parametrize("name", ["install", "secrets_dir", "allow_env"])
def test_dev_takes_them_as_the_agent_does(name: str) -> None:
    one, other = (inspect.signature(command).parameters[name] for command in (agent, dev))
    (kind, option), (other_kind, other_option) = (get_args(parameter.annotation) for parameter in (one, other))
    assert (kind, vars(option)) == (other_kind, vars(other_option))
    assert one.default is None
