"""`wharfinger kube-scheduler` as a process on a real API server: the Lease, signals and exit codes."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.api_server_process import ApiServerProcess
from tests.cli.shell import Shell
from tests.conftest import EtcdServer, TemporalServer, start_etcd
from tests.patience import patient
from tests.programs.cli.kube_scheduler.scheduler_process import SchedulerProcess

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
QUICK = ("--leader-elect-lease-duration=9s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s")
_numbers = itertools.count()
Start = Callable[..., SchedulerProcess]


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    """An installation keeps its etcd, so each test has one."""
    with start_etcd(tmp_path) as server:
        yield server


@pytest.fixture
def lease() -> str:
    """A Lease that no other test uses."""
    return f"lease-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def start(
    tmp_path: Path, own_etcd: EtcdServer, temporal_server: TemporalServer, kube_apiserver: ApiServerProcess, lease: str
) -> Iterator[Start]:
    """Starts schedulers of one installation."""
    started: list[SchedulerProcess] = []
    options = (
        "--kubeconfig", str(kube_apiserver.kubeconfig), "--etcd", own_etcd.url, "--temporal", temporal_server.address,
        "--cluster", lease, f"--leader-elect-resource-name={lease}",
    )  # fmt: skip

    def begin(*more: str) -> SchedulerProcess:
        started.append(SchedulerProcess(tmp_path, *options, *more, name=f"log{len(started)}"))
        return started[-1]

    yield begin
    for one in started:
        one.__exit__()


def stored(api: ApiServerProcess, name: str) -> dict[str, Any]:
    """`spec` of a Lease; empty where there is none."""
    answer = api.request("GET", f"{LEASES}/{name}")
    found: dict[str, Any] = answer.body["spec"] if answer.code == 200 else {}
    return found


def test_first_sigterm_drains_and_gives_the_lease_back(
    start: Start, kube_apiserver: ApiServerProcess, lease: str
) -> None:
    admin = kube_apiserver.server.files.token()
    scheduler = start("--leader-elect-lease-duration=20s", "--authorization-always-allow-paths=/healthz,/readyz,/livez")
    scheduler.wait_ready()
    held = stored(kube_apiserver, lease)

    assert held["holderIdentity"].startswith(f"{lease}_")
    assert held["leaseDurationSeconds"] == 20
    assert scheduler.page("/healthz") == (200, "ok")
    assert scheduler.page("/metrics", token=admin)[0] == 200
    assert scheduler.page("/metrics/resources", token=admin)[0] == 200
    assert scheduler.page("/metrics", token="nobody")[0] == 401
    assert scheduler.page("/metrics")[0] == 403
    assert all(line.endswith(" ok") for line in scheduler.checks().values())
    assert scheduler.stop() == 0
    assert "drained" in scheduler.said
    assert "Traceback" not in scheduler.said
    assert not stored(kube_apiserver, lease).get("holderIdentity")


def test_second_sigterm_ends_it_at_once_with_1(start: Start, own_etcd: EtcdServer) -> None:
    """It cannot end draining while etcd is stopped."""
    scheduler = start()
    scheduler.wait_ready()
    os.kill(own_etcd.pid, signal.SIGSTOP)
    try:
        scheduler.signal()
        scheduler.wait_said("signal_received effect=draining")
        scheduler.signal()
        assert scheduler.exit_code(8) == 1
    finally:
        os.kill(own_etcd.pid, signal.SIGCONT)


def test_lost_lease_ends_it_with_1(start: Start, kube_apiserver: ApiServerProcess, lease: str) -> None:
    scheduler = start(*QUICK)
    scheduler.wait_ready()
    scheduler.wait_said("may_bind")

    taken = {"holderIdentity": "another", "leaseDurationSeconds": 3600, "renewTime": _now()}
    answer = kube_apiserver.request(
        "PATCH", f"{LEASES}/{lease}", {"spec": taken}, content_type="application/merge-patch+json"
    )

    assert answer.code == 200
    assert scheduler.exit_code(40) == 1
    last = [line for line in scheduler.said.splitlines() if line.startswith("error:")]
    assert last == ["error: leader election lost: another holds the Lease"]
    assert stored(kube_apiserver, lease)["holderIdentity"] == "another"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())


def test_lease_of_another_namespace_and_name(start: Start, kube_apiserver: ApiServerProcess, lease: str) -> None:
    scheduler = start("--leader-elect-resource-namespace=default")
    scheduler.wait_ready()

    path = LEASES.replace("kube-system", "default")
    scheduler.wait_until(lambda: kube_apiserver.request("GET", f"{path}/{lease}").code == 200, "it has the Lease")
    assert stored(kube_apiserver, lease) == {}
    assert scheduler.stop() == 0


def test_without_election_it_binds_and_writes_no_lease(
    start: Start, kube_apiserver: ApiServerProcess, lease: str
) -> None:
    scheduler = start("--leader-elect=false")
    scheduler.wait_ready()
    scheduler.wait_said("may_bind")

    assert stored(kube_apiserver, lease) == {}
    assert scheduler.stop() == 0


def test_configuration_that_is_wrong_opens_nothing(outside: Shell, kubeconfig: str) -> None:
    path = outside.file("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 0\n"
                        f"clientConnection: {{kubeconfig: {kubeconfig}}}\nprofiles: [{{nonsense: 1}}]\n")  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as etcd:
        etcd.settimeout(0)
        address = f"http://127.0.0.1:{etcd.getsockname()[1]}"

        found = outside("kube-scheduler", "--config", path, "--etcd", address)

        with pytest.raises(BlockingIOError):
            etcd.accept()
    lines = found.err.splitlines()
    assert found.code == 1
    assert [line for line in lines if line.startswith("error: parallelism")]
    assert [line for line in lines if line.startswith("error: profiles[0].nonsense")]
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("version", "said"),
    [("v1beta3", "kubescheduler.config.k8s.io/v1"), ("v1beta2", "kubescheduler.config.k8s.io/v1")],
)
def test_older_configurations_are_refused(outside: Shell, kubeconfig: str, version: str, said: str) -> None:
    path = outside.file(f"apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration\n"
                        f"clientConnection: {{kubeconfig: {kubeconfig}}}\n")  # fmt: skip

    found = outside("kube-scheduler", "--config", path)

    assert found.code == 1
    assert said in found.err


def test_configuration_that_is_not_there_is_one_line_and_code_1(outside: Shell) -> None:
    found = outside("kube-scheduler", "--config", str(outside.folder / "none.yaml"))

    assert found.code == 1
    assert found.err.startswith("error: ")
    assert found.err.count("\n") == 1
    assert str(outside.folder / "none.yaml") in found.err


def test_drain_is_quick_enough_for_a_static_pod(start: Start) -> None:
    """The kubelet kills a static pod 30 seconds after it has sent SIGTERM."""
    scheduler = start()
    scheduler.wait_ready()
    began = time.monotonic()

    assert scheduler.stop() == 0

    assert time.monotonic() - began < patient(15)
