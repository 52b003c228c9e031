"""Claims that controllers make, and volumes that they bind to claims at once, before any pod is placed.

As in Kubernetes 1.36 (`pkg/controller/statefulset`, `pkg/controller/volume/ephemeral`, and
`pkg/controller/volume/persistentvolume`). A claim that does not wait for a pod gets the volume that it names or that is
kept for it, else the smallest that suits, else one that is made. Where that one is made cannot be known. It counts as
reachable from every node that the class allows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.objects.documents.fields import mapping, mappings, text, text_map
from wharfinger.objects.documents.storage import storage_object
from wharfinger.objects.model.storage import PersistentVolumeClaim, StorageClass
from wharfinger.objects.model.storage_index import Storage
from wharfinger.objects.model.volume_matching import offers_for, provisions, waits
from wharfinger.whatif.inventory import Inventory, Obj, Ref

CLAIM = "PersistentVolumeClaim"
_TEMPLATES = "volumeClaimTemplates"


def of_templates(ref: Ref, obj: Obj, pod_name: str) -> dict[str, Obj]:
    """The claims of one pod of a StatefulSet, by the names of its volumes. Raises `InvalidObject`."""
    found: dict[str, Obj] = {}
    for index, template in enumerate(mappings(mapping(obj, "spec"), _TEMPLATES, "spec.")):
        where = f"spec.{_TEMPLATES}[{index}]."
        volume = text(mapping(template, "metadata", where), "name", f"{where}metadata.")
        found[volume] = _claim(ref.namespace, f"{volume}-{pod_name}", template, where)
    return found


def of_ephemeral_volumes(ref: Ref, pod: Obj) -> Iterator[Obj]:
    """The claims of a pod's generic ephemeral volumes, which it owns. Raises `InvalidObject`."""
    for index, volume in enumerate(mappings(mapping(pod, "spec"), "volumes", "spec.")):
        if volume.get("ephemeral") is None:
            continue
        where = f"spec.volumes[{index}].ephemeral."
        template = mapping(mapping(volume, "ephemeral", where), "volumeClaimTemplate", where)
        owner = {"kind": "Pod", "name": ref.name, "controller": True}
        uid = text(mapping(pod, "metadata"), "uid", "metadata.")
        owner = {**owner, "uid": uid} if uid else owner
        name = f"{ref.name}-{text(volume, 'name', f'spec.volumes[{index}].')}"
        yield _claim(ref.namespace, name, template, f"{where}volumeClaimTemplate.", owner)


def named_by(ref: Ref, pod: Obj) -> Iterator[Ref]:
    """The claims that a pod's volumes name; not those of ephemeral ones. Raises `InvalidObject`."""
    for index, volume in enumerate(mappings(mapping(pod, "spec"), "volumes", "spec.")):
        where = f"spec.volumes[{index}].persistentVolumeClaim."
        name = text(mapping(volume, "persistentVolumeClaim", where[:-1]), "claimName", where)
        if name:
            yield Ref(CLAIM, ref.namespace, name)


def owned_by(ref: Ref, pod: Obj) -> Iterator[Ref]:
    """The claims of a pod's ephemeral volumes. Raises `InvalidObject`."""
    for claim in of_ephemeral_volumes(ref, pod):
        yield Ref(CLAIM, ref.namespace, claim["metadata"]["name"])


def _claim(
    namespace: str, name: str, template: Obj, where: str, owner: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    metadata = mapping(template, "metadata", where)
    about: dict[str, Any] = {
        "namespace": namespace,
        "name": name,
        "labels": text_map(metadata, "labels", f"{where}metadata."),
        "annotations": text_map(metadata, "annotations", f"{where}metadata."),
    }
    if owner:
        about["ownerReferences"] = [owner]
    spec = dict(mapping(template, "spec", where))
    return {"apiVersion": "v1", "kind": CLAIM, "metadata": about, "spec": spec}


_VOLUME = "PersistentVolume"


@dataclass(frozen=True, slots=True)
class BoundClaim:
    """A claim and its volume, bound to each other."""

    claim: Obj
    volume: Obj
    is_made: bool
    """Whether the volume was made for the claim, and was not there."""


def bound_at_once(ref: Ref, claim: Obj, inventory: Inventory, storage: Storage) -> BoundClaim | None:
    """The claim with its volume; None for one that waits for a pod, or for a volume. Raises `InvalidObject`.

    `storage`: what there is by now, the claim among it.
    """
    read = storage_object(claim, CLAIM, ref.namespace)
    assert isinstance(read, PersistentVolumeClaim)
    if read.bound or (waits(read, storage) and not read.volume_name):
        return None
    name = read.volume_name or _chosen(read, storage)
    known = inventory.get(Ref(_VOLUME, "", name)) if name else None
    if known is not None:
        reserved = mapping(mapping(known, "spec"), "claimRef", "spec.")
        is_other = reserved and (reserved.get("namespace"), reserved.get("name")) != (ref.namespace, ref.name)
        return None if is_other else _bound(ref, claim, known, is_made=False)
    found = storage.classes.get(read.storage_class)
    if name or found is None or not provisions(found):
        return None
    return _bound(ref, claim, _made(ref, claim, found), is_made=True)


def _chosen(claim: PersistentVolumeClaim, storage: Storage) -> str:
    """An existing volume; empty for none."""
    offers = offers_for(claim, storage)
    if offers.kept is not None:
        return offers.kept.name
    return offers.others[0].name if offers.others else ""


def _made(ref: Ref, claim: Obj, found: StorageClass) -> dict[str, Any]:
    name = f"pvc-{hashlib.sha256(str(ref).encode()).hexdigest()[:16]}"
    spec = mapping(claim, "spec")
    terms = [
        {"matchExpressions": [{"key": one.key, "operator": "In", "values": list(one.values)} for one in term]}
        for term in found.allowed_topologies
        if term
    ]
    return {
        "apiVersion": "v1",
        "kind": _VOLUME,
        "metadata": {"name": name},
        "spec": {
            "storageClassName": found.name,
            "accessModes": spec.get("accessModes"),
            "capacity": mapping(mapping(spec, "resources", "spec."), "requests", "spec.resources."),
            "csi": {"driver": found.provisioner, "volumeHandle": name},
            **({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}),
        },
    }


def _bound(ref: Ref, claim: Obj, volume: Obj, *, is_made: bool) -> BoundClaim:
    reference = {"namespace": ref.namespace, "name": ref.name}
    name = mapping(volume, "metadata")["name"]
    return BoundClaim(_with(claim, {"volumeName": name}), _with(volume, {"claimRef": reference}), is_made)


def _with(obj: Obj, spec: Mapping[str, Any]) -> Obj:
    return {**obj, "spec": {**mapping(obj, "spec"), **spec}, "status": {**mapping(obj, "status"), "phase": "Bound"}}
