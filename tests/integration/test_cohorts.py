"""Cohorts on real servers: a deep backlog is bound by few workflows, explained like any other, and survives a crash."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from temporalio.client import Client

from tests.integration.dev_tree import DevTree, running_tree, wait_until
from tests.integration.gateway import NODES, PODS, Gateway, audit, bound_pods, condition, node, pod

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

ATTEMPT = "wharfinger.dev/attempt"
RECORDS = "/registry/wharfinger.dev/attempts/"
MOST = 1000
"""Pods in one transaction."""


@pytest.fixture(scope="module")
def forming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    """A tree with two workers that form cohorts, as they do unless told otherwise."""
    with running_tree(tmp_path_factory.mktemp("forming"), workers=2, cohorts="auto") as tree:
        yield tree


@pytest.fixture
def tree(forming: DevTree) -> Iterator[DevTree]:
    forming.clear()
    yield forming
    forming.clear()


def put_nodes(etcd: Gateway, count: int, **more: Any) -> None:
    for number in range(count):
        etcd.put(f"{NODES}n{number:03}", node(f"n{number:03}", **more))


def put_pods(etcd: Gateway, namespace: str, count: int, **more: Any) -> None:
    """In as few transactions as can be: all are seen at once, however slowly this process puts them."""
    names = [f"p{number:04}" for number in range(count)]
    for at in range(0, count, MOST):
        etcd.put_all(
            {f"{PODS}{namespace}/{name}": pod(name, namespace=namespace, **more) for name in names[at : at + MOST]}
        )


def workflow_of(etcd: Gateway, key: str) -> str:
    """Id of the workflow that bound a pod."""
    found = etcd.get(key)
    assert found is not None
    return str(found["metadata"]["annotations"][ATTEMPT]).partition("@")[0]


async def kinds(tree: DevTree) -> Counter[str]:
    """Workflows by type."""
    client = await Client.connect(tree.ready["temporal"], namespace=tree.ready["namespace"])
    return Counter([run.workflow_type async for run in client.list_workflows("", limit=2000)])


def explained(tree: DevTree, name: str, *more: str) -> Any:
    return json.loads(tree.cli("explain", "pod", name, "-o", "json", *more).stdout)


async def test_few_workflows_bind_a_deep_backlog_and_explain_every_pod(tree: DevTree) -> None:
    etcd = tree.etcd
    before, first = await kinds(tree), etcd.revision() + 1
    put_nodes(etcd, 20, cpu="16")
    put_pods(etcd, "many", 600)

    wait_until(lambda: len(bound_pods(etcd, "many")) == 600, 60, "600 pods bound")

    verdict = audit(etcd, first)
    assert (verdict.doubled, verdict.overcommitted, len(verdict.bound)) == ([], [], 600)
    made = await kinds(tree) - before
    assert sum(made.values()) < 100, made
    together = [name for name in bound_pods(etcd, "many") if "/cohort/" in workflow_of(etcd, f"{PODS}many/{name}")]
    assert len(together) > 500

    name = f"many/{together[-1]}"
    # There are others, too, if both workers wanted the same place.
    [attempt] = [one for one in explained(tree, name)["attempts"] if one["outcome"] == "bound"]
    assert attempt["node"] == bound_pods(etcd, "many")[together[-1]]
    assert attempt["nodes"] == 20
    assert attempt["ranking"][0]["node"] == attempt["node"]
    assert set(attempt["ranking"][0]["plugins"]) >= {"NodeResourcesFit"}
    assert len(attempt["ranking"]) > 1
    text = tree.cli("explain", "pod", name).stdout
    assert "decided together with" in text
    again = explained(tree, f"many/{together[0]}", "--nodes")
    assert again["approximate"] or again["same"]


def test_a_lone_pod_has_an_attempt_of_its_own(tree: DevTree) -> None:
    etcd = tree.etcd
    put_nodes(etcd, 2)
    etcd.put(f"{PODS}default/lone", pod("lone"))

    wait_until(lambda: "lone" in bound_pods(etcd), 60, "bound")

    assert "/pod/default/lone/" in workflow_of(etcd, f"{PODS}default/lone")


def test_pods_refused_by_a_cohort_give_reasons_and_bind_together_later(tree: DevTree) -> None:
    etcd = tree.etcd
    put_nodes(etcd, 5, cpu="1")
    put_pods(etcd, "waits", 300, cpu="3")

    def refused() -> int:
        values = etcd.objects(f"{PODS}waits/").values()
        return sum(condition(value).get("message", "").startswith("0/5 nodes are available") for value in values)

    wait_until(lambda: refused() == 300, 60, "every pod refused, with kube-scheduler's words")
    found = explained(tree, "waits/p0000")
    assert found["record"]["plugins"] == ["NodeResourcesFit"]
    assert any(one["refusals"] for one in found["attempts"])

    etcd.put_all({f"{NODES}big{number}": node(f"big{number}", cpu="64", pods=200) for number in range(20)})
    wait_until(lambda: len(bound_pods(etcd, "waits")) == 300, 30, "bound once they fit")

    wait_until(lambda: not etcd.values(f"{RECORDS}waits/"), 60, "no record is left")


def test_a_worker_killed_amid_cohorts_loses_and_doubles_nothing(tree: DevTree) -> None:
    etcd = tree.etcd
    first = etcd.revision() + 1
    put_nodes(etcd, 40, cpu="16")
    put_pods(etcd, "crash", 2000, cpu="200m")
    wait_until(lambda: bound_pods(etcd, "crash"), 60, "some pods bound", every=0.01)

    tree.kill("workers", 0)

    wait_until(lambda: len(bound_pods(etcd, "crash")) == 2000, 120, "2,000 pods bound")
    verdict = audit(tree.etcd, first)
    assert (verdict.doubled, verdict.overcommitted, verdict.pending) == ([], [], set())


def test_more_pods_than_room_fill_every_node_to_the_last_place(tree: DevTree) -> None:
    etcd = tree.etcd
    first = etcd.revision() + 1
    put_nodes(etcd, 6, cpu="64", pods=40)
    put_pods(etcd, "tight", 400, cpu="10m")

    wait_until(lambda: len(bound_pods(etcd, "tight")) == 240, 60, "every place filled")

    verdict = audit(etcd, first)
    assert (verdict.doubled, verdict.overcommitted) == ([], [])
    etcd.put_all({f"{NODES}more{number}": node(f"more{number}", cpu="64", pods=40) for number in range(4)})
    wait_until(lambda: len(bound_pods(etcd, "tight")) == 400, 60, "the rest bound on new nodes")
    assert audit(etcd, first).overcommitted == []


async def test_one_query_finds_the_run_that_decided_a_lone_cohort_or_gang_pod(tree: DevTree) -> None:
    etcd = tree.etcd
    put_nodes(etcd, 10, cpu="32")
    etcd.put(f"{PODS}lone/p0000", pod("p0000", namespace="lone"))
    wait_until(lambda: len(bound_pods(etcd, "lone")) == 1, 30, "the lone pod bound")
    group = "pod-group.scheduling.sigs.k8s.io/"
    labels = {f"{group}name": "team", f"{group}min-available": "3"}
    etcd.put_all({f"{PODS}gang/{name}": pod(name, namespace="gang", labels=labels) for name in ("g-0", "g-1", "g-2")})
    put_pods(etcd, "sought", 600)
    wait_until(lambda: len(bound_pods(etcd, "sought")) == 600, 60, "600 pods bound")
    wait_until(lambda: len(bound_pods(etcd, "gang")) == 3, 60, "the gang bound")
    decided = {
        key: str((etcd.get(f"{PODS}{key}") or {})["metadata"]["annotations"][ATTEMPT]).rpartition("@")[2]
        for key in ("lone/p0000", "sought/p0000", "sought/p0599", "gang/g-0", "gang/g-2")
    }
    etcd.delete(f"{PODS}sought/p0599")
    etcd.delete(f"{PODS}gang/g-2")
    client = await Client.connect(tree.ready["temporal"], namespace=tree.ready["namespace"])

    for key, run_id in decided.items():
        query = tree.cli("workflow-id", "pod", key, "--query").stdout.strip()
        found = [run async for run in client.list_workflows(query)]
        assert [run.run_id for run in found] == [run_id], (key, query)
    told = explained(tree, "sought/p0599")  # deleted
    assert [attempt["runId"] for attempt in told["attempts"]] == [decided["sought/p0599"]]
    assert told["query"] == tree.cli("workflow-id", "pod", "sought/p0599", "--query").stdout.strip()
    assert told["query"] in tree.cli("explain", "pod", "sought/p0599").stdout
