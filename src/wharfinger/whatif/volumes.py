"""Volumes of claims that do not wait for a pod: controllers bind them at once, before any pod is placed.

As in Kubernetes 1.36 (`pkg/controller/volume/persistentvolume`): a claim gets the volume that it names or that is kept
for it, else the smallest that suits, else one that is made. Where that one is made cannot be known. It counts as
reachable from every node that the class allows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.objects.documents.fields import mapping
from wharfinger.objects.documents.storage import storage_object
from wharfinger.objects.model.storage import PersistentVolumeClaim, StorageClass
from wharfinger.objects.model.storage_index import Storage
from wharfinger.objects.model.volume_matching import offers_for, provisions, waits
from wharfinger.whatif.claims import CLAIM
from wharfinger.whatif.inventory import Inventory, Obj, Ref

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
        return _bound(ref, claim, known, is_made=False) if _is_free_for(ref, known) else None
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


def _is_free_for(ref: Ref, volume: Obj) -> bool:
    reference = mapping(mapping(volume, "spec"), "claimRef", "spec.")
    return not reference or (reference.get("namespace"), reference.get("name")) == (ref.namespace, ref.name)


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
