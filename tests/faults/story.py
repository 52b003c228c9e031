"""Histories made by hand, for the tests of those who judge them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.faults.history import Change, Revision
from tests.faults.judge import Judge
from tests.faults.population import ZONE
from wharfinger.etcd import keys
from wharfinger.testing import node_manifest, pod_manifest


def node(name: str, zone: str = "a", *, cpu: str = "1", pods: str = "10", spec: Any = None) -> dict[str, Any]:
    return node_manifest(name, cpu, "1Gi", int(pods), labels={ZONE: zone}, **(spec or {}))


def pod(
    name: str, namespace: str = "default", *, cpu: str = "600m", app: str = "", port: int = 0, phase: str = "",
    labels: Any = None, **spec: Any,
) -> dict[str, Any]:  # fmt: skip
    status = {"phase": phase} if phase else {}
    made = pod_manifest(name, cpu, namespace=namespace, labels={"app": app, **(labels or {})}, status=status, **spec)
    if port:
        made["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
    return made


class Story:
    """Tells one revision after the other, a second apart."""

    def __init__(self) -> None:
        self.revisions: list[Revision] = []
        self._lives: dict[str, int] = {}
        self._objects: dict[str, dict[str, Any]] = {}

    @property
    def now(self) -> float:
        return 1000.0 + len(self.revisions)

    def put(self, *objects: Mapping[str, Any]) -> Story:
        """One transaction that writes these."""
        return self._tell({self._key(obj): dict(obj) for obj in objects})

    def delete(self, *names: str) -> Story:
        """Nodes by name, pods by `default/name`."""
        return self._tell({keys.pod(*name.split("/")) if "/" in name else keys.node(name): None for name in names})

    def bind(self, **nodes: str) -> Story:
        """One transaction that binds these pods, each put at a revision of its own before if it was not there."""
        changed = {}
        for name, node_name in nodes.items():
            key = keys.pod("default", name.replace("_", "-"))
            obj = json.loads(json.dumps(self._objects[key]))
            obj["spec"]["nodeName"] = node_name
            changed[key] = obj
        return self._tell(changed)

    def take_off(self, name: str, node_name: str, *, deleted: bool = True) -> Story:
        """One transaction that deletes a lost pod and writes down its new life."""
        key = keys.pod("default", name)
        new = json.loads(json.dumps(self._objects[key]))
        new["spec"].pop("nodeName", None)
        record = keys.requeued(node_name, "default", name)
        return self._tell({**({key: None} if deleted else {}), record: new})

    def put_anew(self, name: str, node_name: str, *, put: bool = True) -> Story:
        """One transaction that puts the pod in its new life."""
        record = keys.requeued(node_name, "default", name)
        new = self._objects[record]
        return self._tell({**({keys.pod("default", name): new} if put else {}), record: None})

    def judged(self) -> list[str]:
        """The invariants that were broken."""
        return [violation.invariant for violation in self.judge().violations]

    def judge(self) -> Judge:
        return Judge(lambda moment: moment - 1.5).take_all(self.revisions)

    def _key(self, obj: Mapping[str, Any]) -> str:
        metadata = obj["metadata"]
        return keys.node(metadata["name"]) if obj["kind"] == "Node" else keys.pod("default", metadata["name"])

    def _tell(self, objects: Mapping[str, dict[str, Any] | None]) -> Story:
        number = len(self.revisions) + 2
        changes = []
        for key, obj in objects.items():
            if obj is None:
                self._lives.pop(key)
                self._objects.pop(key)
                changes.append(Change(key, None, 0, number))
            else:
                life = self._lives.setdefault(key, number)
                self._objects[key] = obj
                changes.append(Change(key, json.dumps(obj).encode(), life, number))
        self.revisions.append(Revision(number, self.now, tuple(changes)))
        return self
