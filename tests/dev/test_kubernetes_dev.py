"""`wharfinger dev --kubernetes` as a user starts it: a real API server whose pods real workers schedule."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.apiserver import api_server_process
from tests.conftest import free_port
from tests.dev.conftest import NewTree
from tests.integration.dev_tree import DevTree, wait_until
from tests.patience import patient
from wharfinger.apiserver.client import ApiChange, ChangeKind
from wharfinger.dev import kubernetes_part
from wharfinger.dev.binaries import examples
from wharfinger.dev.cli.dev import dev
from wharfinger.dev.folder import DataFolder
from wharfinger.dev.kubernetes_part import is_leaving
from wharfinger.errors import ServerError, UsageError
from wharfinger.objects.model.formats import ClusterFormat

QUICKSTART = str(examples() / "quickstart")
api_server = pytest.mark.skipif(bool(api_server_process.missing()), reason=api_server_process.missing() or "built")


def start(tree: DevTree, *options: str) -> None:
    tree.start("--kubernetes", *options)


def cli(tree: DevTree, *arguments: str, check: bool = True, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """A command, with the tree's kubeconfig as kubectl would find it."""
    kubeconfig = tree.ready["kubernetes"]["kubeconfig"]
    return tree.cli(*arguments, check=check, stdin=stdin, env={"KUBECONFIG": kubeconfig})


def pods(tree: DevTree) -> dict[str, Any]:
    """The copies in etcd, by name."""
    listed = json.loads(cli(tree, "get", "pods", "-o", "json").stdout)["items"]
    return {one["metadata"]["name"]: one for one in listed}


def bound(tree: DevTree) -> dict[str, str]:
    return {name: pod["spec"]["nodeName"] for name, pod in pods(tree).items() if pod["spec"].get("nodeName")}


def status(tree: DevTree) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli(tree, "kubernetes", "status", "-o", "json").stdout)
    return found


@api_server
@pytest.mark.timeout(360)
def test_quick_start_runs_on_copies_and_outlives_a_restart(dev_tree: NewTree) -> None:
    tree = dev_tree(1, guarded=True)
    start(tree, "--kubernetes-port", str(free_port()))

    assert set(tree.ready["kubernetes"]) == {"server", "kubeconfig"}
    assert tree.ready["pids"]["kube-apiserver"] > 0
    written = cli(tree, "kubernetes", "apply", "-f", QUICKSTART).stdout.splitlines()
    assert {line.rpartition(" ")[2] for line in written} == {"created"}
    wait_until(lambda: set(bound(tree)) == {"web-1", "db-1"}, 60, "two pods are bound")
    wait_until(lambda: status(tree)["promises"]["count"] == 0, 60, "the API shows the binds")
    refuses_what_belongs_to_the_api(tree)
    explains_what_the_api_shows(tree)
    found = status(tree)
    assert found["warnings"] == [] == found["missing"]
    assert found["lease"]["ours"]
    assert found["active"] is not None
    before = {name: pod["metadata"]["uid"] for name, pod in pods(tree).items()}

    assert tree.stop() == 0
    start(tree)

    assert {name: pod["metadata"]["uid"] for name, pod in pods(tree).items()} == before
    wait_until(lambda: status(tree)["active"] is not None, 60, "it may bind again")
    audit = cli(tree, "kubernetes", "audit", "--between", "2", check=False)
    assert (audit.returncode, audit.stdout.splitlines()[-1]) == (0, "the copies are what the API has"), audit.stdout
    preempted_pod_leaves_without_a_kubelet(tree)
    all_that_is_killed_returns(tree)
    other_stores_are_refused(tree)


def refuses_what_belongs_to_the_api(tree: DevTree) -> None:
    for arguments in (("apply", "-f", QUICKSTART), ("delete", "pod", "web-1")):
        refused = cli(tree, *arguments, check=False)
        assert refused.returncode == 2
        assert f"use kubectl {arguments[0]}" in refused.stderr
        assert refused.stderr.count("\n") == 1
    assert set(bound(tree)) == {"web-1", "db-1"}


def explains_what_the_api_shows(tree: DevTree) -> None:
    told = cli(tree, "explain", "pod", "default/big-1").stdout
    assert "pod default/big-1 is pending" in told
    assert "The Kubernetes API shows this refusal." in told
    assert "1 Unschedulable" in cli(tree, "pending").stdout


