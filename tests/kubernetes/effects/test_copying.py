"""Copying many states: in few transactions, never older ones, and nothing by an importer that was replaced."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.kubernetes.api_and_store import POD, Between, node_object, pod_object
from wharfinger.apiserver.client import NODES, PODS
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Operation, Put
from wharfinger.kubernetes.effects.adopting import NotTheImporter, present
from wharfinger.kubernetes.effects.copying import SeenState
from wharfinger.kubernetes.effects.states import ObjectState
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.contracts.promise_records import StateEffect
from wharfinger.scheduling.model.promises import Importer


@pytest.fixture
async def between() -> Between:
    found = Between()
    await found.begin()
    return found


def pods(between: Between, *names: str) -> list[SeenState]:
    return [SeenState(present("pods", between.api.put(PODS, pod_object(name))), new=True) for name in names]


async def test_many_new_objects_go_into_few_transactions(between: Between) -> None:
    before = between.store.revision
    seen = pods(between, *(f"p{number}" for number in range(250)))
    copied = await between.copying().take(seen)
    assert copied.effects[StateEffect.COPIED] == 250
    assert between.store.revision - before <= 4
    assert (await between.copy_of(keys.pod("default", "p7")))["metadata"]["name"] == "p7"


async def test_the_last_state_of_a_name_counts(between: Between) -> None:
    first = between.api.put(PODS, pod_object())
    second = between.api.put(PODS, pod_object(nodeName="n1"))
    await between.copying().take([SeenState(present("pods", first), new=True), SeenState(present("pods", second))])
    assert (await between.copy_of(keys.pod(*POD)))["spec"]["nodeName"] == "n1"


async def test_copies_become_whole_and_promises_stay(between: Between) -> None:
    promise = await between.promised()
    assert between.api.find(PODS, "a") is not None
    seen = [SeenState(present("pods", between.api.find(PODS, "a") or {}))]
    copied = await between.copying(whole=True).take(seen)
    assert copied.effects == {StateEffect.NOTHING: 1}

    copied = await between.copying(whole=True, anew=True).take(seen)

    assert copied.effects == {StateEffect.PROMISED_AGAIN: 1}
    again = await between.promise()
    assert again is not None
    assert (again.node, again.revision) == (promise.node, promise.revision)
    assert (await between.copy_of(keys.pod(*POD)))["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize("whole", [True, False])
async def test_copies_that_others_write_are_made_anew_as_well(between: Between, whole: bool) -> None:
    """Each transaction of many states fails, so this one goes alone in the end."""
    obj = pod_object()
    obj["spec"]["containers"][0]["env"] = [{"name": "X"}]
    stored = between.api.put(PODS, obj)
    await between.copying(whole=not whole).take([SeenState(present("pods", stored), new=True)])
    key, times = keys.pod(*POD), iter(range(2))

    async def touch(_compares: object, writes: Sequence[Operation]) -> None:
        kv = (await between.store.get(key)).kv
        if any(isinstance(one, Put) and one.key == key for one in writes) and next(times, None) is not None:
            assert kv is not None
            await between.store.client().put(key, kv.value)

    between.store.before_txn = touch
    await between.copying(whole=whole, anew=True).take([SeenState(present("pods", stored))])
    assert next(times, None) is None
    assert ("env" in ((await between.copy_of(key)) or {})["spec"]["containers"][0]) is whole


async def test_states_that_were_copied_meanwhile_are_looked_at_again(between: Between) -> None:
    stored = await between.add()
    copied = await between.copying().take([SeenState(present("pods", stored), new=True)])
    assert copied.effects == {StateEffect.NOTHING: 1}


async def test_a_pod_created_again_gets_another_life_in_etcd(between: Between) -> None:
    await between.add()
    before = (await between.store.get(keys.pod(*POD))).kv
    between.api.remove(PODS, "a")
    again = between.api.put(PODS, pod_object())
    await between.copying().take([SeenState(present("pods", again))])
    after = (await between.store.get(keys.pod(*POD))).kv
    assert before is not None
    assert after is not None
    assert after.create_revision > before.create_revision


async def test_a_bind_in_the_same_moment_is_not_overwritten(between: Between) -> None:
    promise = await between.promised()
    pod = between.api.find(PODS, "a")
    note = between.api.put(PODS, {**pod, "metadata": {**pod["metadata"], "annotations": {"note": "x"}}})
    copied = await between.copying().take([SeenState(present("pods", note), new=True)])
    assert copied.effects == {StateEffect.PROMISED_AGAIN: 1}
    assert (await between.promise()).revision > promise.revision


async def test_an_importer_that_was_replaced_writes_nothing(between: Between) -> None:
    copying = between.copying()
    await between.store.put(keys.IMPORTER, promise_records.stored(Importer("another")))
    with pytest.raises(NotTheImporter):
        await copying.take(pods(between, "a"))
    assert await between.copy_of(keys.pod(*POD)) is None


async def test_an_object_too_large_for_etcd_stops_no_other(between: Between) -> None:
    labels = {f"label-{number}": "x" * 60 for number in range(40_000)}
    large = {"metadata": {"name": "large", "labels": labels}}
    seen = [
        SeenState(present("nodes", between.api.put(NODES, obj)), new=True)
        for obj in (large, node_object("n1"), node_object("n2"))
    ]
    copied = await between.copying(limits=Limits(operations=8)).take(seen)
    assert copied.effects[StateEffect.COPIED] == 2
    assert [line.split(":")[0] for line in copied.unreadable] == [keys.node("large")]


async def test_what_is_gone_takes_its_promise_along(between: Between) -> None:
    await between.promised()
    gone = ObjectState("pods", "default", "a", between.api.revision + 1)
    await between.copying().take([SeenState(gone)])
    assert await between.copy_of(keys.pod(*POD)) is None
    assert await between.promise() is None


@pytest.mark.parametrize("whole", [True, False])
async def test_a_kept_promise_ends_without_a_read(between: Between, whole: bool) -> None:
    await between.promised()
    seen_last = await between.promise()
    bound = between.api.put(PODS, {**between.api.find(PODS, "a"), "spec": pod_object(nodeName="n1")["spec"]})
    sent: list[int] = []

    async def count(compares: Sequence[Compare], *_: object) -> None:
        sent.append(len(compares))

    between.store.before_txn = count
    copied = await between.copying(promised=lambda _: seen_last, whole=whole).take([SeenState(present("pods", bound))])
    between.store.before_txn = None

    assert copied.effects == {StateEffect.ENDED: 1}
    assert sent == [3], "the importer's key, the copy and the promise"
    assert await between.promise() is None
    copy = await between.copy_of(keys.pod(*POD))
    assert copy is not None
    assert (copy["spec"]["nodeName"], copy["metadata"]["resourceVersion"]) == (
        "n1",
        bound["metadata"]["resourceVersion"],
    )


async def test_a_promise_that_is_another_one_by_now_is_read(between: Between) -> None:
    first = await between.promised()
    seen_last = await between.promise()
    assert seen_last is not None
    given_up = first.given_up("moved on")
    await between.store.put(keys.promise(*POD), promise_records.stored(given_up))
    bound = between.api.put(PODS, {**between.api.find(PODS, "a"), "spec": pod_object(nodeName="n2")["spec"]})

    copied = await between.copying(promised=lambda _: seen_last).take([SeenState(present("pods", bound))])

    assert copied.effects == {StateEffect.ENDED: 1}
    assert await between.promise() is None


async def test_an_older_state_leaves_a_newer_promise_alone(between: Between) -> None:
    promise = await between.promised()
    seen_last = await between.promise()
    older = {**between.api.find(PODS, "a"), "spec": pod_object(nodeName="n1")["spec"]}
    older["metadata"] = {**older["metadata"], "resourceVersion": str(promise.revision - 1)}

    copied = await between.copying(promised=lambda _: seen_last).take([SeenState(present("pods", older))])

    assert copied.effects == {StateEffect.NOTHING: 1}
    assert await between.promise() == promise
