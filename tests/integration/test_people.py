"""The console command as a person uses it: manifests in, answers out, against a whole running tree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, bound_pods
from tests.patience import patient

pytestmark = pytest.mark.timeout(120)

NODE = """\
apiVersion: v1
kind: Node
metadata:
  name: node-1
  labels: {kubernetes.io/hostname: node-1}
status:
  allocatable: {cpu: "4", memory: 8Gi, pods: "110"}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels:
    app: web
spec:
  containers:
  - name: main
    image: nginx:1.27
    resources:
      requests: {cpu: 250m, memory: 128Mi}
---
apiVersion: v1
kind: Pod
metadata: {name: giant, namespace: default}
spec:
  containers:
  - {name: main, image: "nginx:1.27", resources: {requests: {cpu: "64"}}}
"""
AS_KUBECTL_PRINTS = """\
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: |
        {"apiVersion":"v1","kind":"Pod"}
    creationTimestamp: "2024-05-01T10:00:00Z"
    name: listed
    namespace: default
    resourceVersion: "1234"
    uid: 4b0a4a52-0000-4000-8000-000000000001
  spec:
    containers:
    - image: nginx:1.27
      imagePullPolicy: IfNotPresent
      name: main
      resources:
        requests:
          cpu: 100m
      terminationMessagePath: /dev/termination-log
    dnsPolicy: ClusterFirst
    schedulerName: default-scheduler
    tolerations:
    - effect: NoExecute
      key: node.kubernetes.io/not-ready
      operator: Exists
      tolerationSeconds: 300
  status:
    phase: Pending
    qosClass: Burstable
kind: List
metadata:
  resourceVersion: ""
"""


def test_from_manifests_to_bound_pods_and_answers(cluster: DevTree, tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "pods.yml").write_text(POD)
    (tmp_path / "ignored.txt").write_text("not a manifest")

    said = cluster.cli("apply", "-f", str(tmp_path)).stdout
    for name in ("node-1", "web", "giant"):
        assert name in said
    assert "listed" in cluster.cli("apply", "-f", "-", stdin=AS_KUBECTL_PRINTS).stdout
    wait_until(lambda: bound_pods(cluster.etcd) == {"web": "node-1", "listed": "node-1"}, 20, "bound")
    wait_until(lambda: "Insufficient cpu" in cluster.cli("pending").stdout, 20, "the giant waits with a reason")

    rows = cluster.cli("get", "pods").stdout
    assert {line.split()[1] for line in rows.splitlines()[1:]} == {"web", "giant", "listed"}
    assert "node-1" in rows
    assert "node-1" in cluster.cli("get", "nodes").stdout
    shown = cluster.cli("describe", "pod", "giant").stdout
    assert "Insufficient cpu" in shown
    assert "web" in cluster.cli("describe", "node", "node-1").stdout
    told = json.loads(cluster.cli("explain", "pod", "default/giant", "-o", "json").stdout)
    assert "Insufficient cpu" in json.dumps(told)

    again = cluster.cli("apply", "-f", str(tmp_path)).stdout
    assert again.count("unchanged") == 3, again
    assert bound_pods(cluster.etcd)["web"] == "node-1"
    kept = json.loads(cluster.cli("get", "pods", "listed", "-o", "json").stdout)
    text = json.dumps(kept)
    assert "/dev/termination-log" in text
    assert "4b0a4a52-0000-4000-8000-000000000001" in text

    smaller = POD.replace('cpu: "64"', 'cpu: "1"')
    cluster.cli("apply", "-f", "-", stdin=smaller)
    wait_until(lambda: bound_pods(cluster.etcd).get("giant") == "node-1", 20, "the giant that shrank is bound")

    cluster.cli("delete", "-f", str(tmp_path))
    assert set(cluster.etcd.values(PODS)) == {f"{PODS}default/listed"}
    assert not cluster.etcd.values(NODES)


def test_get_watch_shows_a_pod_being_bound(cluster: DevTree, tmp_path: Path) -> None:
    with (tmp_path / "watched").open("w") as out:
        watching = subprocess.Popen(
            [sys.executable, "-u", "-m", "wharfinger", "get", "pods", "-w"],
            stdout=out,
            stderr=out,
            env=cluster.environment,
        )
    try:
        cluster.cli("apply", "-f", "-", stdin=NODE + "---\n" + POD)
        wait_until(lambda: "node-1" in (tmp_path / "watched").read_text(), 20, "the binding shown")
    finally:
        watching.terminate()
        watching.wait(patient(10))
    assert "Traceback" not in (tmp_path / "watched").read_text()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (("get", "pods", "nobody"), 1),
        (("describe", "node", "nobody"), 1),
        (("explain", "pod", "default/nobody"), 1),
        (("workflow-id", "pod", "default/nobody"), 1),
        (("delete", "pod", "nobody"), 1),
        (("apply", "-f", "/nowhere.yaml"), 2),
        (("get", "houses"), 2),
        (("get", "pods", "-o", "xml"), 2),
        (("apply",), 2),
        (("worker", "--dispatch", "sometimes"), 2),
    ],
)
def test_what_cannot_be_done_is_one_line_and_an_exit_code(cluster: DevTree, line: tuple[str, ...], code: int) -> None:
    done = cluster.cli(*line, check=False)

    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1, done.stderr


def test_each_object_that_cannot_be_applied_is_reported(cluster: DevTree) -> None:
    bad = "apiVersion: v1\nkind: Pod\nmetadata: {name: Bad_Name}\nspec: {containers: []}\n---\n" + NODE
    done = cluster.cli("apply", "-f", "-", stdin=bad, check=False)

    assert done.returncode == 1
    assert "Bad_Name" in done.stderr
    assert "node-1" in done.stdout
    assert set(cluster.etcd.values(NODES)) == {f"{NODES}node-1"}
