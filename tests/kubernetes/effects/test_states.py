"""What one state of an object does to its copy and to a promise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, KeyValue, Put
from wharfinger.kubernetes.effects.states import ObjectState, StateStep, take
from wharfinger.objects.documents.copies import StateOfCopy, copy_of, copy_of_promised, state_of
from wharfinger.objects.documents.decode import decode_pod
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.contracts.promise_records import KnownObject, StateEffect
from wharfinger.scheduling.model.promises import Promise

NOW = "2026-03-01T12:00:00Z"
KEY = keys.pod("default", "a")
PROMISE = keys.promise("default", "a")


def pod(revision: int, *, uid: str = "u1", node: str = "", labels: dict[str, str] | None = None) -> dict:
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
    metadata = {"name": "a", "namespace": "default", "uid": uid, "resourceVersion": str(revision)}
    return {"metadata": {**metadata, "labels": labels or {}}, "spec": spec, "status": {"phase": "Pending"}}


def state(revision: int, **changes: object) -> ObjectState:
    obj = pod(revision, **changes)  # type: ignore[arg-type]
    return ObjectState("pods", "default", "a", revision, obj["metadata"]["uid"], obj)


def gone(revision: int, uid: str = "") -> ObjectState:
    return ObjectState("pods", "default", "a", revision, uid)


def copied(revision: int, *, mod: int = 100, **changes: object) -> KnownObject:
    return KnownObject(KeyValue(KEY, copy_of(pod(revision, **changes), "pods"), 50, mod))  # type: ignore[arg-type]


def promised(revision: int, *, mod: int = 100, withdrawn: str = "") -> KnownObject:
    value = copy_of_promised(pod(revision), node="n1", attempt="w@r", now=NOW)
    promise = Promise("u1", revision, "n1", "w@r", NOW, withdrawn=withdrawn)
    return KnownObject(KeyValue(KEY, value, 50, mod), promise_records.at(promise, mod))


def step(seen: ObjectState, known: KnownObject, *, imports: bool = True) -> StateStep:
    return take(seen, known, imports=imports, now=lambda: NOW)


def put_by(found: StateStep, key: str) -> bytes:
    return next(write.value for write in found.writes if isinstance(write, Put) and write.key == key)


def test_a_new_object_is_created_by_the_importer_alone() -> None:
    found = step(state(5), KnownObject(None))
    assert (found.effect, found.compares) == (StateEffect.COPIED, (Compare(KEY, "mod", 0),))
    assert state_of(put_by(found, KEY)) == StateOfCopy("u1", 5)
    assert step(state(5), KnownObject(None), imports=False).effect is StateEffect.NOTHING


@pytest.mark.parametrize("whole", [True, False])
def test_a_promise_outlives_that_its_copy_is_made_of_the_other_kind(whole: bool) -> None:
    """The API has not moved, so its bind can still be carried out."""
    obj = pod(5)
    obj["spec"]["containers"][0]["env"] = [{"name": "X", "value": "1"}]
    value = copy_of_promised(obj, node="n1", attempt="w@r", now=NOW, whole=not whole)
    known = KnownObject(KeyValue(KEY, value, 50, 100), promise_records.at(Promise("u1", 5, "n1", "w@r", NOW), 100))
    seen = ObjectState("pods", "default", "a", 5, "u1", obj)
    found = take(seen, known, imports=True, now=lambda: NOW, whole=whole, anew=True)
    assert found.effect is StateEffect.PROMISED_AGAIN
    assert put_by(found, KEY) == copy_of_promised(obj, node="n1", attempt="w@r", now=NOW, whole=whole)
    other = {**obj, "metadata": {**obj["metadata"], "labels": {"a": "b"}}}
    edited = ObjectState("pods", "default", "a", 6, "u1", other)
    assert take(edited, known, imports=True, now=lambda: NOW, whole=whole, anew=True).effect is StateEffect.ENDED


def test_a_newer_state_replaces_and_an_older_does_not() -> None:
    for imports in (True, False):
        assert step(state(6), copied(5), imports=imports).compares == (Compare(KEY, "mod", 100),)
        assert not step(state(5), copied(5), imports=imports).writes
        assert not step(state(4), copied(5), imports=imports).writes


def test_revisions_are_compared_as_numbers() -> None:
    assert step(state(10), copied(9)).effect is StateEffect.COPIED


def test_a_bound_pod_is_written_only_where_more_differs() -> None:
    known = copied(5, node="n1")
    assert not step(state(6, node="n1"), known).writes
    assert step(state(6, node="n1", labels={"a": "b"}), known).writes


def test_a_pending_pod_is_written_at_each_revision() -> None:
    assert step(state(6), copied(5)).writes


def test_another_life_removes_the_older_one_first() -> None:
    found = step(state(6, uid="u2"), copied(5))
    assert (found.effect, found.again) == (StateEffect.REMOVED, True)
    assert found.writes == (Delete(KEY),)
    assert not step(state(6, uid="u2"), copied(5), imports=False).writes


def test_only_the_importer_removes_and_never_newer_copies() -> None:
    assert step(gone(6), promised(5)).writes == (Delete(KEY), Delete(PROMISE))
    assert step(gone(5), copied(5)).writes == (Delete(KEY),)
    assert not step(gone(4), copied(5)).writes
    assert not step(gone(6), copied(5), imports=False).writes


def test_the_end_of_a_later_life_removes_the_copy_of_an_earlier_one() -> None:
    """A watch that fell behind shows of both lives only how the later one ended."""
    assert step(gone(7, "u2"), promised(5)).writes == (Delete(KEY), Delete(PROMISE))


def test_a_finished_pod_read_late_is_removed_by_its_older_end() -> None:
    """A sender read the pod after it had left the importer's selection, so its copy is newer than its end."""
    finished = pod(6, node="n1")
    finished["status"]["phase"] = "Succeeded"
    known = KnownObject(KeyValue(KEY, copy_of(finished, "pods"), 50, 100))
    assert step(gone(5), known).writes == (Delete(KEY),)
    assert not step(gone(5), copied(6, node="n1")).writes


