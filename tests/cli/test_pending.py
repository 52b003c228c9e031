"""How waiting pods are grouped."""

from __future__ import annotations

from wharfinger.cli.pending import NOT_TRIED, group
from wharfinger.cli.serving import unserved
from wharfinger.contracts.records import InstanceRecord
from wharfinger.model.pod import Pod
from wharfinger.registry import keys
from wharfinger.registry.memory import MemoryStore


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


async def test_who_is_taken_by_nobody_is_told_why_nothing_tried_it() -> None:
    store = MemoryStore()
    ready = InstanceRecord(state="ready", host="h", pid=1)
    await store.put(keys.instance("common", "0", 1), ready.to_bytes())
    await store.put(keys.instance("gold", "0", 1), ready.model_copy(update={"state": "starting"}).to_bytes())
    await store.put(keys.tenant("gold"), b"{}")
    plain = Pod(namespace="default", name="plain", uid="1")
    gold = Pod(namespace="default", name="gold", uid="2", labels={"wharfinger.dev/tenant": "gold"})
    silver = Pod(namespace="default", name="silver", uid="3", labels={"wharfinger.dev/tenant": "silver"})

    nobody = await unserved(store, [plain, gold, silver])

    assert nobody == {gold.key: "no worker takes pods of tenant gold now (`wharfinger fleet status gold`)"}
    assert [entry.message for entry in group([gold], {}, unserved=nobody)] == list(nobody.values())
    await store.delete(keys.instance("common", "0", 1))
    assert set(await unserved(store, [plain, gold, silver])) == {plain.key, gold.key, silver.key}
