"""The options by which processes serve their pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from wharfinger.cli.main import run
from wharfinger.cli.processes.process_options import ServingChoices
from wharfinger.options import arguments


def test_another_process_gets_what_is_not_the_default(tmp_path: Path) -> None:
    chosen = ServingChoices(metrics_open=True, static_token_file=Path("tokens"), logging_format="json")

    assert arguments(ServingChoices()) == ()
    assert arguments(chosen) == ("--metrics-open", f"--static-token-file={Path.cwd()}/tokens", "--logging-format=json")


@pytest.mark.parametrize("command", ["worker", "hub"])
def test_certificate_without_a_key_is_wrong_usage(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, f"--tls-cert-file={tmp_path}/cert"]) == 2
    assert "--tls-cert-file and --tls-private-key-file belong together" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["worker", "hub"])
def test_unreadable_certificate_is_one_line(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, f"--tls-cert-file={tmp_path}/cert", f"--tls-private-key-file={tmp_path}/key"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"error: --tls-cert-file: cannot read {tmp_path}/cert (No such file or directory)"]


@pytest.mark.parametrize("command", ["worker", "agent", "hub", "member"])
def test_every_process_has_the_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    for option in ("--metrics-open", "--tls-cert-file", "--client-ca-file", "--static-token-file", "--logging-format"):
        assert option in text
