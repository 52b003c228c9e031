"""The objects that a what-if question is about, as they were given or read, and who controls whom.

Everything stays a plain mapping: what decisions read of it is decoded by the simulator, when it is put there.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import mapping, mappings, text, text_map
from wharfinger.objects.documents.kinds import reference

Obj: TypeAlias = "Mapping[str, Any]"

HASH_LABEL = "pod-template-hash"
_MADE_BY_CRON_JOB = re.compile(r"(.+)-\d{8,}")
"""Names of Jobs that a CronJob makes end with the minute they were due."""


class Ref(NamedTuple):
    """Which object: kind, namespace (empty where the kind has none), name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace + '/' if self.namespace else ''}{self.name}"


class Inventory:
    """Objects by kind, namespace and name, in the order in which they came."""

    def __init__(self, default_namespace: str = "default") -> None:
        self._default_namespace = default_namespace
        self._objects: dict[Ref, Obj] = {}

    def put(self, obj: Obj, *, applied: bool = False) -> Ref:
        """Add an object, in the place of an older one of its name. Raises `InvalidObject`.

        `applied`: what only a cluster has stays where the object leaves it out: the status, and a pod's node.
        """
        about = reference(obj, self._default_namespace)
        ref = Ref(about.kind.name, about.namespace, about.name)
        if about.kind.namespaced and not mapping(obj, "metadata").get("namespace"):
            obj = {**obj, "metadata": {**mapping(obj, "metadata"), "namespace": about.namespace}}
        known = self._objects.get(ref) if applied else None
        self._objects[ref] = obj if known is None else _applied(known, obj)
        return ref

    def remove(self, ref: Ref) -> None:
        """Take an object out, if it is there."""
        self._objects.pop(ref, None)

    def get(self, ref: Ref) -> Obj | None:
        """An object; None when there is none."""
        return self._objects.get(ref)

    def __contains__(self, ref: object) -> bool:
        return ref in self._objects

    def __iter__(self) -> Iterator[tuple[Ref, Obj]]:
        return iter(self._objects.items())

    def of_kind(self, *kinds: str) -> list[tuple[Ref, Obj]]:
        """All objects of these kinds."""
        return [(ref, obj) for ref, obj in self._objects.items() if ref.kind in kinds]

    def free_name(self, kind: str, namespace: str, name: str) -> str:
        """The name, or the first like it with a number behind, that no object of the kind has."""
        candidates = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
        return next(free for free in candidates if Ref(kind, namespace, free) not in self._objects)

    def free_names(self, kind: str, namespace: str, stem: str) -> Iterator[str]:
        """`<stem>-1`, `<stem>-2`, ...: those that no object of the kind has when they are asked for."""
        candidates = (f"{stem}-{number}" for number in itertools.count(1))
        return (free for free in candidates if Ref(kind, namespace, free) not in self._objects)

    def controllers(self, ref: Ref, obj: Obj) -> Iterator[Ref]:
        """Who controls the object, and who controls that one, and so on, whether these are known or not.

        Raises `InvalidObject`.
        """
        seen = {ref}
        while (owner := controller(ref, obj)) is not None and owner not in seen:
            yield owner
            seen.add(owner)
            known = self._objects.get(owner)
            if known is None:
                implied = _implied(owner, obj)
                if implied is not None:
                    yield implied
                return
            ref, obj = owner, known


def controller(ref: Ref, obj: Obj) -> Ref | None:
    """The object's controller as its metadata names it; None when nothing controls it. Raises `InvalidObject`."""
    for index, owner in enumerate(mappings(mapping(obj, "metadata"), "ownerReferences", "metadata.")):
        if owner.get("controller") is True:
            where = f"metadata.ownerReferences[{index}]."
            kind = text(owner, "kind", where)
            return Ref(kind, "" if kind == "Node" else ref.namespace, text(owner, "name", where))
    return None


def labels_of(obj: Obj) -> Mapping[str, str]:
    """The object's labels. Raises `InvalidObject`."""
    return text_map(mapping(obj, "metadata"), "labels", "metadata.")


def affinity_terms(spec: Obj) -> Iterator[Obj]:
    """The terms about other pods, required and preferred, in the specification of a pod. Raises `InvalidObject`."""
    affinity = mapping(spec, "affinity", "spec.")
    for kind in ("podAffinity", "podAntiAffinity"):
        of_kind, where = mapping(affinity, kind, "spec.affinity."), f"spec.affinity.{kind}."
        yield from mappings(of_kind, "requiredDuringSchedulingIgnoredDuringExecution", where)
        for weighted in mappings(of_kind, "preferredDuringSchedulingIgnoredDuringExecution", where):
            yield mapping(weighted, "podAffinityTerm")


def node_of(obj: Obj) -> str:
    """The node that a pod is bound to; empty while it has none. Raises `InvalidObject`."""
    return text(mapping(obj, "spec"), "nodeName", "spec.")


def ended(obj: Obj) -> bool:
    """Whether a pod is finished or being deleted: its controller does not count on it any more."""
    phase = text(mapping(obj, "status"), "phase", "status.")
    return phase in ("Succeeded", "Failed") or bool(mapping(obj, "metadata").get("deletionTimestamp"))


def positive(value: object, path: str, most: int = 2**31 - 1) -> int:
    """A count out of a manifest. Raises `InvalidObject`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise InvalidObject(f"{path} is no integer between 0 and {most}")
    return value


def _applied(known: Obj, obj: Obj) -> Obj:
    merged = {**obj} if obj.get("status") or not known.get("status") else {**obj, "status": known["status"]}
    if known.get("kind") == "PersistentVolumeClaim":  # what binds it to a volume
        kept = {name: value for name, value in mapping(known, "metadata").items() if name in ("uid", "annotations")}
        merged["spec"] = {**mapping(known, "spec"), **mapping(obj, "spec")}
        merged["metadata"] = {**kept, **mapping(obj, "metadata")}
    node = mapping(known, "spec").get("nodeName") if known.get("kind") == "Pod" else None
    if node and not mapping(obj, "spec").get("nodeName"):
        merged["spec"] = {**mapping(obj, "spec"), "nodeName": node}
    return merged


def _implied(owner: Ref, obj: Obj) -> Ref | None:
    """Whose child the unknown controller is, by the way in which controllers name what they make."""
    if owner.kind == "ReplicaSet":
        made_for = labels_of(obj).get(HASH_LABEL, "")
        name = owner.name.removesuffix(f"-{made_for}")
        return Ref("Deployment", owner.namespace, name) if made_for and name != owner.name else None
    found = _MADE_BY_CRON_JOB.fullmatch(owner.name) if owner.kind == "Job" else None
    return Ref("CronJob", owner.namespace, found[1]) if found else None
