"""What people see and may do where a Kubernetes API is the store: promises, refusals, writes, options."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.api_and_store import POD, Between, node_object
from tests.patience import patient
from tests.scheduling.reading.test_explanation import POD as WAITING
from tests.scheduling.reading.test_explanation import RECORD, explained
from wharfinger.apiserver.client import NODES, PODS
from wharfinger.cli.objects.get import show_changes
from wharfinger.cli.options import settings_from
from wharfinger.cli.output import Output
from wharfinger.cli.processes.process_options import KubernetesOptions, check_alone, kubernetes_arguments
from wharfinger.errors import InstallationMismatch, UsageError
from wharfinger.etcd import keys
from wharfinger.kubernetes.cli.applying import ApiWriter
from wharfinger.objects.documents import kinds
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.process.installation_record import check_written_here, has_copies
from wharfinger.process.records import InstallationRecord
from wharfinger.scheduling.cli.rows import pod_row
from wharfinger.scheduling.cli.story import tell
from wharfinger.scheduling.model.promises import Promise
from wharfinger.scheduling.reading.explanation import PROMISED
from wharfinger.scheduling.reading.pods_and_nodes import every_pod, one_pod
from wharfinger.scheduling.reading.promised_pods import promises_of, story
from wharfinger.settings import ElectionSettings, KubernetesSettings
from wharfinger.testing import MemoryStore

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PROMISE = Promise("uid", 7, "n1", "workflow@run", "2026-03-01T12:00:00Z")
MANIFEST: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}

# --- what is shown -------------------------------------------------------------------------


async def test_pod_with_a_promise_has_the_status_promised() -> None:
    between = Between()
    await between.promised()
    await between.add("b", nodeName="n1")

    _, found = await every_pod(between.store)
    alone = await one_pod(between.store, *POD)

    assert {entry.name: pod_row(entry, NOW)[2] for entry in found} == {"a": PROMISED.capitalize(), "b": "Bound"}
    assert pod_row(alone, NOW)[2:4] == ("Promised", "n1")


async def test_promises_are_listed_by_namespace() -> None:
    between = Between()
    await between.promised()

    assert list(await promises_of(between.store)) == [POD]
    assert list(await promises_of(between.store, "default")) == [POD]
    assert await promises_of(between.store, "def") == {}


async def test_watch_shows_when_a_promise_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    between = Between(store=await store_of("uid"))
    watch = asyncio.create_task(show_changes(between.store, kinds.POD, "default", "", Output.TABLE))
    statuses: list[str] = []

    async def shown(count: int) -> None:
        """Return when so many rows of pods were printed."""
        async with asyncio.timeout(patient(10)):
            while len(statuses) < count:
                await asyncio.sleep(0)
                rows = (line.split() for line in capsys.readouterr().out.splitlines())
                statuses.extend(row[2] for row in rows if row[:2] == ["default", "a"])

    await between.promised()
    await shown(1)
    await between.store.delete(keys.promise(*POD))
    await shown(len(statuses) + 1)
    watch.cancel()

    assert statuses[-2:] == ["Promised", "Bound"]


def told(record: Any = None, promise: Promise | None = None, **changes: Any) -> str:
    """What `explain` says of a pod."""
    pod = replace(WAITING, **changes)
    state = PROMISED if promise is not None and pod.bound else "pending"
    return tell(
        replace(explained(pod, record=record, attempts=[]), state=state, kubernetes=story(pod, record, promise))
    )


def test_explain_says_whether_the_api_shows_the_refusal() -> None:
    shown = told(RECORD, condition=("False", RECORD.reason, RECORD.message))
    other = told(RECORD, condition=("False", "Unschedulable", "an older text"))
    none = told(RECORD, condition=None)

    assert "The Kubernetes API shows this refusal." in shown
    assert "does not show this refusal yet (it shows Unschedulable: an older text); it is sent again" in other
    assert "does not show this refusal yet (it shows none); it is sent again within 30 s." in none


def test_contention_is_never_a_condition() -> None:
    assert "Kubernetes API" not in told(RECORD.model_copy(update={"reason": "Contended"}))


def test_explain_names_the_promise_and_what_it_waits_for() -> None:
    sent = told(promise=PROMISE, node_name="n1")
    preparing = told(promise=replace(PROMISE, ready=False), node_name="n1")

    assert "pod default/web-1 is promised to n1" in sent
    assert "Promised to n1 since 2026-03-01T12:00:00Z; the Kubernetes API has not shown the bind yet." in sent
    assert "gets the bind when its volumes are prepared." in preparing


def test_explain_has_the_words_by_which_the_api_refused() -> None:
    given_up = PROMISE.given_up("the API server refuses the bind", "admission webhook says no")

    text = told(promise=given_up, node_name="n1")

    assert "is being given up: the API server refuses the bind." in text
    assert "In the words of the Kubernetes API: admission webhook says no." in text
    assert story(WAITING, None, given_up).to_plain()["promise"]["told"] == "admission webhook says no"


# --- who writes ----------------------------------------------------------------------------


async def store_of(kubernetes: str) -> MemoryStore:
    store = MemoryStore()
    record = InstallationRecord(cluster="c", temporal_namespace="default", upstream=kubernetes)
    await store.put(keys.INSTALLATION, record.to_bytes())
    return store


async def test_copies_are_known_by_the_installation() -> None:
    assert await has_copies(await store_of("uid"))
    assert not await has_copies(await store_of(""))
    assert not await has_copies(MemoryStore())


async def test_unreadable_installation_is_not_taken_for_none() -> None:
    store = MemoryStore()
    await store.put(keys.INSTALLATION, b"{}")

    with pytest.raises(InstallationMismatch, match="cannot be read"):
        await has_copies(store)


@pytest.mark.parametrize("kind", [kinds.POD, kinds.NODE, kinds.PRIORITY_CLASS, kinds.POD_GROUP])
def test_kinds_of_the_api_are_written_by_kubectl(kind: kinds.Kind) -> None:
    with pytest.raises(UsageError, match="use kubectl apply, or `wharfinger kubernetes apply`"):
        check_written_here(True, "apply", kind)

    check_written_here(False, "apply", kind)


@pytest.mark.parametrize("kind", [kinds.FLEET, kinds.MEMBER_CLUSTER, kinds.CLUSTER_PLACEMENT])
def test_own_kinds_are_written_here_beside_an_api(kind: kinds.Kind) -> None:
    check_written_here(True, "apply", kind)


async def test_writer_creates_changes_and_deletes() -> None:
    between = Between()
    writer = ApiWriter(between.api, "default")

    created = await writer.apply(MANIFEST)
    same = await writer.apply(MANIFEST)
    labelled = await writer.apply({**MANIFEST, "metadata": {"name": "web", "labels": {"a": "b"}}})
    deleted = await writer.delete(MANIFEST)
    absent = await writer.delete(MANIFEST)

    results = [done.result for done in (created, same, labelled, deleted, absent)]
    assert results == ["created", "unchanged", "configured", "deleted", "absent"]
    assert created.object == "pod/default/web"


async def test_writer_changes_the_status_of_nodes_as_well() -> None:
    between = Between()
    between.api.put(NODES, node_object("n1"))
    node = {"apiVersion": "v1", "kind": "Node", **node_object("n1"), "status": {"allocatable": {"cpu": "8"}}}

    assert (await ApiWriter(between.api, "default").apply(node)).result == "configured"
    found = between.api.find(NODES, "n1")
    assert found is not None
    assert found["status"]["allocatable"]["cpu"] == "8"


async def test_writer_ignores_what_only_the_api_sets() -> None:
    """A manifest that was read from the copies has etcd's revision."""
    between = Between()
    stored = between.api.put(PODS, {**MANIFEST, "metadata": {"name": "web", "namespace": "default"}})
    read = {**MANIFEST, "metadata": {**stored["metadata"], "resourceVersion": "999999", "labels": {"a": "b"}}}

    assert (await ApiWriter(between.api, "default").apply(read)).result == "configured"


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ({"kind": "Pod", "metadata": {"name": "a"}}, "apiVersion, kind and metadata.name are needed"),
        ({**MANIFEST, "kind": "Gadget"}, "the API does not serve Gadget of v1"),
        ({**MANIFEST, "apiVersion": "none.example/v1"}, "the API does not serve Pod of none.example/v1"),
    ],
)
async def test_writer_refuses_what_the_api_does_not_have(manifest: dict[str, Any], said: str) -> None:
    done = await ApiWriter(Between().api, "default").apply(manifest)

    assert (done.result, done.problems) == ("refused", (said,))


