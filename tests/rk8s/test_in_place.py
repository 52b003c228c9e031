"""A worker on a cluster of rk8s: it reads the documents as they are, and changes nothing but `node_name`."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.patience import patient
from tests.rk8s import rk8s_documents as docs
from tests.rk8s.conftest import Rk8sCluster
from wharfinger.errors import InstallationMismatch
from wharfinger.etcd import keys
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.scheduling.effects.open_runs import start_attempt


async def test_a_bind_changes_the_bytes_of_node_name_alone(rk8s: Rk8sCluster) -> None:
    await rk8s.put(docs.node("worker1"), docs.pod("web-1", labels={"app": "web"}))
    await rk8s.worker()
    assert await rk8s.bound("web-1") == {"web-1": "worker1"}
    before = rk8s.stored["/registry/pods/web-1"]
    assert await rk8s.value("web-1") == before.replace(b"node_name: null", b"node_name: worker1")


async def test_what_bound_a_pod_lies_under_a_key_of_wharfingers_own(rk8s: Rk8sCluster) -> None:
    await rk8s.put(docs.node("worker1"), docs.pod("web-1"))
    await rk8s.worker()
    await rk8s.bound("web-1")
    stored = (await rk8s.store.get("/registry/pods/web-1")).kv
    record = (await rk8s.store.get(keys.bound_by("default", "web-1"))).kv
    assert stored is not None
    assert record is not None
    assert record.mod_revision == stored.mod_revision
    found = json.loads(record.value)
    assert (found["node"], found["create_revision"]) == ("worker1", stored.create_revision)
    assert found["attempt"].startswith(f"wharfinger/pod/default/web-1/rev-{stored.create_revision}@")


async def test_the_record_of_a_bind_goes_with_its_pod(rk8s: Rk8sCluster) -> None:
    await rk8s.put(docs.node("worker1"), docs.pod("web-1"))
    worker = await rk8s.worker()
    await rk8s.bound("web-1")
    await rk8s.until(lambda: worker.loops.scheduling.view.bound_by)
    await rk8s.delete("web-1")
    await rk8s.until(lambda: not worker.loops.scheduling.view.bound_by)


async def test_a_refusal_leaves_the_document_as_it_is(rk8s: Rk8sCluster) -> None:
    await rk8s.put(docs.node("small", cpu="1"), docs.pod("big", cpu="2"))
    await rk8s.worker()
    record = await rk8s.record_of("big", "NodeResourcesFit")
    assert record["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert await rk8s.value("big") == rk8s.stored["/registry/pods/big"]
    await rk8s.put(docs.node("large", cpu="4"))
    assert await rk8s.bound("big") == {"big": "large"}
    assert (await rk8s.store.get(keys.attempt("default", "big"))).kv is None


async def test_a_flood_is_bound_in_cohorts(rk8s: Rk8sCluster) -> None:
    names = [f"pod-{number}" for number in range(120)]
    await rk8s.put(*(docs.node(f"worker{number}") for number in range(10)))
    await rk8s.put(*(docs.pod(name, cpu="100m", memory="10Mi") for name in names))
    await rk8s.worker()
    await rk8s.bound(*names, seconds=60)
    for name in names:
        before = rk8s.stored[f"/registry/pods/{name}"]
        bound = await rk8s.value(name)
        node = docs.read(bound)["spec"]["node_name"]
        assert bound == before.replace(b"node_name: null", f"node_name: {node}".encode())


async def test_mixed_documents_are_reported_and_disturb_nothing(rk8s: Rk8sCluster) -> None:
    kubernetes = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "theirs", "namespace": "default"},
        "spec": {"nodeName": "", "containers": [{"name": "c", "image": "i"}]},
    }
    await rk8s.put_raw("/registry/pods/theirs", json.dumps(kubernetes).encode())
    await rk8s.put_raw("/registry/pods/default/nested", docs.document(docs.pod("nested")))
    await rk8s.put_raw("/registry/services/web", b"kind: Service\n")
    await rk8s.put(docs.node("worker1"), docs.pod("web-1"))
    worker = await rk8s.worker()
    await rk8s.bound("web-1")
    reasons = worker.loops.scheduling.view.invalid.reasons
    assert reasons == {
        "/registry/pods/default/default/nested": "its key is not /registry/pods/<name>",
        "/registry/pods/default/theirs": (
            "spec.nodeName is Kubernetes', and this cluster's objects are rk8s': it has node_name instead"
        ),
    }
    assert await rk8s.value("theirs") == json.dumps(kubernetes).encode()


async def test_a_worker_of_another_format_refuses_to_start(rk8s: Rk8sCluster) -> None:
    await rk8s.worker()
    installed = (await rk8s.store.get(keys.INSTALLATION)).kv
    assert installed is not None
    assert json.loads(installed.value)["format"] == "rk8s"
    from wharfinger.process.installation import claim

    with pytest.raises(InstallationMismatch, match="kept in the format rk8s, not kubernetes: start with --format rk8s"):
        await claim(rk8s.store, cluster="wharfinger", namespace="default")


async def test_a_record_without_a_format_means_kubernetes(rk8s: Rk8sCluster) -> None:
    record = {"cluster": "wharfinger", "temporal_namespace": "default"}
    await rk8s.store.put(keys.INSTALLATION, json.dumps(record).encode())
    with pytest.raises(InstallationMismatch, match="kept in the format kubernetes, not rk8s"):
        await rk8s.worker(format=ClusterFormat.RK8S)


async def test_pods_of_a_deleted_node_are_made_anew_and_placed_again(rk8s: Rk8sCluster) -> None:
    await rk8s.put(docs.node("worker1"), docs.pod("web-1", running=True))
    await rk8s.put(docs.pod("of-a-set", owner="web"))
    await rk8s.worker()
    await rk8s.bound("web-1", "of-a-set")
    first = (await rk8s.store.get("/registry/pods/web-1")).kv
    await rk8s.put(docs.node("worker2"))
    await rk8s.delete("worker1", kind="nodes")
    async with asyncio.timeout(patient(30)):
        while await rk8s.node_of("web-1") != "worker2":
            await asyncio.sleep(0.05)
    second = (await rk8s.store.get("/registry/pods/web-1")).kv
    assert first is not None
    assert second is not None
    assert second.create_revision > first.create_revision
    anew, old = docs.read(second.value), docs.read(first.value)
    assert anew["status"]["phase"] == "Pending"
    assert anew["metadata"]["uid"] != old["metadata"]["uid"]
    assert anew["spec"] == {**old["spec"], "node_name": "worker2"}
    assert (await rk8s.store.get("/registry/pods/of-a-set")).kv is None


async def test_a_worker_that_starts_nothing_writes_no_key_of_rk8s(rk8s: Rk8sCluster) -> None:
    """Beside a running libscheduler it follows the cluster; it places what a client starts."""
    await rk8s.put(docs.node("worker1"), docs.pod("web-1"), docs.pod("theirs", node_name="worker1", running=True))
    await rk8s.put(docs.pod("lost", node_name="gone"))
    before = await rk8s.theirs()
    worker = await rk8s.worker(dispatch="none")
    await rk8s.until(lambda: len(worker.cache.pods) == 3)
    await worker.loops.scheduling.node_evictions.look()
    assert await rk8s.theirs() == before
    create_revision = next(kv.create_revision for kv in before if kv.key == "/registry/pods/web-1")
    uid = f"rev-{create_revision}"
    await start_attempt(rk8s.client, cluster="wharfinger", namespace="default", name="web-1", uid=uid)
    assert await rk8s.bound("web-1") == {"web-1": "worker1"}
