"""The whole of an old decision, told from etcd's history while the cluster has long changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, bound_pods, node, pod, refusal

pytestmark = pytest.mark.timeout(120)


def told(tree: DevTree, name: str, *more: str) -> Any:
    answer = tree.cli("explain", "pod", f"default/{name}", "--nodes", "-o", "json", *more)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_old_decisions_are_explained_in_full_after_the_cluster_changed(cluster: DevTree) -> None:
    etcd = cluster.etcd
    etcd.put(f"{NODES}large", node("large", cpu="8"))
    etcd.put(f"{NODES}small", node("small", cpu="4"))
    etcd.put(f"{NODES}shut", node("shut", cpu="8", unschedulable=True))
    etcd.put(f"{PODS}default/huge", pod("huge", cpu="16"))
    wait_until(lambda: refusal(etcd, "huge"), 20, "huge refused")
    refused = refusal(etcd, "huge")["attempt"]  # the first, unless the worker stood still in the middle of that one
    etcd.put(f"{PODS}default/web", pod("web", cpu="1"))
    wait_until(lambda: "web" in bound_pods(etcd), 20, "web bound")
    where = bound_pods(etcd)["web"]

    # Everything becomes different, and the refused pod fits.
    etcd.put(f"{NODES}small", node("small", cpu="100m"))
    etcd.put(f"{NODES}giant", node("giant", cpu="64"))
    etcd.delete(f"{NODES}shut")
    wait_until(lambda: "huge" in bound_pods(etcd), 20, "huge bound")

    web = told(cluster, "web")
    assert web["same"] is True
    assert web["recomputed"]["node"] == web["recorded"]["node"] == where
    nodes = {one["node"]: one for one in web["nodes"]}
    assert set(nodes) == {"large", "small", "shut"}
    assert nodes["shut"]["filters"]["NodeUnschedulable"]["verdict"] == "refuses"
    assert nodes["shut"]["filters"]["NodeResourcesFit"]["verdict"] == "passes"
    assert nodes["large"]["total"] == sum(nodes["large"]["scores"].values())
    assert nodes["small"]["feasible"]

    first, newest = told(cluster, "huge", "--attempt", str(refused)), told(cluster, "huge")
    assert first["same"] is True
    assert first["recomputed"]["node"] is None
    assert first["recomputed"]["rejectors"] == ["NodeResourcesFit", "NodeUnschedulable"]
    assert (newest["same"], newest["recomputed"]["node"]) == (True, "giant")

    text = cluster.cli("explain", "pod", "default/web", "--nodes").stdout
    assert f"The same decision as recorded: {where}, score" in text
    assert "NodeUnschedulable: node(s) were unschedulable" in text


def test_decision_whose_state_is_compacted_is_reported_as_unreachable(cluster: DevTree) -> None:
    etcd = cluster.etcd
    etcd.put(f"{NODES}n", node("n"))
    etcd.put(f"{PODS}default/web", pod("web"))
    wait_until(lambda: "web" in bound_pods(etcd), 20, "web bound")
    etcd.put(f"{NODES}n", node("n", cpu="8"))
    etcd.call("/kv/compaction", {"revision": str(etcd.revision())})

    answer = cluster.cli("explain", "pod", "default/web", "--nodes", check=False)

    assert answer.returncode == 1
    assert "is compacted in etcd" in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert "default/web is bound to n" in cluster.cli("explain", "pod", "default/web").stdout


def test_missing_explanation_is_reported_in_one_line(cluster: DevTree) -> None:
    missing = cluster.cli("explain", "pod", "default/nobody", "--nodes", check=False)
    misused = cluster.cli("explain", "pod", "default/nobody", "--attempt", "1", check=False)

    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1)
    assert (misused.returncode, misused.stderr.count("\n")) == (2, 1)
