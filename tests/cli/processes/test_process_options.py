"""The options about lost pods and taints, as another process is told them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from wharfinger.cli.main import run
from wharfinger.cli.processes.process_options import (
    NodeEvictionOptions,
    SchedulingOptions,
    ServingChoices,
    duration_of,
    eviction_of,
)
from wharfinger.errors import UsageError
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.options import arguments
from wharfinger.settings import NodeEvictionSettings

KUBERNETES, RK8S = ClusterFormat.KUBERNETES, ClusterFormat.RK8S


def test_options_become_settings() -> None:
    chosen = NodeEvictionOptions("requeue", "1m30s", taint_eviction=True)
    assert chosen.settings(KUBERNETES) == NodeEvictionSettings("requeue", 90.0, True)


@pytest.mark.parametrize("text", ["5", "", "0s", "25h", "-5m", "soon"])
def test_duration_that_is_none_or_out_of_bounds_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--lost-after"):
        NodeEvictionOptions("report", text).settings(KUBERNETES)


def test_defaults_are_not_handed_on_to_instances_of_earlier_releases() -> None:
    assert arguments(NodeEvictionOptions("report", "300s").handed_on(KUBERNETES)) == ()
    handed_on = NodeEvictionOptions("requeue", "1m", taint_eviction=True).handed_on(KUBERNETES)
    assert arguments(handed_on) == ("--lost-pods=requeue", "--lost-after=1m", "--taint-eviction")


def test_clusters_of_rk8s_requeue_lost_pods_after_half_a_minute() -> None:
    reported = NodeEvictionOptions("report", "5m")
    assert NodeEvictionOptions().settings(RK8S) == NodeEvictionSettings("requeue", 30.0, False)
    assert reported.settings(RK8S) == NodeEvictionSettings("report", 300.0, False)
    assert arguments(NodeEvictionOptions("requeue").handed_on(RK8S)) == ()
    assert arguments(reported.handed_on(RK8S)) == ("--lost-pods=report", "--lost-after=5m")


def test_pods_of_rk8s_are_evicted_at_once_for_they_carry_no_mark() -> None:
    assert eviction_of(RK8S, None) == "immediate"
    assert eviction_of(KUBERNETES, None) == "graceful"
    with pytest.raises(UsageError, match="--eviction graceful: pods of rk8s carry no mark"):
        eviction_of(RK8S, "graceful")


def test_instances_get_what_is_not_the_default_but_no_configuration() -> None:
    chosen = SchedulingOptions(format=RK8S, config=Path("file"), all_plugins=True, cohorts=False, max_txn_ops=500)

    assert SchedulingOptions().handed_on() == ()
    assert chosen.handed_on() == ("--format=rk8s", "--plugins=all", "--cohorts=off")
    with pytest.raises(UsageError, match="--eviction graceful"):
        replace(chosen, eviction="graceful").handed_on()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", timedelta(days=30)),
        ("12h", timedelta(hours=12)),
        ("90s", timedelta(seconds=90)),
        ("1d12h30m", timedelta(days=1, hours=12, minutes=30)),
    ],
)
def test_a_duration_is_read(text: str, expected: timedelta) -> None:
    assert duration_of(text) == expected


@pytest.mark.parametrize("text", ["", "30", "d", "3 d", "-1d", "0s", "1w", "1.5h"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError):
        duration_of(text)


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
