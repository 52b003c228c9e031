"""Tenants come and go while everything runs, and one that is in trouble is no trouble to another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests.integration.dev_tree import USUAL_TTL, DevTree, instances_of, running_tree, wait_until
from tests.integration.fleet_handle import FleetHandle
from tests.integration.gateway import ATTEMPTS, NODES, PODS, TENANTS, Gateway, audit, bound_pods, node, pod
from tests.integration.steady_pods import SteadyPods
from tests.integration.worker_process import total
from tests.patience import patient

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

SECONDS = 120.0
LONGEST_DELAY = 5.0
"""Seconds that a tenant in trouble may add to what another's pod waits on this machine anyway; on a slow one a part of
what the flood itself takes, for who stood in line behind it would wait as long as that."""
FLOOD = 1000
SCHEDULED = "scheduler_schedule_attempts_total"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    with running_tree(tmp_path_factory.mktemp("tenants"), workers=1, cohorts="auto", lease_ttl=USUAL_TTL) as tree:
        for number in range(6):
            # Room for whatever comes, however long a rollout takes; not for those that are to wait.
            tree.etcd.put(f"{NODES}n{number}", node(f"n{number}", cpu="60", memory="320Gi", pods=1000))
        yield tree


def of(tenant: str) -> dict[str, str]:
    """The label of a tenant's pods."""
    return {"wharfinger.dev/tenant": tenant}


def scheduled(fleet: FleetHandle) -> int:
    """Pods bound by the instances that are ready now."""
    urls = [record["health"] for record in fleet.ready.values()]
    return int(total(urls, SCHEDULED, 'result="scheduled"'))


def counted(fleet: FleetHandle, number: int) -> None:
    """Wait until they have counted so many: they count a pod a moment after etcd shows it bound."""
    wait_until(lambda: scheduled(fleet) >= number, 20, f"{fleet.tenant} has bound {number} pods")
    assert scheduled(fleet) == number


def put(etcd: Gateway, tenant: str, names: str, number: int, **spec: str) -> None:
    for which in range(number):
        name = f"{names}{which:04}"
        etcd.put(f"{PODS}{tenant}/{name}", pod(name, namespace=tenant, labels=of(tenant), **spec))


def test_tenants_pods_move_to_its_ready_fleet_and_back_on_deletion(tree: DevTree) -> None:
    etcd, common, gold = tree.etcd, FleetHandle(tree), FleetHandle(tree, "gold")
    first, before = etcd.revision(), scheduled(common) + 10
    put(etcd, "gold", "early", 10)
    wait_until(lambda: len(bound_pods(etcd, "gold")) == 10, 60, "the common pool has them before there is a fleet")
    counted(common, before)
    put(etcd, "gold", "large", 3, cpu="64")
    wait_until(lambda: len(etcd.objects(f"{ATTEMPTS}gold/")) == 3, 60, "some wait")

    gold.apply(replicas=1)
    wait_until(lambda: TENANTS + "gold" in etcd.values(TENANTS), SECONDS, "pods go there")
    assert len(gold.ready) == 1
    gold.complete(SECONDS)
    put(etcd, "gold", "late", 20)
    wait_until(lambda: len(bound_pods(etcd, "gold")) == 30, 60, "the tenant's own have them")
    etcd.put(f"{NODES}large", node("large", cpu="256"))
    wait_until(lambda: len(bound_pods(etcd, "gold")) == 33, 60, "those that waited as well")
    etcd.delete(f"{NODES}large")
    counted(gold, 23)
    assert scheduled(common) == before

    put(etcd, "gold", "waits", 5, cpu="64")
    wait_until(lambda: len(etcd.objects(f"{ATTEMPTS}gold/")) == 5, 60, "some wait")
    tree.cli("fleet", "delete", "gold")
    assert gold.wait(SECONDS, "deleted") == 0
    assert list(instances_of(tree.folder).values()) == ["common/0/1"]
    etcd.put(f"{NODES}large2", node("large2", cpu="512"))
    put(etcd, "gold", "after", 10)
    wait_until(lambda: len(bound_pods(etcd, "gold")) == 48, 60, "the common pool has them again")
    counted(common, before + 15)
    assert audit(etcd, first).doubled == []
    verdict = gold.verdict()
    assert verdict.wrong == []
    assert [how for _, how in verdict.ended] == ["drained"]


def test_a_tenant_in_trouble_delays_neither_pods_nor_a_rollout_of_another(tree: DevTree) -> None:
    """It cannot start, its instances are brought up again and again, and it has pods that no worker can place."""
    etcd, bad, good = tree.etcd, FleetHandle(tree, "bad"), FleetHandle(tree, "good")
    bad.apply(replicas=1)
    good.apply(replicas=2)
    bad.complete(SECONDS)
    good.complete(SECONDS)
    first = etcd.revision()
    serving = bad.serving(1, SECONDS)

    flood = threading.Thread(target=put, args=(Gateway(tree.ready["etcd"]), "bad", "big", FLOOD), kwargs={"cpu": "900"})
    pods = SteadyPods(tree.ready["etcd"], "good", 5.0, labels=of("good"))
    with pods.coming():
        wait_until(lambda: len(pods.bound) > 20, 60, "pods come")
        usual = pods.slowest[1]
        tried_on = {"rollingUpdate": {"failureThreshold": 2}}  # more than its one slot can reach
        bad.apply(template={"resources": {"memory": "64Mi"}}, strategy=tried_on)  # too little to begin with
        flood.start()
        began = time.monotonic()
        good.restart()
        good.complete(300)
        flood.join(patient(120))
        wait_until(lambda: len(etcd.values(f"{ATTEMPTS}bad/")) == FLOOD, 300, "all of the flood is refused", every=1.0)
        allowed = max(LONGEST_DELAY, (time.monotonic() - began) / 4)
        wait_until(lambda: any(slot["crashes"] for slot in bad.status["slots"]), SECONDS, "the bad one has crashed")

    pods.had_nodes_within(usual + allowed)
    assert good.outcomes == {1: "completed", 2: "completed"}
    verdict = good.verdict()
    assert (verdict.wrong, verdict.taken(first)) == ([], [])
    bad.until_serving(serving, SECONDS)
    assert {life[0] for life, _ in bad.verdict().ended} == {0}
    bound = audit(etcd, first)
    assert (bound.doubled, bound.overcommitted) == ([], [])
    assert len(bound.pending) == FLOOD
