"""Required rules across nodes hold whichever worker binds: three worker processes that do not share their decisions.

The workers start nothing by themselves; every attempt is started here, at once, and Temporal gives it to whichever
worker asks first. Judged at every revision from etcd's own history.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from temporalio.client import Client

from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, Gateway, condition, node, pod, uid_of
from tests.integration.worker_process import total
from wharfinger.process.names import pod_workflow_id, task_queue

pytestmark = pytest.mark.timeout(180)

ZONE = "topology.kubernetes.io/zone"
ZONES = "abc"
ROUNDS = 8
"""Tries for three workers to take part in the same work; one is nearly always enough."""


def term(app: str, **more: Any) -> dict[str, Any]:
    return {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}, **more}


def required(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def spread(app: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


def put_work(etcd: Gateway) -> list[tuple[str, str]]:
    """Three zones of three nodes, and pods under four rules; answers their keys."""
    for zone in ZONES:
        for number in range(3):
            obj = node(f"{zone}{number}", cpu="16")
            obj["metadata"]["labels"][ZONE] = zone
            etcd.put(f"{NODES}{zone}{number}", obj)
    anywhere = term("everywhere", namespaceSelector={})
    work = (
        [("rules", f"apart-{n}", required("podAntiAffinity", term("apart"))) for n in range(6)]
        + [("rules", f"spread-{n}", spread("spread")) for n in range(15)]
        + [("rules", f"together-{n}", required("podAffinity", term("together"))) for n in range(9)]
        + [(f"space-{n}", f"everywhere-{n}", required("podAntiAffinity", anywhere)) for n in range(6)]
        + [("rules", f"plain-{n}", {}) for n in range(15)]
    )
    for namespace, name, spec in work:
        labels = {"app": name.partition("-")[0]}
        etcd.put(f"{PODS}{namespace}/{name}", pod(name, namespace=namespace, labels=labels, **spec))
    return [(namespace, name) for namespace, name, _ in work]


async def start_all(tree: DevTree, work: list[tuple[str, str]]) -> None:
    client = await Client.connect(tree.ready["temporal"])

    async def start(namespace: str, name: str) -> None:
        workflow_id = pod_workflow_id("wharfinger", namespace, name, uid_of(namespace, name))
        request = {"namespace": namespace, "name": name}
        await client.start_workflow("ScheduleAttempt", request, id=workflow_id, task_queue=task_queue("wharfinger"))

    await asyncio.gather(*(start(*key) for key in work))


def settled(etcd: Gateway) -> bool:
    """Every pod is bound, or was told that there is no place for it."""
    pods = etcd.objects(PODS).values()
    return all(pod["spec"].get("nodeName") or condition(pod).get("reason") == "Unschedulable" for pod in pods)


def breaches(etcd: Gateway, first: int) -> list[str]:
    """Each revision at which a rule was broken."""
    zones: dict[str, Counter[str]] = {}
    found: list[str] = []
    for revision, key, raw in etcd.history(PODS, first, etcd.revision()):
        placed = json.loads(raw or b"{}").get("spec", {}).get("nodeName", "")
        app = key.rpartition("/")[2].partition("-")[0]
        if not placed:
            continue
        counts = zones.setdefault(app, Counter())
        counts[placed[0]] += 1
        per_zone = [counts[zone] for zone in ZONES]
        if (
            (app in {"apart", "everywhere"} and max(per_zone) > 1)
            or (app == "spread" and max(per_zone) - min(per_zone) > 1)
            or (app == "together" and sum(count > 0 for count in per_zone) > 1)
        ):
            found.append(f"{app} at {revision}: {dict(counts)}")
    return found


async def test_three_workers_break_no_rule_at_any_revision(servers: DevTree, start_worker: StartWorker) -> None:
    workers = [start_worker("--dispatch", "none") for _ in range(3)]

    def decided() -> list[float]:
        return [total([worker.health], "scheduler_schedule_attempts_total") for worker in workers]

    for _ in range(ROUNDS):
        before = decided()
        await work_through(servers)
        if all(now > then for now, then in zip(decided(), before, strict=True)):
            return
        servers.clear()
    raise AssertionError("one of three workers never took part")


async def work_through(servers: DevTree) -> None:
    """All pods are started at once; the rules hold, and each pod that fits is bound."""
    etcd = servers.etcd
    first = etcd.revision() + 1
    work = put_work(etcd)

    await start_all(servers, work)

    wait_until(lambda: settled(etcd), 90, "every pod bound or refused")
    assert breaches(etcd, first) == []
    bound = Counter(
        key.rpartition("/")[2].partition("-")[0]
        for key, value in etcd.objects(PODS).items()
        if value["spec"].get("nodeName")
    )
    assert bound == {"apart": 3, "spread": 15, "together": 9, "everywhere": 3, "plain": 15}