async def test_words_of_the_api_are_passed_on() -> None:
    between = Between()
    between.api.faults.forbid("create", PODS)

    done = await ApiWriter(between.api, "default").apply(MANIFEST)

    assert done.result == "refused"
    assert "forbidden" in done.mapping()["reason"]


# --- options -------------------------------------------------------------------------------


def test_another_process_gets_what_is_not_the_default(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.touch()
    given: dict[str, Any] = {
        "kube_context": "east",
        "kube_api_qps": -1.0,
        "kube_api_burst": 500,
        "leader_elect": False,
        "leader_elect_resource_name": "mine",
    }

    kubernetes = settings_from(KubernetesOptions, {"kubeconfig": str(file), **given}).settings()

    assert kubernetes_arguments(None) == ()
    assert kubernetes_arguments(KubernetesSettings()) == ("--kubeconfig=in-cluster",)
    assert kubernetes_arguments(kubernetes) == (
        f"--kubeconfig={file}",
        "--kube-context=east",
        "--kube-api-qps=-1",
        "--kube-api-burst=500",
        "--no-leader-elect",
        "--leader-elect-resource-name=mine",
    )
    assert kubernetes is not None
    assert kubernetes.election == ElectionSettings(enabled=False, name="mine")


def test_evictions_of_nodes_are_left_to_kubernetes() -> None:
    with pytest.raises(UsageError, match="--lost-pods, --lost-after and --taint-eviction exclude --kubeconfig"):
        check_alone(KubernetesSettings(), ClusterFormat.KUBERNETES, node_evictions=True)

    check_alone(None, ClusterFormat.RK8S, node_evictions=True)
    check_alone(KubernetesSettings(), ClusterFormat.KUBERNETES, node_evictions=False)


def test_documents_of_rk8s_exclude_an_api() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        check_alone(KubernetesSettings(), ClusterFormat.RK8S, node_evictions=False)