def test_a_bound_pod_that_a_worker_asked_for_is_written_at_its_revision() -> None:
    """An eviction that met a conflict goes on with it."""
    found = step(state(6, node="n1"), copied(5, node="n1"), imports=False)
    assert state_of(put_by(found, KEY)).revision == 6


def test_a_bound_state_ends_the_promise() -> None:
    found = step(state(6, node="n1"), promised(5))
    assert found.effect is StateEffect.ENDED
    assert Delete(PROMISE) in found.writes
    assert Compare(PROMISE, "mod", 100) in found.compares


def test_an_unbound_state_that_means_the_same_is_promised_again() -> None:
    found = step(state(6), promised(5))
    assert found.effect is StateEffect.PROMISED_AGAIN
    assert decode_pod(put_by(found, KEY)).node_name == "n1"
    assert state_of(put_by(found, KEY)).revision == 6
    again = promise_records.read_value(Promise, put_by(found, PROMISE))
    assert again == replace(Promise("u1", 6, "n1", "w@r", NOW))


def test_an_unbound_state_that_differs_ends_the_promise() -> None:
    found = step(state(6, labels={"app": "other"}), promised(5))
    assert found.effect is StateEffect.ENDED
    assert decode_pod(put_by(found, KEY)).node_name == ""


def test_a_withdrawn_promise_is_never_promised_again() -> None:
    found = step(state(6), promised(5, withdrawn="refused"))
    assert found.effect is StateEffect.ENDED
    assert Delete(PROMISE) in found.writes


def test_a_state_that_is_not_newer_leaves_a_promise_alone() -> None:
    assert not step(state(5), promised(5)).writes
