"""What flags change in a process that serves. It has no servers: pages are there while it waits for etcd."""

from __future__ import annotations

import json
import signal
import socket
import ssl
from pathlib import Path

import pytest

from tests.conftest import free_port
from tests.etcd.certificates import Authority
from tests.programs.cli.kube_scheduler.scheduler_process import SchedulerProcess
from wharfinger.programs.cli.flags import BY_NAME

NO_ETCD = "--etcd=http://127.0.0.1:9"
OPEN = "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics,/configz,/flagz,/statusz"


def test_pages_are_there_before_any_server_answers(tmp_path: Path, kubeconfig: str) -> None:
    arguments = ("--kubeconfig", kubeconfig, NO_ETCD, OPEN, "--version=v1.36.2-vendor", "--v=4", "--vmodule=a=1",
                 "--disabled-metrics=scheduler_pending_pods", f"--cert-dir={tmp_path}/pair")  # fmt: skip
    with SchedulerProcess(tmp_path, *arguments) as scheduler:
        scheduler.wait_serving()
        assert scheduler.page("/healthz") == (200, "ok")
        assert scheduler.page("/readyz")[0] == 500
        assert "failed: reason withheld" in scheduler.checks()["etcd"]
        configz = scheduler.json("/configz", "")["componentconfig"]
        assert configz["clientConnection"]["kubeconfig"] == kubeconfig
        assert "reserve" in configz["profiles"][0]["plugins"]
        flags = dict(line.split(": ", 1) for line in scheduler.page("/flagz")[1].splitlines() if ": " in line)
        assert flags["v"] == "4"
        assert flags.keys() >= BY_NAME.keys()
        assert "v1.36.2-vendor" in scheduler.page("/statusz")[1]
        metrics = scheduler.page("/metrics")[1]
        assert "scheduler_pending_pods" not in metrics
        assert "scheduler_schedule_attempts_total" in metrics
        pair = tmp_path / "pair" / "kube-scheduler.crt"
        trusting = ssl.create_default_context(cafile=pair)
        trusting.check_hostname = False
        assert scheduler.page("/livez", tls=trusting) == (200, "ok")
        assert "flag_without_effect" in scheduler.said
        scheduler.wait_said("waiting_for_etcd")
        assert scheduler.stop() == 0


def test_other_pages_need_credentials(tmp_path: Path, kubeconfig: str) -> None:
    with SchedulerProcess(tmp_path, "--kubeconfig", kubeconfig, NO_ETCD) as scheduler:
        scheduler.wait_serving()
        for path in ("/metrics", "/configz", "/flagz", "/statusz", "/metrics/slis", "/readyz/etcd"):
            assert scheduler.page(path)[0] == 503, path  # the cluster decides, and it does not answer


def test_certificate_of_the_client_authority_shows_who_calls(tmp_path: Path, kubeconfig: str) -> None:
    """Group `system:masters` may do everything: nobody is asked."""
    authority = Authority(tmp_path, "ca")
    served, admin = authority.sign("127.0.0.1"), authority.sign("admin", organizations=["system:masters"])
    arguments = (f"--client-ca-file={authority.pem}", f"--tls-cert-file={served.cert}",
                 f"--tls-private-key-file={served.key}", "--tls-min-version=VersionTLS13")  # fmt: skip
    trusting = ssl.create_default_context(cafile=authority.pem)
    trusting.check_hostname = False
    trusting.load_cert_chain(admin.cert, admin.key)
    old = ssl.create_default_context(cafile=authority.pem)
    old.check_hostname, old.maximum_version = False, ssl.TLSVersion.TLSv1_2
    with SchedulerProcess(tmp_path, "--kubeconfig", kubeconfig, NO_ETCD, *arguments) as scheduler:
        scheduler.wait_serving()
        assert scheduler.page("/metrics", tls=trusting)[0] == 200
        assert scheduler.page("/livez", tls=old)[0] == 0


def test_port_0_serves_nothing(tmp_path: Path, kubeconfig: str) -> None:
    with SchedulerProcess(tmp_path, "--kubeconfig", kubeconfig, NO_ETCD, "--secure-port=0") as scheduler:
        scheduler.wait_said("waiting_for_etcd")
        assert "health_endpoints_started" not in scheduler.said
        assert scheduler.stop() == 0


def test_shared_port_may_be_taken_by_another_process(tmp_path: Path, kubeconfig: str) -> None:
    with SchedulerProcess(tmp_path, "--kubeconfig", kubeconfig, NO_ETCD, "--permit-port-sharing") as first:
        first.wait_serving()
        port = f"--secure-port={first.port}"
        shared = ("--kubeconfig", kubeconfig, NO_ETCD, port, "--permit-port-sharing")
        with SchedulerProcess(tmp_path, *shared, name="second") as second:
            second.wait_said("health_endpoints_started")


def test_port_in_use_is_one_line_and_code_1(tmp_path: Path, kubeconfig: str) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        with SchedulerProcess(tmp_path, "--kubeconfig", kubeconfig, NO_ETCD, f"--secure-port={port}") as scheduler:
            assert scheduler.exit_code() == 1
            errors = [line for line in scheduler.said.splitlines() if line.startswith("error:")]
            assert len(errors) == 1
            assert str(port) in errors[0]


def test_log_lines_are_json_where_they_are_asked_for(tmp_path: Path, kubeconfig: str) -> None:
    with SchedulerProcess(tmp_path, "--kubeconfig", kubeconfig, NO_ETCD, "--logging-format=json") as scheduler:
        scheduler.wait_said("waiting_for_etcd")
        assert scheduler.stop() == 0
        lines = [line for line in scheduler.said.splitlines() if line]
        assert {"ts", "msg"} <= set(json.loads(lines[0]))
        assert all(isinstance(json.loads(line), dict) for line in lines)


def test_lookup_of_the_client_authority_may_be_required(tmp_path: Path, kubeconfig: str) -> None:
    strict = "--authentication-tolerate-lookup-failure=false"
    with SchedulerProcess(tmp_path, "--kubeconfig", kubeconfig, NO_ETCD, strict) as scheduler:
        assert scheduler.exit_code() == 1
        assert "error: the client CA cannot be looked up" in scheduler.said


@pytest.mark.parametrize("flag", ["--authentication-skip-lookup", "--client-ca-file"])
def test_client_authority_is_not_looked_up_where_it_is_not_needed(tmp_path: Path, kubeconfig: str, flag: str) -> None:
    given = f"{flag}={Authority(tmp_path, 'ca').pem}" if flag == "--client-ca-file" else flag
    strict = "--authentication-tolerate-lookup-failure=false"
    with SchedulerProcess(tmp_path, "--kubeconfig", kubeconfig, NO_ETCD, strict, given) as scheduler:
        scheduler.wait_serving()
        assert "client_authorities_unknown" not in scheduler.said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_a_process_that_waits_for_etcd_with_0(tmp_path: Path, kubeconfig: str, number: int) -> None:
    with SchedulerProcess(tmp_path, "--kubeconfig", kubeconfig, NO_ETCD) as scheduler:
        scheduler.wait_said("waiting_for_etcd")
        scheduler.signal(number)
        assert scheduler.exit_code() == 0
        assert scheduler.said.count("waiting_for_etcd") == 1
