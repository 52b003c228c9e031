"""How waiting pods are grouped."""

from __future__ import annotations

from tests.objects.documents.manifests import pod_manifest, raw
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue
from wharfinger.objects.documents.kinds import POD
from wharfinger.objects.model.pod import GangTerms, Pod
from wharfinger.process.records import InstanceRecord
from wharfinger.process.stored_objects import Stored
from wharfinger.process.stored_objects import read as stored_object
from wharfinger.scheduling.cli.pending import NOT_SERVED, NOT_TRIED, doubtful, group
from wharfinger.scheduling.reading.held_back import Unserved, held, unserved
from wharfinger.testing.memory_store import MemoryStore


def member(name: str, *, refused: bool = False, node: str = "") -> Pod:
    condition = ("False", "Unschedulable", "gang needs 3 members") if refused else None
    return Pod(namespace="default", name=name, uid=name, group="team", condition=condition, node_name=node)


def told(*pods: Pod) -> list[tuple[str, int]]:
    return [(entry.reason, len(entry.pods)) for entry in group(pods, {})]


def test_members_wait_for_what_their_gang_was_refused_for() -> None:
    assert told(member("a"), member("b", refused=True), member("c")) == [("Unschedulable", 3)]


def test_what_is_left_of_a_running_gang_waits_for_reasons_of_its_own() -> None:
    pods = (member("a"), member("b", refused=True), member("c", node="n"))

    assert told(*pods) == [(NOT_TRIED, 1), ("Unschedulable", 1)]


def stored(name: str, *, node: str = "", **toleration: str) -> Stored:
    container = {"name": "c", "image": "x"}
    pod = pod_manifest(metadata={"name": name}, containers=[container], tolerations=[toleration], nodeName=node)
    return stored_object(POD, KeyValue(keys.pod("default", name), raw(pod), 1, 1))


def test_a_note_counts_the_waiting_pods_that_an_api_server_would_refuse() -> None:
    wrong = {"key": "k", "operator": "Gt", "value": "5"}
    right = {"key": "k", "operator": "Exists"}
    found = [stored("a", **right), stored("b", **wrong), stored("c", node="n", **wrong), stored("d", **wrong)]

    [note] = doubtful(found)

    assert note.startswith("an API server of Kubernetes 1.36 would refuse 2 pods, such as default/b: spec.tolerations")
    assert doubtful(found[:1]) == []


async def test_unserved_pod_has_the_reason_why_no_attempt_was_made() -> None:
    store = MemoryStore()
    ready = InstanceRecord(state="ready", host="h", pid=1)
    await store.put(keys.instance("common", "0", 1), ready.to_bytes())
    await store.put(keys.instance("gold", "0", 1), ready.model_copy(update={"state": "starting"}).to_bytes())
    await store.put(keys.tenant("gold"), b"{}")
    plain = Pod(namespace="default", name="plain", uid="1")
    gold = Pod(namespace="default", name="gold", uid="2", labels={"wharfinger.dev/tenant": "gold"})
    silver = Pod(namespace="default", name="silver", uid="3", labels={"wharfinger.dev/tenant": "silver"})

    reasons = await unserved(store, [plain, gold, silver])

    sentence = "no worker takes pods of tenant gold now (`wharfinger fleet status gold`)"
    assert reasons == {gold.key: Unserved(sentence)}
    assert [entry.message for entry in group([gold], {}, unserved=reasons)] == [sentence]
    await store.delete(keys.instance("common", "0", 1))
    assert set(await unserved(store, [plain, gold, silver])) == {plain.key, gold.key, silver.key}


async def serving(store: MemoryStore, tenant: str, slot: str, names: tuple[str, ...] | None) -> None:
    record = InstanceRecord(state="ready", host="h", pid=1, scheduler_names=names)
    await store.put(keys.instance(tenant, slot, 1), record.to_bytes())


async def test_pod_whose_scheduler_name_no_instance_serves_is_shown() -> None:
    store = MemoryStore()
    await serving(store, "common", "0", ("default-scheduler",))
    ours = Pod(namespace="default", name="ours", uid="1")
    foreign = Pod(namespace="default", name="foreign", uid="2", scheduler_name="volcano")
    refused = Pod(
        namespace="default",
        name="refused",
        uid="3",
        scheduler_name="volcano",
        condition=("False", "Unschedulable", "no queue"),
    )
    sentence = "no live wharfinger instance serves volcano; another scheduler may"

    reasons = await unserved(store, [ours, foreign, refused])
    groups = {(entry.reason, entry.message) for entry in group([ours, foreign, refused], {}, unserved=reasons)}

    assert reasons == {key: Unserved(sentence, by_name=True) for key in (foreign.key, refused.key)}
    assert (NOT_SERVED, sentence) in groups
    assert (NOT_SERVED, f"{sentence} (PodScheduled=False, Unschedulable: no queue)") in groups
    assert {reason for reason, _ in groups} == {NOT_SERVED, NOT_TRIED}


async def test_pool_without_instances_serves_the_usual_scheduler_name_only() -> None:
    refused = ("False", "Unschedulable", "no queue")
    ours = Pod(namespace="default", name="ours", uid="1")
    foreign = Pod(namespace="default", name="foreign", uid="2", scheduler_name="volcano", condition=refused)

    reasons = await unserved(MemoryStore(), [ours, foreign])
    groups = {(entry.reason, entry.message) for entry in group([ours, foreign], {}, unserved=reasons)}

    sentence = "no live wharfinger instance serves volcano; another scheduler may"
    assert groups == {
        (NOT_SERVED, f"{sentence} (PodScheduled=False, Unschedulable: no queue)"),
        (NOT_TRIED, "no worker takes pods of the common pool now (`wharfinger fleet status common`)"),
    }


async def test_scheduler_names_count_in_their_own_pool_only() -> None:
    store = MemoryStore()
    await store.put(keys.tenant("gold"), b"{}")
    await serving(store, "common", "0", ("default-scheduler",))
    await serving(store, "gold", "0", ("fast",))
    gold = Pod(namespace="default", name="gold", uid="1", labels={"wharfinger.dev/tenant": "gold"})

    found = await unserved(store, [gold])

    sentence = "no live wharfinger instance of tenant gold serves default-scheduler; another scheduler may"
    assert found == {gold.key: Unserved(sentence, by_name=True)}


async def test_instance_of_an_earlier_release_leaves_the_served_names_unknown() -> None:
    store = MemoryStore()
    await serving(store, "common", "0", ("default-scheduler",))
    await serving(store, "common", "1", None)

    assert await unserved(store, [Pod(namespace="default", name="p", uid="1", scheduler_name="volcano")]) == {}


def test_a_group_that_does_not_exist_is_named_once() -> None:
    pod = Pod(namespace="default", name="a", uid="a", group="nosuch", gang=GangTerms(by_object=True))
    [entry] = group([pod], {}, held([pod], {}))

    assert (entry.reason, entry.message) == ("SchedulingGated", "PodGroup default/nosuch does not exist")
