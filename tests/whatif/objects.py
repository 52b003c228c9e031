"""Builders of objects, and one way to ask what would happen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wharfinger.testing import node_manifest, pod_manifest
from wharfinger.whatif.changes import NodeChanges
from wharfinger.whatif.inventory import Inventory
from wharfinger.whatif.outcome import Answer
from wharfinger.whatif.play import simulate
from wharfinger.whatif.scene import Scene

NO_CHANGES = NodeChanges()
SMALL = {"containers": [{"name": "c", "image": "e/x:1", "resources": {"requests": {"cpu": "1"}}}]}


def node(name: str, cpu: str = "4", labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return node_manifest(name, cpu, pods=20, labels=labels, **spec)


def pod(name: str, cpu: str = "1", owner: tuple[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    owners = {"ownerReferences": [{"kind": owner[0], "name": owner[1], "controller": True}]} if owner else {}
    return pod_manifest(name, cpu, metadata=owners, **spec)


def workload(kind: str, name: str, template: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    group = {"ReplicationController": "v1", "Job": "batch/v1", "CronJob": "batch/v1"}.get(kind, "apps/v1")
    labels = {"app": name}
    pods = dict(template or SMALL)
    if kind in ("Job", "CronJob"):
        pods = {"restartPolicy": "Never", **pods}
    body = {"template": {"metadata": {"labels": labels}, "spec": pods}, **spec}
    if kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        body["selector"] = {"matchLabels": labels}
    if kind == "ReplicationController":
        body["selector"] = labels
    metadata = {"name": name, "namespace": "default"}
    if kind == "CronJob":
        job = {key: body.pop(key) for key in ("template", "parallelism", "completions") if key in body}
        body |= {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
    return {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": body}


def scene(objects: Iterable[Mapping[str, Any]], live: Iterable[Mapping[str, Any]] = (), config: Any = None) -> Scene:
    inventory = Inventory()
    for obj in live:
        inventory.put(obj)
    made = Scene(inventory, [inventory.put(obj, applied=True) for obj in objects], config)
    made.load()
    return made


def ask(
    *objects: Mapping[str, Any],
    live: Iterable[Mapping[str, Any]] = (),
    changes: NodeChanges = NO_CHANGES,
    waiting: bool = False,
    config: Any = None,
) -> Answer:
    return simulate(scene(objects, live, config), changes, waiting=waiting)


def nodes_of(answer: Answer) -> dict[str, str | None]:
    return {outcome.pod.name: outcome.node for outcome in answer.pods}
