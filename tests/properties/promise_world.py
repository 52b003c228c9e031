"""A Kubernetes API and an etcd as plain dicts: just what promises rest on, fast enough for tens of thousands of lives.

Every change of either side is judged: what is bound in the API was promised at that moment, and no node gets more of
our pods than it has room for, counting what either side says. Pods that the other scheduler binds are its own doing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import orjson

from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, KeyValue, Operation, Put
from wharfinger.kubernetes.effects.states import ObjectState
from wharfinger.objects.documents.copies import copy_of, same_but_revision, state_of
from wharfinger.objects.model.names import ATTEMPT_ANNOTATION

NODES = ("n1", "n2")
ROOM = 1
"""Pods of a node."""
NAMES = ("a", "b", "c")
FINISHED = "Succeeded"


class RuleBroken(AssertionError):
    """What must never be, was."""


class Shown(NamedTuple):
    """One change as the importer's watch shows it."""

    revision: int
    name: str
    state: ObjectState


@cache
def key_of(name: str) -> str:
    return keys.pod("default", name)


@cache
def promise_of(name: str) -> str:
    return keys.promise("default", name)


class ApiSide:
    """Pods of the API, and what a watch of the unfinished ones shows."""

    def __init__(self, *, compares_revisions: bool = True) -> None:
        """`compares_revisions`: whether a bind names the revision of its pod."""
        self.revision = 10
        self.pods: dict[str, dict[str, Any]] = {}
        self.shown: list[Shown] = []
        self.foreign: set[str] = set()
        """Uids of pods that the other scheduler bound."""
        self._compares = compares_revisions
        self._uids = 0

    def selected(self) -> list[dict[str, Any]]:
        """The unfinished pods."""
        return [pod for pod in self.pods.values() if pod["status"]["phase"] != FINISHED]

    def create(self, name: str) -> None:
        self._uids += 1
        metadata = {"name": name, "namespace": "default", "uid": f"u{self._uids}"}
        self._write(name, {"metadata": metadata, "spec": {"schedulerName": "s"}, "status": {"phase": "Pending"}})

    def edit(self, name: str, field: str, value: str) -> None:
        """Set a label or an annotation, under `labels` or `annotations`."""
        pod = self.pods[name]
        metadata = pod["metadata"]
        self._write(name, {**pod, "metadata": {**metadata, field: {**metadata.get(field, {}), "x": value}}})

    def assign(self, name: str, node: str, attempt: str) -> None:
        """Put a pod on a node; without `attempt` the other scheduler did."""
        pod = self.pods[name]
        metadata = pod["metadata"]
        if attempt:
            metadata = {**metadata, "annotations": {**metadata.get("annotations", {}), ATTEMPT_ANNOTATION: attempt}}
        else:
            self.foreign.add(metadata["uid"])
        self._write(name, {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}})

    def bind(self, name: str, uid: str, revision: int, node: str, attempt: str) -> bool:
        """POST pods/binding; whether it was carried out."""
        pod = self.pods.get(name)
        if pod is None or pod["metadata"]["uid"] != uid or "nodeName" in pod["spec"]:
            return False
        if "deletionTimestamp" in pod["metadata"]:
            return False
        if self._compares and pod["metadata"]["resourceVersion"] != str(revision):
            return False
        self.assign(name, node, attempt)
        return True

    def fence(self, name: str, uid: str, value: str) -> ObjectState | None:
        """PATCH the annotation; the pod as it is then, None when it is not there."""
        pod = self.pods.get(name)
        if pod is None or pod["metadata"]["uid"] != uid:
            return None
        metadata = pod["metadata"]
        annotations = metadata.get("annotations", {})
        if annotations.get("fence") != value:
            self._write(name, {**pod, "metadata": {**metadata, "annotations": {**annotations, "fence": value}}})
        return self.read(name)

    def finish(self, name: str) -> None:
        """The pod has run."""
        self._write(name, {**self.pods[name], "status": {"phase": FINISHED}})

    def delete(self, name: str, *, gently: bool) -> None:
        """Delete it; one that runs may first only be marked."""
        pod = self.pods[name]
        if gently and "nodeName" in pod["spec"] and "deletionTimestamp" not in pod["metadata"]:
            self._write(name, {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-03-01T12:00:00Z"}})
            return
        del self.pods[name]
        self.revision += 1
        if pod["status"]["phase"] != FINISHED:
            self._show(name, pod["metadata"]["uid"], None)

    def read(self, name: str) -> ObjectState | None:
        """GET: its state now."""
        pod = self.pods.get(name)
        return None if pod is None else present(name, pod)

    def _write(self, name: str, pod: dict[str, Any]) -> None:
        self.revision += 1
        before = self.pods.get(name)
        pod["metadata"] = {**pod["metadata"], "resourceVersion": str(self.revision)}
        self.pods[name] = pod
        if pod["status"]["phase"] != FINISHED:
            self._show(name, pod["metadata"]["uid"], pod)
        elif before is not None and before["status"]["phase"] != FINISHED:
            self._show(name, pod["metadata"]["uid"], None)

    def _show(self, name: str, uid: str, pod: dict[str, Any] | None) -> None:
        state = ObjectState("pods", "default", name, self.revision, uid, pod)
        self.shown.append(Shown(self.revision, name, state))


class EtcdSide:
    """Keys, revisions, and transactions; the nodes of copies are kept beside them."""

    def __init__(self) -> None:
        self.revision = 100
        self.kvs: dict[str, KeyValue] = {}
        self.seats: dict[str, tuple[str, str]] = {}
        """Key of a copy -> uid and node, for those that are on one."""
        self.changes = 0

    def get(self, key: str) -> KeyValue | None:
        return self.kvs.get(key)

    def mod(self, key: str) -> int:
        kv = self.kvs.get(key)
        return 0 if kv is None else kv.mod_revision

    def txn(self, compares: Iterable[Compare], writes: Iterable[Operation]) -> bool:
        """Compare and write in one step."""
        for compare in compares:
            if not compare.holds(self.kvs.get(compare.key)):
                return False
        self.revision += 1
        self.changes += 1
        for write in writes:
            if isinstance(write, Put):
                before = self.kvs.get(write.key)
                created = before.create_revision if before is not None else self.revision
                self.kvs[write.key] = KeyValue(write.key, write.value, created, self.revision)
                if write.key.startswith(keys.PODS):
                    self._seat(write.key, write.value)
            elif isinstance(write, Delete):
                self.kvs.pop(write.key, None)
                self.seats.pop(write.key, None)
        return True

    def _seat(self, key: str, value: bytes) -> None:
        pod = orjson.loads(value)
        node = pod["spec"].get("nodeName")
        if node:
            self.seats[key] = (pod["metadata"]["uid"], node)
        else:
            self.seats.pop(key, None)


def present(name: str, pod: dict[str, Any]) -> ObjectState:
    metadata = pod["metadata"]
    return ObjectState("pods", "default", name, int(metadata["resourceVersion"]), metadata["uid"], pod)


def judge_nodes(api: ApiSide, etcd: EtcdSide) -> None:
    """No node has more of our pods than room, by the API and by etcd together.

    Copies of pods that are gone do not count: a new importer, which begins where the former one said that it was, may
    create some again for a moment. They take room, and nothing is bound by them.
    """
    alive = {pod["metadata"]["uid"]: pod["spec"].get("nodeName") for pod in api.selected()}
    there = {(node, uid) for uid, node in etcd.seats.values() if uid in alive and uid not in api.foreign}
    there.update((node, uid) for uid, node in alive.items() if node and uid not in api.foreign)
    nodes = [node for node, _ in there]
    for node in NODES:
        if nodes.count(node) > ROOM:
            raise RuleBroken(f"{node} has {sorted(uid for at, uid in there if at == node)}")


def judge_bind(etcd: EtcdSide, name: str, uid: str, node: str) -> None:
    """The pod that was just bound in the API has its room in etcd."""
    if etcd.seats.get(key_of(name)) != (uid, node):
        raise RuleBroken(f"{name} ({uid}) was bound to {node}, and etcd has {etcd.seats.get(key_of(name))}")


def judge_end(api: ApiSide, etcd: EtcdSide) -> None:
    """There is no promise, and copies are what the API has."""
    for name in NAMES:
        if etcd.get(promise_of(name)) is not None:
            raise RuleBroken(f"the promise of {name} has not ended")
        pod, kv = api.pods.get(name), etcd.get(key_of(name))
        if pod is None or pod["status"]["phase"] == FINISHED:
            if kv is not None:
                raise RuleBroken(f"{name} is gone, and its copy is not")
            continue
        if kv is None:
            raise RuleBroken(f"{name} has no copy")
        value = copy_of(pod, "pods")
        pending = "nodeName" not in pod["spec"]
        if not same_but_revision(value, kv.value) or (pending and state_of(value) != state_of(kv.value)):
            raise RuleBroken(f"{name} is {value!r}, and its copy {kv.value!r}")
