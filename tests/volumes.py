"""Objects about storage, pods that use them, and snapshots with both, in few words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Status
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from wharfinger.objects.model.storage import (
    ClaimKey,
    ClaimReference,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
)
from wharfinger.objects.model.storage_index import NO_STORAGE, Storage
from wharfinger.objects.model.surroundings import Surroundings
from wharfinger.objects.model.volumes import CsiVolume, PodClaim
from wharfinger.testing import builders

GIB = 1000 << 30
"""In the unit of the model: thousandths of a byte."""
ONCE = frozenset({"ReadWriteOnce"})
WAIT = StorageClass("wait", "csi.example.com", waits=True)
LOCAL = StorageClass("local", "kubernetes.io/no-provisioner", waits=True)
IMMEDIATE = StorageClass("immediate", "csi.example.com")
PROFILE = load_profiles(catalog=catalog())["default-scheduler"]


def claim(name: str = "data", **fields: Any) -> PersistentVolumeClaim:
    """A claim of the namespace `default` to 1 GiB of the class `wait`; other fields are those of the model."""
    key = ClaimKey(fields.pop("namespace", "default"), name)
    return PersistentVolumeClaim(
        key, **{"uid": f"uid-{name}", "storage_class": "wait", "access_modes": ONCE, "request": GIB, **fields}
    )


def bound_claim(name: str, volume_name: str, **fields: Any) -> PersistentVolumeClaim:
    """A claim that has its volume."""
    return claim(name, volume_name=volume_name, bound=True, phase="Bound", **fields)


def volume(name: str, size: int = 1, *, on: str = "", **fields: Any) -> PersistentVolume:
    """A free volume of `size` GiB of the class `wait`, local to the node `on` if that is given."""
    terms = term("kubernetes.io/hostname", on) if on else None
    return PersistentVolume(
        name,
        **{"capacity": size * GIB, "access_modes": ONCE, "storage_class": "wait", "node_terms": terms, **fields},
    )


def bound_volume(name: str, claim_name: str = "data", **fields: Any) -> PersistentVolume:
    """A volume that a claim of the namespace `default` has."""
    return volume(name, claim=reference(claim_name), phase="Bound", **fields)


def csi_volume(name: str, driver: str = "csi.example.com", claim_name: str = "data") -> PersistentVolume:
    """A bound volume with a driver; its handle is its name."""
    return bound_volume(name, claim_name, csi=CsiVolume(driver, name))


def reference(claim_name: str) -> ClaimReference:
    """What names a claim of `claim`."""
    return ClaimReference(ClaimKey("default", claim_name), f"uid-{claim_name}")


def term(key: str, *values: str) -> tuple[NodeSelectorTerm, ...]:
    """Node affinity: the label has one of the values."""
    return (NodeSelectorTerm((Requirement(key, Operator.IN, values),)),)


def selector(key: str, *values: str) -> LabelSelector:
    """A label selector: the label has one of the values."""
    return LabelSelector((Requirement(key, Operator.IN, values),))


def limited(node: str, count: int | None = 2, driver: str = "csi.example.com", *migrated: str) -> CsiNode:
    """A CSINode that allows so many volumes of a driver."""
    return CsiNode(node, ((driver, count),), frozenset(migrated))


def user(name: str = "p1", *claims: str | PodClaim, **fields: Any) -> Pod:
    """A pod that uses these claims."""
    named = tuple(one if isinstance(one, PodClaim) else PodClaim(one) for one in claims)
    return builders.pod(name, claims=named, **fields)


def host(name: str, **labels: str) -> Node:
    """A node labelled with its name; other labels by their short names (`zone`)."""
    return builders.node(name, labels={"kubernetes.io/hostname": name, **labels})


def storage(*things: StorageObject) -> Storage:
    """These objects, and the classes `wait`, `local` and `immediate`."""
    found = NO_STORAGE
    for thing in (WAIT, LOCAL, IMMEDIATE, *things):
        found = found.with_object(thing)
    return found


def cluster(*nodes: Node, around: Storage, **bound: list[Pod]) -> Snapshot:
    """The nodes with their pods; `bound`: pods by the name of their node."""
    infos = (NodeInfo.of(each, bound.get(each.name, [])) for each in nodes)
    return Snapshot.of(infos, 1, surroundings=Surroundings(storage=around))


Words = tuple[str, tuple[str, ...]]
"""Who refuses a node first, and its reasons."""


def refusal(pod: Pod, snapshot: Snapshot, node: str = "n1") -> Words | None:
    """Who refuses the node first, and with which words; None = nobody does."""
    return refusals(pod, snapshot, [node])[node]


def refusals(pod: Pod, snapshot: Snapshot, nodes: Iterable[str]) -> dict[str, Words | None]:
    """Who refuses each node first.

    Asked of all nodes at once, of each one, and in a decision over that node alone: all must say the same.
    """
    evaluation = PROFILE.evaluate(pod, snapshot, preempt=False)
    by_column = evaluation.verdicts()
    found = {}
    for node in nodes:
        alone = PROFILE.verify(pod, snapshot, node)
        refused = by_column[node].values()
        first = min(refused, key=lambda status: _ORDER.index(status.plugin)) if refused else None
        assert _said(first) == _said(None if alone.ok else alone)
        assert evaluation.verdicts_on(node) == by_column[node]
        found[node] = _said(first)
    return found


def _said(status: Status | None) -> Words | None:
    return None if status is None else (status.plugin, status.reasons)


_ORDER = list(PROFILE.at["filter"])
