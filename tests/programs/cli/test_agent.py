from __future__ import annotations

from pathlib import Path

import pytest

from wharfinger.cli.main import run
from wharfinger.cli.processes.process_options import BindOptions
from wharfinger.errors import UsageError
from wharfinger.options import arguments
from wharfinger.programs.cli.agent import host_name


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
