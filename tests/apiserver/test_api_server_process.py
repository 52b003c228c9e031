"""The API servers that tests get: each a cluster of its own, which Kubernetes' own client can use."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.api_server_process import ApiServerProcess
from tests.conftest import free_port
from tests.integration.dev_tree import wait_until
from wharfinger.dev import binaries, processes
from wharfinger.dev.supervisor import clean_environment

SYSTEM = "/api/v1/namespaces/kube-system"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def own(kube_apiserver: ApiServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    """A server beside the shared one, where pods that other tests have left would compete for a node."""
    process = ApiServerProcess(tmp_path_factory.mktemp("own"))
    try:
        yield process.start()
    finally:
        process.kill_all()


def test_kube_scheduler_binds_a_pod_by_the_kubeconfig(own: ApiServerProcess, tmp_path: Path) -> None:
    """Kubernetes' own client reads what we write, and a node and a pod of tests are enough to schedule."""
    executable = binaries.at_hand(binaries.KUBE_SCHEDULER)
    if executable is None:
        pytest.skip("no kube-scheduler: `make kubernetes-servers` builds it, where Go is installed")
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    own.create("/api/v1/nodes", {"metadata": {"name": "only-node", "labels": {"for": "waiting"}}, "status": status})
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "nodeSelector": {"for": "waiting"}}
    own.create(PODS, {"metadata": {"name": "waiting"}, "spec": spec})
    options = [
        f"--kubeconfig={own.kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}", f"--cert-dir={tmp_path}", "--authentication-skip-lookup",
    ]  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        scheduler = subprocess.Popen(
            [executable, *options],
            stdout=log,
            stderr=log,
            env=clean_environment(),
            preexec_fn=processes.die_with_parent(),  # noqa: PLW1509 - one call into libc, loaded before
        )
    try:

        def is_bound() -> bool:
            assert scheduler.poll() is None, (tmp_path / "log").read_text()[-2000:]
            return own.request("GET", f"{PODS}/waiting").body["spec"].get("nodeName") == "only-node"

        try:
            wait_until(is_bound, 30, "the pod is bound")
        except AssertionError as late:
            pod = own.request("GET", f"{PODS}/waiting").body
            raise AssertionError(f"{late}: {pod['status']}; {(tmp_path / 'log').read_text()[-2000:]}") from late
    finally:
        scheduler.kill()
        scheduler.wait()


def test_started_servers_are_clusters_of_their_own(kube_apiserver: ApiServerProcess, own: ApiServerProcess) -> None:
    one, other = (server.request("GET", SYSTEM).body["metadata"]["uid"] for server in (kube_apiserver, own))

    own.kill_all()

    assert one != other
    assert kube_apiserver.request("GET", SYSTEM).body["metadata"]["uid"] == one
    own.start()