def preempted_pod_leaves_without_a_kubelet(tree: DevTree) -> None:
    important = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "important"},
        "spec": {
            "priorityClassName": "system-cluster-critical",
            "nodeSelector": {"disk": "ssd"},
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        },
    }
    cli(tree, "kubernetes", "apply", "-f", "-", "-n", "kube-system", stdin=json.dumps(important))

    def placed() -> bool:
        found = json.loads(cli(tree, "get", "pods", "-n", "kube-system", "-o", "json").stdout)["items"]
        return [pod["spec"].get("nodeName") for pod in found] == ["elm-1"]

    wait_until(placed, 90, "the important pod has the room of db-1", every=0.5)
    assert "db-1" not in pods(tree)


def all_that_is_killed_returns(tree: DevTree) -> None:
    """Nothing of it needs another part to be started: each waits for what it needs."""
    pids = tree.ready["pids"]
    killed = {*pids["workers"], *(pid for pid in pids.values() if isinstance(pid, int))}
    for pid in killed:
        os.kill(pid, signal.SIGKILL)

    def replaced() -> bool:
        now = tree.ready["pids"]
        return killed.isdisjoint({*now["workers"], *(pid for pid in now.values() if isinstance(pid, int))})

    wait_until(replaced, 120, "all processes are replaced")
    late = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "late"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    cli(tree, "kubernetes", "apply", "-f", "-", stdin=json.dumps(late))
    wait_until(lambda: "late" in bound(tree), 90, "a new pod is bound", every=0.5)


def other_stores_are_refused(tree: DevTree) -> None:
    environment = tree.environment
    assert tree.stop() == 0
    folder = str(tree.folder / "data")
    line = ("dev", "--data-dir", folder, "--no-kubernetes")
    without = forked.run(*line, env=environment, timeout=patient(60))
    assert without.returncode == 2
    assert "its cluster's pods and nodes are those of an API server" in without.stderr
    assert without.stderr.count("\n") == 1


@pytest.mark.parametrize("kubernetes", [True, False])
def test_folder_remembers_whose_pods_it_has(tmp_path: Path, kubernetes: bool) -> None:
    folder = DataFolder(tmp_path)
    assert folder.kubernetes() is None
    folder.etcd.mkdir()

    folder.remember_format(ClusterFormat.KUBERNETES)
    folder.remember_kubernetes(kubernetes)

    assert folder.kubernetes() is kubernetes
    assert folder.format() is ClusterFormat.KUBERNETES


def test_format_of_a_folder_is_kept_beside_its_store(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.etcd.mkdir()

    folder.remember_format(ClusterFormat.RK8S)
    folder.remember_kubernetes(False)

    assert (folder.format(), folder.kubernetes()) == (ClusterFormat.RK8S, False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kubernetes": True, "format": ClusterFormat.RK8S}, "an API server has Kubernetes' objects"),
        ({"kubernetes": True, "members": 1}, "exclude --kubernetes"),
        ({"kubernetes": True, "taint_eviction": True}, "Kubernetes' controllers do that"),
        ({"kubernetes_port": 6443}, "goes with --kubernetes"),
    ],
)
def test_what_excludes_an_api_server_is_refused(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        dev(data_dir=tmp_path / "new", **options)

    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kubernetes", [True, False])
def test_folder_of_another_store_is_refused_before_anything_starts(tmp_path: Path, kubernetes: bool) -> None:
    folder = DataFolder(tmp_path)
    folder.etcd.mkdir()
    folder.remember_kubernetes(kubernetes)
    said = "those of an API server" if kubernetes else "keeps pods and nodes in etcd itself"

    with pytest.raises(UsageError, match=said):
        dev(data_dir=tmp_path, kubernetes=not kubernetes)


def test_absent_api_server_is_one_line_that_says_how_to_get_it() -> None:
    with pytest.raises(ServerError, match=r"python -m wharfinger\.dev\.binaries kube-apiserver") as raised:
        kubernetes_part.executable(lambda _: None)

    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "metadata", "spec", "leaves"),
    [
        (ChangeKind.MODIFIED, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"nodeName": "n"}, True),
        (ChangeKind.ADDED, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"nodeName": "n"}, True),
        (ChangeKind.DELETED, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"nodeName": "n"}, False),
        (ChangeKind.MODIFIED, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}, False),
        (ChangeKind.MODIFIED, {}, {"nodeName": "n"}, False),
    ],
)
def test_only_bound_pods_that_are_being_deleted_are_removed(
    kind: ChangeKind, metadata: dict[str, str], spec: dict[str, str], leaves: bool
) -> None:
    assert is_leaving(ApiChange(kind, {"metadata": metadata, "spec": spec}, 1)) is leaves
